"""The log-prob gate over a round's plan: from rows with their log-probs to a plan without some.

Pure. A completion past the limit is left out by itself: whether there is a step for the others of
its group is not for one odd text to decide, and its reward has its place in their baseline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from swarmnode.training.groups import OUT, TrainingGroup, Treatment
from swarmnode.training.log_prob_gate import Gate, Looked
from swarmnode.training.plan import Plan, TrainedRow


def looked_at(
    gate: Gate,
    groups: Sequence[TrainingGroup],
    rows: Sequence[TrainedRow],
    logprobs: Mapping[int, Tensor],
) -> dict[int, list[Looked]]:
    """What the gate saw of each external row's completions, in order; rows by their position.

    `logprobs` are those of a row's tokens, one after the other, where they are known.
    """
    found: dict[int, list[Looked]] = {}
    for place, row in enumerate(rows):
        if row.external and place in logprobs:
            parts = torch.split(logprobs[place], [len(one.token_ids) for one in row.completions])
            found[place] = [gate.looked(groups[row.group], part.tolist()) for part in parts]
    return found


def gated(gate: Gate, plan: Plan, looked: Mapping[int, Sequence[Looked]]) -> Plan:
    """The plan without what is past the gate; `looked` as of the plan's rows."""
    rows: list[TrainedRow] = []
    treatments = list(plan.treatments)
    refused = 0
    for place, row in enumerate(plan.rows):
        passed = [not gate.over(one) for one in looked[place]] if place in looked else None
        if passed is None or all(passed):
            rows.append(row)
            continue
        kept = tuple(one for one, fine in zip(row.completions, passed, strict=True) if fine)
        refused += len(passed) - len(kept)
        if kept:
            rows.append(replace(row, completions=kept))
        else:
            treatments[row.group] = Treatment(OUT, "unlikely to our own policy")
    counts = {**plan.counts, "completions/gated_external": float(refused)}
    return replace(plan, rows=tuple(rows), treatments=tuple(treatments), counts=counts)
