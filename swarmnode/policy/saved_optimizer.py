"""AdamW's state by parameter name: moments as tensors for a file of their own, the rest as scalars.

torch's own form counts parameters by their place. Knows no file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from swarmnode.config.base import Section
from swarmnode.policy.spreading import spread_like

_MOMENTS = ("exp_avg", "exp_avg_sq")


class Scalars(Section):
    """The scalars of AdamW."""

    steps: dict[str, float]
    """Updates so far, by parameter name."""
    learning_rates: list[float]
    """The last rate of each parameter group."""


def by_name(state: Mapping[str, Any], names: Sequence[str]) -> tuple[Mapping[str, Tensor], Scalars]:
    """Moments and scalars of torch's form of the state; `names` are the parameters' in order."""
    entries = {names[index]: entry for index, entry in state["state"].items()}
    moments = {
        f"{moment}.{name}": entry[moment].contiguous()
        for name, entry in entries.items()
        for moment in _MOMENTS
    }
    scalars = Scalars(
        steps={name: float(entry["step"]) for name, entry in entries.items()},
        learning_rates=[group["lr"] for group in state["param_groups"]],
    )
    return moments, scalars


def in_torchs_form(
    moments: Mapping[str, Tensor],
    scalars: Scalars,
    parameters: Mapping[str, nn.Parameter],
    live: Mapping[str, Any],
) -> dict[str, Any]:
    """The inverse, every name and shape checked; `live` is the state of the optimizer that is to
    go on, whose moments are spread as its parameters are. Raises ValueError, whose text says what
    the state is of instead."""
    steps = scalars.steps
    if moments.keys() != {f"{moment}.{name}" for name in steps for moment in _MOMENTS}:
        raise ValueError("moments of another optimizer")
    for key, moment in moments.items():
        parameter = parameters.get(key.split(".", 1)[1])
        if parameter is None or (parameter.shape, parameter.dtype) != (moment.shape, moment.dtype):
            raise ValueError(f"parameters of another model: {key} does not fit")
    if len(scalars.learning_rates) != len(live["param_groups"]):
        raise ValueError("other parameter groups")
    entries = {
        index: {
            moment: spread_like(moments[f"{moment}.{name}"], parameters[name])
            for moment in _MOMENTS
        }
        | {"step": torch.tensor(steps[name], dtype=torch.float32)}
        for index, name in enumerate(parameters)
        if name in steps
    }
    groups = [
        {**group, "lr": rate}
        for group, rate in zip(live["param_groups"], scalars.learning_rates, strict=True)
    ]
    return {"state": entries, "param_groups": groups}
