"""The quality of peers: what share of each one's groups was of use lately. Pure.

Apart from the standing: this is told to the operator and is never a reason to mute anybody, since
an honest peer whose policy is worse, or better, than ours has few live groups too. What was counted
fades by half every HALF_LIFE_SECONDS, so that a peer that changed is seen to have changed. Bounded:
those heard of longest ago are forgotten first. Not kept over a restart. Times are seconds.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

PEERS = 1024
HALF_LIFE_SECONDS = 3600.0

_PRIOR = 1.0
"""Groups of use, and as many of no use, that everybody is taken to have given."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Of a peer's groups lately: how many came, and the shares of these that were of use."""

    groups: float
    """Fetched, the older ones counting less."""
    held: float
    """Whose question regenerated and that could be scored."""
    live: float
    """With successes and failures."""
    admitted: float
    """That entered the pool."""

    @property
    def score(self) -> float:
        """In (0, 1): the share that was admitted, near 0.5 where little is known."""
        return (self.groups * self.admitted + _PRIOR) / (self.groups + 2 * _PRIOR)


@dataclass(slots=True)
class _Counts:
    at: float
    fetched: float = 0.0
    held: float = 0.0
    live: float = 0.0
    admitted: float = 0.0

    def fade(self, now: float) -> None:
        left = 0.5 ** (max(now - self.at, 0.0) / HALF_LIFE_SECONDS)
        self.at = now
        self.fetched *= left
        self.held *= left
        self.live *= left
        self.admitted *= left


class Quality:
    """Of at most `capacity` peers."""

    def __init__(self, capacity: int = PEERS) -> None:
        self._capacity = capacity
        self._peers: OrderedDict[str, _Counts] = OrderedDict()

    def __len__(self) -> int:
        return len(self._peers)

    def note(
        self,
        peer: str,
        now: float,
        *,
        fetched: int = 0,
        held: int = 0,
        live: int = 0,
        admitted: int = 0,
    ) -> None:
        """Count groups of a peer."""
        counts = self._peers.setdefault(peer, _Counts(now))
        self._peers.move_to_end(peer)
        counts.fade(now)
        counts.fetched += fetched
        counts.held += held
        counts.live += live
        counts.admitted += admitted
        if len(self._peers) > self._capacity:
            self._peers.popitem(last=False)

    def of(self, peer: str, now: float) -> Shares | None:
        """The shares of a peer, None where none of its groups is remembered."""
        counts = self._peers.get(peer)
        if counts is None:
            return None
        counts.fade(now)
        total = counts.fetched
        if total <= 0.0:
            return None
        return Shares(total, counts.held / total, counts.live / total, counts.admitted / total)
