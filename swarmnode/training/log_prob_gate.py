"""The log-prob gate: does a peer's completion say what our own policy might have said?

Text that has nothing to do with the question can stand before a right answer, and a rule that
rewards the answer makes all of it likelier (arXiv 2511.09780). Where such text is not of a kind
that our policy writes, its tokens are unlikely under it. The figure is the share of a completion's
tokens of less than a small probability; its limit is a high quantile of the same share among our
own completions of late, for which nothing has to be computed: their log-probs are the sampler's.

Pure: knows log-probs and counts, no model. Limits: what our policy would not say is also what
makes sharing worth it, and whoever writes as our policy does passes.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from swarmnode.config.external import LogProbGate
from swarmnode.training.groups import TrainingGroup

KEPT = 400
"""Own completions of a task that are remembered."""
LEAST = 200
"""Fewer of a task say too little of a high quantile: then all tasks together are asked."""

Family = str
"""`same_tokenizer` or `other_tokenizer`: what of a peer's model is known without trusting it."""


def low_share(logprobs: Sequence[float], probability: float) -> float:
    """The share of tokens with less than that probability, in [0, 1]; 0 without tokens."""
    if not logprobs:
        return 0.0
    least = math.log(probability)
    return sum(value < least for value in logprobs) / len(logprobs)


def quantile(values: Sequence[float], which: float) -> float:
    """The smallest of the values that at most 1 - `which` of them exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(which * len(ordered)) - 1)]


@dataclass(frozen=True, slots=True)
class Looked:
    """A completion under our policy."""

    task: str
    family: Family
    share: float


class Calibration:
    """Shares of a node's own completions, by task."""

    def __init__(self) -> None:
        self._shares: dict[str, deque[float]] = {}
        self._limits: dict[tuple[str, float], float | None] = {}
        """By task and quantile, until something is taken in: sorting is for a round, not for each
        completion."""

    def observe(self, task: str, shares: Iterable[float]) -> None:
        """Take in own completions."""
        self._shares.setdefault(task, deque(maxlen=KEPT)).extend(shares)
        self._limits.clear()

    def limit(self, task: str, which: float) -> float | None:
        """The quantile, of the task where enough is known of it; None before enough is known."""
        if (task, which) not in self._limits:
            self._limits[task, which] = self._limit(task, which)
        return self._limits[task, which]

    def _limit(self, task: str, which: float) -> float | None:
        known: Sequence[float] = self._shares.get(task, ())
        if len(known) < LEAST:
            known = [share for shares in self._shares.values() for share in shares]
        return quantile(known, which) if len(known) >= LEAST else None

    def to_values(self) -> dict[str, list[float]]:
        """As plain values."""
        return {task: list(shares) for task, shares in self._shares.items()}

    @classmethod
    def from_values(cls, values: Mapping[str, Sequence[float]]) -> Calibration:
        """The inverse."""
        made = cls()
        for task, shares in values.items():
            made.observe(task, shares)
        return made


class Gate:
    """The settings with what is known of our own completions."""

    def __init__(self, settings: LogProbGate) -> None:
        self._settings = settings
        self.calibration = Calibration()

    @property
    def measures(self) -> bool:
        """Whether anything is looked at."""
        return self._settings.action != "off"

    @property
    def enforces(self) -> bool:
        """Whether what is past the limit is kept out of training."""
        return self._settings.action == "enforce"

    def looked(self, group: TrainingGroup, logprobs: Sequence[float]) -> Looked:
        """A completion of a peer's group with its log-probs under our policy."""
        family = "same_tokenizer" if group.same_tokenizer else "other_tokenizer"
        return Looked(group.task, family, low_share(logprobs, self._settings.probability))

    def over(self, looked: Looked) -> bool | None:
        """Whether it is past the limit; None as long as there is none."""
        limit = self.calibration.limit(looked.task, self._settings.quantile)
        return None if limit is None else looked.share > limit

    def figures(self, looked: Sequence[Looked]) -> dict[str, float]:
        """Counts by family, for the names in `TRAINING_METRICS`; empty without a limit."""
        counts: Counter[str] = Counter()
        for each in looked:
            over = self.over(each)
            if over is not None:
                counts[f"log_prob_gate/measured/{each.family}"] += 1
                counts[f"log_prob_gate/over/{each.family}"] += over
        return {name: float(count) for name, count in counts.items()}

    def calibrate(self, groups: Sequence[TrainingGroup]) -> dict[str, float]:
        """Take in a round's own completions; how many of them were over the limit before it."""
        measured = over = 0
        own: list[tuple[str, list[float]]] = []
        for group in groups:
            if group.source == "local" and group.sampler_logprobs is not None:
                known = [logprobs for logprobs in group.sampler_logprobs if logprobs]
                shares = [low_share(each, self._settings.probability) for each in known]
                own.append((group.task, shares))
                limit = self.calibration.limit(group.task, self._settings.quantile)
                if limit is not None:
                    measured += len(shares)
                    over += sum(share > limit for share in shares)
        for task, shares in own:
            self.calibration.observe(task, shares)
        if not measured:
            return {}
        return {
            "log_prob_gate/measured/own": float(measured),
            "log_prob_gate/over/own": float(over),
        }
