"""How far answers get that solve nothing: the published baseline of each task and level.

The figures are written by `python -m tests.benchmarks.task_attack`; docs/tasks.md explains them.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources


def baseline(task: str, level: str) -> float | None:
    """Success in [0, 1] of the best constant answer or shallow rule; None where none was measured.

    Only the paper's nine tasks at levels easy and paper were measured.
    """
    return _baselines().get(f"{task}:{level}")


@cache
def _baselines() -> dict[str, float]:
    text = resources.files(__package__).joinpath("baselines.json").read_text("utf-8")
    return {name: float(success) for name, success in json.loads(text).items()}
