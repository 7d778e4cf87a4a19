"""The protocol of the study of generation and training apart: what is run, judged by what. Pure.

Fixed before the results were made; docs/results/split.md tells it in words. Every run is a node, or
a swarm of two, of real processes on this machine. It has the machine to itself, but for the swarms,
whose rounds are two seconds apart and a tenth of that is work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from swarmnode.config.rounds import Rounds

Part = Literal["speed", "swarm", "confirmation", "lag", "learning", "generators"]
PARTS: Sequence[Part] = ("speed", "swarm", "confirmation", "lag", "learning", "generators")

SEEDS = (500, 501, 502, 503, 504)
"""Of skills and of a lone node's questions; whatever else follows from time is as it comes."""
SPEED_REPEATS = 3
"""Of `speed`, under the first seeds: a pace is a median over rounds already."""
CONFIRMATION_SEEDS = tuple(range(505, 520))
"""Of `confirmation` alone, which asks anew what five seeds of `swarm` left open."""
DEVELOPMENT_SEEDS = (50,)
SWARMS_AT_ONCE = 10

QUESTIONS = Rounds().questions
WARM_ROUNDS = 2
"""Of each run, that no pace is taken of: the first batch of `split` overlaps with nothing."""
EVERY_ROUNDS = 10
EXAMINED = 50
"""Held-out questions of each task."""
EXAMINED_AGAIN = 100
"""Of each task in `confirmation` and `learning`: nearly all that easy fractions have held out."""
LAST = 3
"""Evaluations at the end, whose mean is a run's held-out success."""
MARGIN = -0.02
"""The lower end of the 95 % interval of held-out success, split less sync at as many own groups,
paired over seeds, must be above it. Of `confirmation` its own seeds alone count."""
LAGS = (0, 1, 2, 4, 8, 16)
GENERATORS = (1, 2, 3, 4)

TASKS = 'tasks.names=["basic_arithmetic", "fraction_simplification"]'
LEARNING = (
    TASKS,
    f"evaluation.every_rounds={EVERY_ROUNDS}",
    "training.learning_rate=3e-4",
    "daemon.checkpoint_seconds=100000",
)
"""Of all parts but `speed`, with `tiny`, whose training must show within a few minutes."""
FEW = (*LEARNING, f"evaluation.questions_per_task={EXAMINED}")
MANY = (*LEARNING, f"evaluation.questions_per_task={EXAMINED_AGAIN}")
ALONE = ("rounds.external_groups_per_round=0", "selection.filter=uniform")
PACING = (
    TASKS,
    *ALONE,
    "evaluation.questions_per_task=1",
    "evaluation.every_rounds=1000000",
    "daemon.checkpoint_seconds=100000",
    # SmolLM2 hardly ever solves these: its groups differ in length alone.
    "policy.examples=0",
    "rewards.channels.length.weight=1.0",
    "training.trained_groups=any_channel",
)
"""Of `speed`: nothing but rounds, with answers as long as they get and a step in each."""


@dataclass(frozen=True, slots=True)
class SplitRun:
    """One run."""

    part: Part
    arm: str
    settings: tuple[str, ...]
    seed: int
    rounds: int
    """That count towards paces; `WARM_ROUNDS` go before them."""
    nodes: int
    """1 is on its own."""

    @property
    def name(self) -> str:
        """Tells it from all others."""
        return f"{self.part}-{self.arm.replace(' ', '-')}-seed{self.seed}-{self.rounds}"


SYNC, SPLIT, BOTH = "sync", "split", "sync 2 threads"


def runs_of(seeds: Sequence[int], share: float, model: str = "smollm2-135m") -> Iterator[SplitRun]:
    """All runs under some of the seeds, arms in turns; `share` of the whole study's rounds."""
    for repeat, seed in enumerate(seeds):
        for part, rounds, nodes, arms in _parts(model):
            if part == "speed" and repeat >= SPEED_REPEATS:
                continue
            if (part == "confirmation") != (seed in CONFIRMATION_SEEDS):
                continue
            for arm, settings in arms:
                least = 2 if part == "speed" else LAST
                counted = max(least, round(rounds * share))
                yield SplitRun(part, arm, settings, seed, counted, nodes)


_Arms = Sequence[tuple[str, tuple[str, ...]]]


def _parts(model: str) -> Sequence[tuple[Part, int, int, _Arms]]:
    speed = (*PACING, f"policy.model={model}")
    split = "policy.mode=split"
    return (
        (
            "speed",
            4,
            1,
            (
                (SYNC, (*speed, "policy.threads=1")),
                (SPLIT, (*speed, split, "policy.threads=1")),
                (BOTH, (*speed, "policy.threads=2")),
            ),
        ),
        ("swarm", 200, 2, ((SYNC, FEW), (SPLIT, (*FEW, split)))),
        ("confirmation", 200, 2, ((SYNC, MANY), (SPLIT, (*MANY, split)))),
        ("lag", 150, 1, _lags(FEW)),
        ("learning", 600, 1, _lags(MANY)),
        (
            "generators",
            150,
            1,
            tuple((str(count), (*FEW, *ALONE, split, *_count(count))) for count in GENERATORS),
        ),
    )


def _lags(learning: tuple[str, ...]) -> _Arms:
    alone = (*learning, *ALONE)
    return (
        (SYNC, alone),
        *((str(lag), (*alone, "policy.mode=split", *_lag(lag))) for lag in LAGS),
    )


def _lag(lag: int) -> tuple[str, ...]:
    # As much room as the lag may need, so that it alone binds.
    room = QUESTIONS * (lag + 2)
    return (
        f"policy.max_policy_lag={lag}",
        "policy.generators=2",
        f"policy.queue_groups={room}",
    )


def _count(count: int) -> tuple[str, ...]:
    return ("policy.max_policy_lag=8", f"policy.generators={count}")
