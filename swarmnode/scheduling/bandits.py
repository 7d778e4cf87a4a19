"""Bandits over domains: `sec` and `dump`, made for reinforcement learning of reasoning.

Both are paid in what a domain's samples still teach, by default the mean |advantage| of its
groups. Departure of both from their papers: groups without a success or without a failure are not
left out but count with 0, which is what they teach; otherwise a domain that is nearly always
solved keeps the payment of its rare live groups.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from swarmnode.scheduling.scheduler import Outcome, Signal, State, signal_of
from swarmnode.scheduling.simplex import softmax


class Sec:
    """Self-Evolving Curriculum (arXiv 2505.14970, section 3).

    Q_i ← Q_i + α (r_i - Q_i) for the domains that a step saw; weights are softmax(Q / τ). The
    paper has α = 0.5 and, by experiment, τ = 1, 0.4 or 0.2.
    """

    def __init__(self, domains: int, *, rate: float, temperature: float, signal: Signal) -> None:
        """`rate` is α in (0, 1], `temperature` τ > 0."""
        self._values = [0.0] * domains
        self._rate = rate
        self._temperature = temperature
        self._signal = signal

    def weights(self, state: State) -> Sequence[float]:
        """softmax(Q / τ)."""
        return softmax(self._values, self._temperature)

    def update(self, outcome: Outcome) -> Mapping[str, float]:
        """Move the values of the domains that were seen."""
        for domain, reward in enumerate(signal_of(outcome, self._signal)):
            if reward is not None:
                self._values[domain] += self._rate * (reward - self._values[domain])
        return {}

    def state_dict(self) -> dict[str, Any]:
        """The values."""
        return {"values": list(self._values)}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """As Scheduler says."""
        self._values = list(saved["values"])


class Dump:
    """DUMP (arXiv 2504.09710, section 3.2): an upper confidence bound for each domain.

    score_i = mean of r over the last `window` samples of i + sqrt(2 ln(N + 1) / (n_i + 1)), with
    n_i samples so far and N of all domains; weights are softmax(score / τ), τ = 0.1 there.
    Departure: the samples of one step enter the window with their mean, which is what is known.
    """

    def __init__(self, domains: int, *, window: int, temperature: float, signal: Signal) -> None:
        """`window` is in samples, 300 in the paper."""
        self._recent: list[deque[tuple[float, float]]] = [deque() for _ in range(domains)]
        self._counts = [0.0] * domains
        self._window = window
        self._temperature = temperature
        self._signal = signal

    def weights(self, state: State) -> Sequence[float]:
        """softmax(score / τ)."""
        scores = [self._score(domain) for domain in range(len(self._counts))]
        return softmax(scores, self._temperature)

    def _score(self, domain: int) -> float:
        weight = sum(count for _, count in self._recent[domain])
        mean = sum(value * count for value, count in self._recent[domain]) / weight if weight else 0
        total = sum(self._counts)
        return mean + math.sqrt(2.0 * math.log(total + 1.0) / (self._counts[domain] + 1.0))

    def update(self, outcome: Outcome) -> Mapping[str, float]:
        """Take in a step's samples; the oldest beyond the window are forgotten."""
        rewards = signal_of(outcome, self._signal)
        for domain, (reward, count) in enumerate(zip(rewards, outcome.samples, strict=False)):
            if reward is None or not count:
                continue
            self._counts[domain] += count
            self._recent[domain].append((reward, count))
            _shorten(self._recent[domain], self._window)
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Windows and counts."""
        windows = [[list(pair) for pair in recent] for recent in self._recent]
        return {"recent": windows, "counts": list(self._counts)}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """As Scheduler says."""
        self._recent = [deque((value, count) for value, count in each) for each in saved["recent"]]
        self._counts = list(saved["counts"])


def _shorten(recent: deque[tuple[float, float]], window: float) -> None:
    """Forget the oldest samples beyond the window, part of a step if need be."""
    excess = sum(count for _, count in recent) - window
    while excess > 0:
        value, count = recent.popleft()
        if count > excess:
            recent.appendleft((value, count - excess))
        excess -= count
