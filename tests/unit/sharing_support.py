"""Rows and a protocol that a test chooses, for the tests of the study "Does sharing help?"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.benchmarks.sharing_runs import StudyProtocol
from tests.benchmarks.sharing_statistics import CommonAnswers, Row, Stage, StartEnd

TASKS = ("calendar_arithmetic", "propositional_logic")
GAINS = {
    "8/0": 0.0,
    "8/0 positive": 0.01,
    "8/0 dynamic": -0.004,
    "4/4 replay": 0.012,
    "4/4 both": -0.02,
    "4/4 positive": 0.03,
    "4/4 reference": 0.05,
    "6/2": 0.02,
    "2/6": 0.025,
}
"""What a made arm ends with above 8/0."""
PROTOCOL = StudyProtocol(
    arms={name: f"how {name} trains" for name in list(GAINS)[:7]},
    rates=(1e-4, 3e-4, 1e-3),
    development_seeds=(0, 1, 2),
    fresh_seeds=(100, 101, 102, 103),
    rounds=200,
    tasks=TASKS,
    baselines={TASKS[0]: 0.05, TASKS[1]: None},
)
ANSWERS: Sequence[tuple[str, int, int]] = (("(P ∨ Q)", 20, 18), ("a|`b`\n", 9, 0), ("", 4, 0))


def answers(share: float | None, right: int = 30) -> CommonAnswers:
    return {"right": right, "share": share, "expected": 0.25, "answers": list(ANSWERS)}


def row(
    arm: str = "8/0",
    seed: int = 100,
    *,
    end: float = 0.1,
    start: float = 0.04,
    stage: Stage = "main",
    rate: float = 3e-4,
    rounds: int = 200,
    loophole_seen: Mapping[str, int] | None = None,
) -> Row:
    success: StartEnd = {"start": start, "end": end}
    places = [0, *range(19, rounds, 19), rounds]
    heights = [start + (end - start) * place / rounds for place in places]
    return {
        "arm": arm,
        "stage": stage,
        "learning_rate": rate,
        "seed": seed,
        "rounds": rounds,
        "held_out": success,
        "greedy": {"start": start + 0.01, "end": end + 0.01},
        "own_tasks": {"start": 2 * start, "end": 1.5 * end},
        "other_tasks": {"start": start / 2, "end": end / 2},
        "entropy": {"start": 1.25, "end": 0.5},
        "by_task": dict.fromkeys(TASKS, success),
        "local_end": end + 0.02,
        "training_set_end": end + 0.2,
        "questions": 8.0,
        "live_own": 1.5,
        "live_external": 2.5,
        "tokens_generated": 123456.0,
        "tokens_trained": 45678.0,
        "steps": 180.0,
        "common": {task: {"start": answers(None, 3), "end": answers(0.6)} for task in TASKS},
        "loophole_seen": loophole_seen or {},
        "curve": {
            "rounds": places,
            "held_out": heights,
            "local": [None, *heights[1:]],
            "training_set": [None, *(height + 0.2 for height in heights[1:])],
        },
    }


def whole_study() -> list[Row]:
    """Every stage, with ends that differ by arm, seed and rate and are never random."""
    rows = [
        row(
            arm,
            seed,
            end=0.09 + 0.003 * seed + gain - abs(rate - 3e-4) * 20,
            stage="development",
            rate=rate,
        )
        for arm, gain in list(GAINS.items())[:7]
        for rate in PROTOCOL.rates
        for seed in PROTOCOL.development_seeds
    ]
    for number, seed in enumerate(PROTOCOL.fresh_seeds):
        for place, (arm, gain) in enumerate(GAINS.items()):
            end = 0.1 + 0.0071 * number + gain * (1 + 0.1 * ((number + place) % 3))
            stage: Stage = "main" if arm in PROTOCOL.arms else "mixes"
            rows.append(row(arm, seed, end=end, start=0.04 + 0.001 * number, stage=stage))
    for arm in ("8/0", "4/4 positive"):
        seen = {"propositional_logic": 57} if arm != "8/0" else {}
        for seed in PROTOCOL.fresh_seeds[:2]:
            rows.append(row(arm, seed, end=0.3, stage="loophole", loophole_seen=seen))
            rows.append(row(arm, seed, end=0.2 + GAINS[arm], stage="long", rounds=400))
    return rows
