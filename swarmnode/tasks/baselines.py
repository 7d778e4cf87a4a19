"""How far answers get that solve nothing: the published baseline of each task and level.

The figures are written by `python -m tests.benchmarks.task_attack` for the paper's nine tasks and
by `tests.benchmarks.reward_table` for the others; docs/tasks.md explains them.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources


def baseline(task: str, level: str) -> float | None:
    """Success in [0, 1] of the best constant answer or shallow rule; None where none was measured.

    Of the paper's nine tasks rules that learn from other questions were tried as well.
    """
    return _baselines().get(f"{task}:{level}")


@cache
def _baselines() -> dict[str, float]:
    text = resources.files(__package__).joinpath("baselines.json").read_text("utf-8")
    return {name: float(success) for name, success in json.loads(text).items()}
