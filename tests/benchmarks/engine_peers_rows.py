"""What the whole-round benchmark measures, as plain values that docs/results/engine.json holds.

A run is one round of one contestant in a process of its own. A pair is a run of ours and, right
after it, one of a peer: ratios are taken within pairs, so that what slows the machine for minutes
slows both. Knows neither torch nor how a round is run.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

OURS = "swarmnode"
SWEEP = "sweep"
"""What a run is paired with that only chooses a peer's micro-batch."""

Outcome = Literal["measured", "out of memory"]


@dataclass(frozen=True, slots=True)
class Shape:
    """The round that everybody runs."""

    new_tokens: int
    forced: bool
    """Whether every completion has exactly `new_tokens`, instead of ending where it ends."""
    questions: int = 8
    completions: int = 8
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a round."""

    cpu_seconds: float
    """Of the whole process, all threads."""
    wall_seconds: float
    tera_flops: float
    """10^12 floating-point operations in products with the model's weights, attention left out."""
    passes: int
    """Forward passes through the whole model."""


@dataclass(frozen=True, slots=True)
class Run:
    """One round of one contestant."""

    contestant: str
    """`swarmnode`, `trl-N` or `genrl-N` with its micro-batch, or `genrl` as it comes."""
    against: str
    """The peer of the pair that the run belongs to, or SWEEP."""
    pair: int
    shape: Shape
    outcome: Outcome
    phases: Mapping[str, Phase]
    """`generate` and `train`, which is all the rest; empty unless measured."""
    figures: Mapping[str, float]
    """peak_mib: most resident memory of the process. sgemm_gflops and read_gigabytes: what one CPU
    second of this process reached in products and in reading, before the round. weight_bytes,
    prompt_tokens, completion_tokens, load, seconds (the whole process, loading included)."""
    began: str

    @property
    def cpu_seconds(self) -> float:
        """Of the round."""
        return sum(phase.cpu_seconds for phase in self.phases.values())

    @property
    def wall_seconds(self) -> float:
        """Of the round."""
        return sum(phase.wall_seconds for phase in self.phases.values())

    @property
    def place(self) -> tuple[Shape, str, int, str]:
        """What makes it this run and no other."""
        return self.shape, self.against, self.pair, self.contestant


@dataclass(frozen=True, slots=True)
class Pair:
    """A run of ours and the peer's right after it."""

    ours: Run
    theirs: Run

    @property
    def ratio(self) -> float:
        """How many times the CPU seconds of ours the peer took."""
        return self.theirs.cpu_seconds / self.ours.cpu_seconds

    @property
    def wall_ratio(self) -> float:
        """The same by the clock."""
        return self.theirs.wall_seconds / self.ours.wall_seconds


def pairs(runs: Sequence[Run], shape: Shape, peer: str) -> list[Pair]:
    """The pairs of which both runs were measured, in order."""
    of_ours: dict[int, Run] = {}
    of_theirs: dict[int, Run] = {}
    for run in runs:
        if run.shape == shape and run.against == peer and run.outcome == "measured":
            (of_ours if run.contestant == OURS else of_theirs)[run.pair] = run
    both = sorted(of_ours.keys() & of_theirs.keys())
    return [Pair(of_ours[number], of_theirs[number]) for number in both]


def median_ratio(found: Sequence[Pair]) -> float:
    """The median of the pairs' ratios, which is not the ratio of two medians."""
    return statistics.median(pair.ratio for pair in found)


def best_micro_batch(runs: Sequence[Run], shape: Shape) -> str | None:
    """The contestant of the sweep at this shape that took the fewest CPU seconds."""
    swept = [
        run
        for run in runs
        if run.shape == shape and run.against == SWEEP and run.outcome == "measured"
    ]
    return min(swept, key=lambda run: run.cpu_seconds).contestant if swept else None


def with_run(runs: Sequence[Run], run: Run) -> list[Run]:
    """The runs with this one in the place of an older one."""
    kept = [each for each in runs if each.place != run.place]
    return sorted([*kept, run], key=_order)


def _order(run: Run) -> tuple[object, ...]:
    shape = run.shape
    sizes = (shape.questions, shape.completions, shape.threads, shape.new_tokens)
    return (*sizes, run.against != SWEEP, run.against, run.pair, run.contestant != OURS)


def as_json(run: Run) -> dict[str, Any]:
    """Plain values."""
    return asdict(run)


def from_json(values: Mapping[str, Any]) -> Run:
    """The run of plain values."""
    phases = {name: Phase(**each) for name, each in values["phases"].items()}
    return Run(**{**values, "shape": Shape(**values["shape"]), "phases": phases})
