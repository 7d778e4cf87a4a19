"""Groups that are finished and wait to be trained on: each goes out once, or is dropped by name.

Pure: the moment and the lag of a version are passed in. The oldest version goes first, so that a
slow generator's groups don't wait behind those that were begun after them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from swarmnode.types import Scored


class Dropped(Enum):
    """Why a group of ours was not trained on; the values are those of docs/metrics.md."""

    LAG = "lag"
    """It was more than `policy.max_policy_lag` versions behind when its turn came."""
    AGE = "age"
    """It was older than `policy.max_age` then."""
    ROLLED_BACK = "rolled_back"
    """A guard-rail took the policy back that sampled it."""
    TRAINER_LOST = "trainer_lost"
    """The trainer was lost, or failed, while it trained on it, and may or may not have done so."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How stale a group may be when its turn comes."""

    lag: int
    """Versions."""
    age_seconds: float


@dataclass(frozen=True, slots=True)
class Waiting:
    """A group that waits."""

    scored: Scored
    begun: float
    """When its sampling began, in seconds since 1970."""

    @property
    def version(self) -> int:
        """Of the weights that sampled it."""
        return self.scored.group.policy.version


class ReadyQueue:
    """Holds at most what the throttle (throttle.py) lets be begun."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting: list[Waiting] = []
        self._least_version = 0
        self.put_in = 0
        """Groups since the start."""
        self.dropped: Counter[Dropped] = Counter()
        """Groups since the start, by reason."""

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, groups: Sequence[Scored], begun: float) -> None:
        """Add groups of one version whose sampling began then."""
        self.put_in += len(groups)
        self._waiting += [Waiting(scored, begun) for scored in groups]
        self._waiting.sort(key=lambda each: (each.version, each.begun))
        self._forget()

    def put_back(self, taken: Sequence[Waiting]) -> None:
        """Let what was taken, and not begun, wait again."""
        self._waiting += taken
        self._waiting.sort(key=lambda each: (each.version, each.begun))

    def take(self, count: int, now: float, lag: Callable[[int], int]) -> Sequence[Waiting]:
        """At most so many, the oldest version first; what has become stale is dropped."""
        taken: list[Waiting] = []
        while self._waiting and len(taken) < count:
            taken += self.fresh([self._waiting.pop(0)], now, lag)
        return taken

    def fresh(
        self, taken: Sequence[Waiting], now: float, lag: Callable[[int], int]
    ) -> list[Waiting]:
        """What was taken and not begun, less what has become stale meanwhile: that is dropped."""
        kept = []
        for each in taken:
            if lag(each.version) > self._limits.lag:
                self.dropped[Dropped.LAG] += 1
            elif now - each.begun > self._limits.age_seconds:
                self.dropped[Dropped.AGE] += 1
            else:
                kept.append(each)
        return kept

    def forget_before(self, version: int) -> None:
        """Drop what was sampled by earlier versions, also what is still to come of them."""
        self._least_version = version
        self._forget()

    def _forget(self) -> None:
        kept = [each for each in self._waiting if each.version >= self._least_version]
        self.dropped[Dropped.ROLLED_BACK] += len(self._waiting) - len(kept)
        self._waiting = kept
