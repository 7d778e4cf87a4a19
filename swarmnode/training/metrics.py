"""What a step reports beside the figures that are taken over tokens (records.py): counts, lengths.

What the names mean stands in swarmnode.observe.training_metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swarmnode.observe.training_metrics import TRAINING_METRICS
from swarmnode.training.groups import TrainingGroup

_COUNTED = (
    "groups/",
    "corrections/",
    "completions/masked",
    "completions/excluded",
    "completions/gated",
)


def length_metrics(groups: Sequence[TrainingGroup]) -> dict[str, float]:
    """Lengths of all local completions, dead groups included; empty without any."""
    lengths = []
    terminated = []
    for group in groups:
        if group.source == "local":
            lengths += [len(completion) for completion in group.completions]
            terminated += [
                len(completion)
                for completion, cut in zip(group.completions, group.truncated, strict=True)
                if not cut
            ]
    if not lengths:
        return {}
    return {
        "completions/mean_length": sum(lengths) / len(lengths),
        "completions/min_length": float(min(lengths)),
        "completions/max_length": float(max(lengths)),
        "completions/clipped_ratio": 1.0 - len(terminated) / len(lengths),
        "completions/mean_terminated_length": (
            sum(terminated) / len(terminated) if terminated else 0.0
        ),
    }


def group_metrics(counts: Mapping[str, float]) -> dict[str, float]:
    """The plan's counts, zeros included, and the share of dead groups."""
    names = [name for name in TRAINING_METRICS if name.startswith(_COUNTED)]
    metrics = {name: counts.get(name, 0.0) for name in [*names, "completions/weighted_external"]}
    dead = metrics["groups/dead_local"] + metrics["groups/dead_external"]
    total = dead + metrics["groups/live_local"] + metrics["groups/live_external"]
    if total:
        metrics["frac_reward_zero_std"] = dead / total
    return metrics
