"""Whether the libraries of the chosen trackers are there, without importing them."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence


def missing_tracker(names: Sequence[str]) -> str:
    """One line for the user about the first that is not installed; "" where all are."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            return (
                f"metrics.trackers names {name}, which is not installed; "
                f"`pip install 'swarmnode-rl[{name}]'` brings it, and without it the rounds are in "
                "rounds.jsonl all the same"
            )
    return ""
