"""The three rewards of HDS (arXiv 2606.24133), as its article has them and corrected, and one
more for a node: what a task's completions still teach, which a loss says nothing of. No torch.

Article: r_i = w_align r_align,i + w_div r_div,i + w_stab r_stab by domain, with weights 1, 10, 10.
How the vector becomes the scalar that a critic learns is not said there. Here it is Σ_i a_i r_i
with the shares a that the step was drawn by, so that the action gets the credit; the mean over
domains, as in the published code, is kept as a choice that shows what it does: with alignments
standardised over the domains it is 0 for every action.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swarmnode.config.scheduling import Hds
from swarmnode.scheduling.alignment import CLIP_ZSCORE, Products, alignments
from swarmnode.scheduling.mtld import relative
from swarmnode.scheduling.scheduler import ByDomain, Outcome, State

EPSILON = 1e-6
"""ε of the article's quotients, which it does not give."""

LEAST_DIVERSITY = 0.02
"""m is at least this in the corrected form: no text is simpler than one word again and again."""

USUAL_CHANGE_MEMORY = 0.95
"""Share of the old value in the usual change of the layers' norm."""


def paper_diversity(progress: float, diversity: float) -> float:
    """t' / (m + ε), the article's. It falls with m at every t' > 0, more steeply the later: the
    contrary of what the article says it does."""
    return progress / (diversity + EPSILON)


def curriculum_diversity(progress: float, diversity: float) -> float:
    """(1 - t')(1 - m) + t' m in [0, 1]: simple texts first, rich ones later, as the article says.

    Departure from its formula; m is at least LEAST_DIVERSITY.
    """
    m = max(LEAST_DIVERSITY, diversity)
    return (1.0 - progress) * (1.0 - m) + progress * m


def paper_stability(change: float, cap: float) -> float:
    """min(1 / (|Δ‖ω‖| + ε), cap), the article's: at usual learning rates always the cap."""
    return min(1.0 / (abs(change) + EPSILON), cap)


def relative_stability(change: float, usual: float) -> float:
    """exp(-|Δ‖ω‖| / usual) in (0, 1]. Departure from the article: free of the weights' scale."""
    return math.exp(-abs(change) / usual) if usual > 0.0 else 1.0


@dataclass(frozen=True, slots=True)
class Terms:
    """A step's rewards by domain, unweighted; those of what was not measured are 0."""

    alignment: Sequence[float]
    diversity: Sequence[float]
    stability: Sequence[float]
    learnability: Sequence[float]


@dataclass(frozen=True, slots=True)
class Reward:
    """What a step was worth."""

    scalar: float
    by_domain: Sequence[float]
    """The weighted sum of all, by domain."""
    metrics: Mapping[str, float]


class Rewards:
    """Computes the reward of each step; remembers what steps don't show."""

    def __init__(self, settings: Hds, domains: int) -> None:
        self._settings = settings
        self._products = Products(domains, settings.gradient_memory)
        self._diversity: list[float | None] = [None] * domains
        self._learnability: list[float | None] = [None] * domains
        self._norm: float | None = None
        self._usual_change = 0.0
        self._steps = 0
        self._saturated = {"alignment": 0.0, "diversity": 0.0, "stability": 0.0}

    def take(self, state: State, outcome: Outcome) -> Reward:
        """The reward of a step that began in `state`. Once for each step, in order."""
        terms = self._terms(state, outcome)
        weights = self._weights(learnability=bool(outcome.learnability))
        parts = {
            name: self._scalar([weights[name] * r for r in getattr(terms, name)], outcome.weights)
            for name in weights
        }
        by_domain = [
            math.fsum(weights[name] * getattr(terms, name)[i] for name in weights)
            for i in range(len(outcome.weights))
        ]
        self._count_saturated(terms)
        return Reward(math.fsum(parts.values()), by_domain, self._metrics(parts))

    def _weights(self, *, learnability: bool) -> dict[str, float]:
        chosen = self._settings
        weights = {
            "alignment": chosen.alignment_weight,
            "diversity": chosen.diversity_weight,
            "stability": chosen.stability_weight,
        }
        # Language modelling has none, and its metrics shouldn't tell of it.
        return weights | ({"learnability": chosen.learnability_weight} if learnability else {})

    def _scalar(self, rewards: Sequence[float], shares: Sequence[float]) -> float:
        if self._settings.scalarisation == "mean":
            return math.fsum(rewards) / len(rewards)
        return math.fsum(share * reward for share, reward in zip(shares, rewards, strict=True))

    def _terms(self, state: State, outcome: Outcome) -> Terms:
        domains = len(outcome.weights)
        self._products.take(outcome.gradient_products)
        table = self._products.table
        return Terms(
            alignment=alignments(table, self._settings.alignment) if table else [0.0] * domains,
            diversity=self._diversities(state, outcome.diversity),
            stability=[self._stability(outcome.layer_norms)] * domains,
            learnability=self._learnabilities(outcome.learnability),
        )

    def _diversities(self, state: State, shown: ByDomain) -> list[float]:
        for domain, value in enumerate(shown):
            if value is not None:
                self._diversity[domain] = relative(value, self._settings.diversity_limit)
        curriculum = self._settings.diversity == "curriculum"
        form = curriculum_diversity if curriculum else paper_diversity
        return [0.0 if m is None else form(state.progress, m) for m in self._diversity]

    def _learnabilities(self, shown: ByDomain) -> list[float]:
        """What a domain's samples last taught."""
        for domain, value in enumerate(shown):
            if value is not None:
                self._learnability[domain] = value
        return [value or 0.0 for value in self._learnability]

    def _stability(self, layer_norms: Sequence[float]) -> float:
        """0.0 at the first step, whose change nobody knows."""
        if not layer_norms:
            return 0.0
        norm = math.hypot(*layer_norms)
        before, self._norm = self._norm, norm
        if before is None:
            return 0.0
        change = abs(norm - before)
        usual = self._usual_change
        kept = USUAL_CHANGE_MEMORY if usual else 0.0
        self._usual_change = kept * usual + (1.0 - kept) * change
        if self._settings.stability == "paper":
            return paper_stability(change, self._settings.stability_cap)
        return relative_stability(change, self._usual_change)

    def _count_saturated(self, terms: Terms) -> None:
        """How much of each reward is at an end of its range, where it can't tell actions apart."""
        self._steps += 1
        domains = len(terms.alignment)
        ends = {"cosine": 0.999, "zscore": CLIP_ZSCORE}
        end = ends.get(self._settings.alignment, math.inf)
        at_end = sum(abs(value) >= end for value in terms.alignment)
        self._saturated["alignment"] += at_end / domains
        cut = sum(m is not None and not 0.0 < m < 1.0 for m in self._diversity)
        self._saturated["diversity"] += cut / domains
        paper = self._settings.stability == "paper"
        highest = self._settings.stability_cap if paper else 0.999
        self._saturated["stability"] += terms.stability[0] >= highest

    def _metrics(self, parts: Mapping[str, float]) -> dict[str, float]:
        total = math.fsum(abs(part) for part in parts.values())
        return {
            "scheduler/reward": math.fsum(parts.values()),
            **{
                f"scheduler/share/{name}": abs(part) / total if total else 0.0
                for name, part in parts.items()
            },
            **{
                f"scheduler/saturated/{name}": count / self._steps
                for name, count in self._saturated.items()
            },
        }

    def state_dict(self) -> dict[str, Any]:
        """All that is remembered."""
        return {
            "products": self._products.to_values(),
            "diversity": list(self._diversity),
            "learnability": list(self._learnability),
            "norm": self._norm,
            "usual_change": self._usual_change,
            "steps": self._steps,
            "saturated": dict(self._saturated),
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self._products.load_values(saved["products"])
        self._diversity = list(saved["diversity"])
        self._learnability = list(saved["learnability"])
        self._norm = saved["norm"]
        self._usual_change = saved["usual_change"]
        self._steps = saved["steps"]
        self._saturated = dict(saved["saturated"])
