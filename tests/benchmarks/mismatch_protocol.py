"""The protocol of the study of the mismatch: what is run, under which seeds, judged by what. Pure.

Fixed before the results were made; docs/results/mismatch.md tells it in words. All arms of a seed
share starting weights, warm start and questions; those of one kind share the direction in which
the sampler is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Any, Literal

from swarmnode.config.training import Training
from tests.benchmarks.ordering import Ordering

Kind = Literal["exact", "noise", "quantised"]
Correction = Literal["none", "ppo-is", "truncated"]

KINDS: Sequence[Kind] = ("noise", "quantised")
SIZES = (0.005, 0.02, 0.1, 0.5)
"""Mean absolute difference between the sampler's log-probs and the policy's, nats a token."""
SEEDS = (400, 401, 402, 403, 404)
DEVELOPMENT_SEEDS = (40,)

CAP = 2.0
"""Of the truncated weight, as in verl; the study also counts where it would act without one."""
TRAINING: Mapping[str, Any] = MappingProxyType(
    {"learning_rate": 3e-4, "inner_steps": 2, "importance_cap": CAP}
)
"""With a second inner step the narrow clip has something to do under `truncated`, too."""
CORRECTIONS: Mapping[Correction, Mapping[str, Any]] = MappingProxyType(
    {
        "none": {},
        "ppo-is": {"ratio_denominator": "sampler"},
        # The sequence mask of DeepSeek-V3.2 is another correction: here it never acts.
        "truncated": {"local_correction": True, "off_policy_threshold": 1e9},
    }
)

TASK = Ordering(tuple("abcdefghijklmnopqrstuvwxyz"), 8)
LONGEST = 2 * TASK.length + 1
"""Tokens of `tiny`: letters, the spaces between them, the end; one more is cut off."""
MISTAKES = 0.08
"""Of the letters of the warm start's answers."""
PAIRS, STEPS = 4000, 400
ROUNDS, QUESTIONS, COMPLETIONS = 150, 8, 8
EVERY_ROUNDS = 10
EXAMINED = 200
LAST = 3
"""Evaluations at the end, whose mean is judged."""
SECONDS_A_RUN = 18.0
COLLAPSED = 0.5
"""A run has collapsed when it ends below this share of the success that it began with."""
COMPARED = (0.1, 0.5)
"""Sizes at which `truncated` is held against `ppo-is`; Holm's p over these, for both kinds."""


@dataclass(frozen=True, slots=True)
class MismatchRun:
    """One arm under one seed."""

    kind: Kind
    size: float
    """0 for `exact`."""
    correction: Correction
    seed: int
    rounds: int = ROUNDS

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.kind}-{self.size:g}-{self.correction}-seed{self.seed}-{self.rounds}"

    @property
    def training(self) -> Training:
        """The settings of the step."""
        return Training.model_validate({**TRAINING, **CORRECTIONS[self.correction]})


def runs_of(seeds: Sequence[int], rounds: int = ROUNDS) -> Iterator[MismatchRun]:
    """Every arm under every seed; without a mismatch all corrections are run as controls."""
    for seed in seeds:
        for correction in CORRECTIONS:
            yield MismatchRun("exact", 0.0, correction, seed, rounds)
        for kind, size, correction in product(KINDS, SIZES, CORRECTIONS):
            yield MismatchRun(kind, size, correction, seed, rounds)
