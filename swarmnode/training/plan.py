"""Who is trained on, and how: from a round's groups to rows with their advantages.

Pure Python and small tensors on the CPU. Decides what is left to the settings `local_advantage`,
`external_advantage` and `mask_truncated`, and which correction a group gets; knows no model and no
optimizer. Invariants: whatever doesn't count is left out of the rows altogether, so that its tokens
are neither in the loss nor in its denominator; the rows of local groups don't depend on the
external ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swarmnode.config.training import Training
from swarmnode.training.channels import ACCURACY_ALONE, ChannelSpread, round_advantages
from swarmnode.training.corrections import Level, picked_correction, usable_logprobs
from swarmnode.training.groups import OUT, TrainingGroup, Treatment
from swarmnode.training.packing import TreeRow


@dataclass(frozen=True, slots=True)
class TrainedCompletion:
    """A completion of at least one token that enters the loss."""

    token_ids: tuple[int, ...]
    advantage: float
    sampler_logprobs: tuple[float, ...] | None
    """As long as `token_ids` and finite, or None."""
    total_logprob: float
    """NaN where it isn't used."""


@dataclass(frozen=True, slots=True)
class TrainedRow:
    """What is trained on of one live group."""

    group: int
    """Its position among the round's groups."""
    prompt_ids: tuple[int, ...]
    external: bool
    peer: int
    """0 for our own; peers are numbered from 1, so that metrics can tell them apart."""
    level: Level
    completions: tuple[TrainedCompletion, ...]

    @property
    def tree(self) -> TreeRow:
        """The row's token ids."""
        return TreeRow(self.prompt_ids, tuple(one.token_ids for one in self.completions))

    @property
    def tokens(self) -> int:
        """Trained tokens of the row."""
        return sum(len(one.token_ids) for one in self.completions)

    @property
    def token_advantages(self) -> list[float]:
        """The advantage of each trained token."""
        return [one.advantage for one in self.completions for _ in one.token_ids]


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows of a round, and how many groups and completions became what."""

    rows: tuple[TrainedRow, ...]
    treatments: tuple[Treatment, ...]
    """One for each of the round's groups, in their order."""
    advantages: tuple[tuple[float, ...], ...]
    """Likewise, each completion's within its group; empty for a group left out beforehand."""
    counts: Mapping[str, float]
    """Under names of `TRAINING_METRICS`."""
    channels: Mapping[str, float]
    """The channels' metrics, under such names too."""
    spread: ChannelSpread
    """What the next round begins with."""


def plan_round(
    groups: Sequence[TrainingGroup],
    settings: Training,
    channel_weights: Mapping[str, float] = ACCURACY_ALONE,
    spread: ChannelSpread | None = None,
) -> Plan:
    """Drops dead groups, whatever `settings` doesn't let count, and peers' oversized groups.

    `spread` is that of the plan of the round before.
    """
    off = settings.external_advantage == "off"
    places = [at for at, group in enumerate(groups) if not off or group.source == "local"]
    treatments = [Treatment(OUT, "external_advantage=off")] * len(groups)
    advantages: list[tuple[float, ...]] = [()] * len(groups)
    groups = [groups[place] for place in places]
    worth = round_advantages(groups, settings, channel_weights, spread)
    counts: Counter[str] = Counter()
    peers = sorted({group.origin for group in groups if group.source == "external"})
    rows = []
    for place, group, live, values, credited in zip(
        places,
        groups,
        worth.live.tolist(),
        worth.values.tolist(),
        worth.credited.tolist(),
        strict=True,
    ):
        counts[f"groups/{'live' if live else 'dead'}_{group.source}"] += 1
        # The matrix of advantages is as wide as the widest group.
        advantages[place] = tuple(values[: len(group.completions)])
        if not live:
            treatments[place] = Treatment(OUT, "all rewards equal")
            continue
        picked = picked_correction(group, settings)
        completions = _trained_completions(group, picked.level, values, credited, settings, counts)
        external = group.source == "external"
        peer = 1 + peers.index(group.origin) if external else 0
        row = TrainedRow(place, group.prompt_ids, external, peer, picked.level, completions)
        if not completions:
            treatments[place] = Treatment(OUT, f"{picked.level} leaves no completion")
        elif external and row.tree.length > settings.external_group_tokens:
            # Attention's memory grows with the square: a stranger's group must not exhaust it.
            counts["groups/oversized_external"] += 1
            treatments[place] = Treatment(OUT, "longer than external_group_tokens")
        else:
            treatments[place] = Treatment(picked.level, picked.why)
            counts[f"corrections/{row.level}"] += external
            rows.append(row)
    numbers = {name: float(count) for name, count in counts.items()}
    return Plan(
        tuple(rows), tuple(treatments), tuple(advantages), numbers, worth.metrics, worth.spread
    )


def _trained_completions(
    group: TrainingGroup,
    level: Level,
    group_advantages: Sequence[float],
    credited: Sequence[bool],
    settings: Training,
    counts: Counter[str],
) -> tuple[TrainedCompletion, ...]:
    """Those of a live group that enter the loss; `counts` takes why others don't."""
    if level == "off":
        counts[f"completions/masked_{group.source}"] += len(group.completions)
        return ()
    unknown = (None,) * len(group.completions)
    external = group.source == "external"
    positive = level == "positive" or (not external and settings.local_advantage == "positive")
    completions = []
    for position, token_ids in enumerate(group.completions):
        if position in group.excluded:
            counts[f"completions/excluded_{group.source}"] += 1
            continue
        advantage = group_advantages[position]
        cut = settings.mask_truncated and group.truncated[position]
        worse = advantage <= 0.0 or (external and not credited[position])
        if not token_ids or cut or (positive and worse):
            counts[f"completions/masked_{group.source}"] += 1
            continue
        if external and level in ("full", "gate"):
            counts["completions/weighted_external"] += 1
        logprobs = (group.sampler_logprobs or unknown)[position]
        total = (group.total_logprobs or unknown)[position] if level == "gate" else None
        completions.append(
            TrainedCompletion(
                token_ids,
                advantage,
                logprobs if usable_logprobs(logprobs, len(token_ids)) else None,
                math.nan if total is None else total,
            )
        )
    return tuple(completions)
