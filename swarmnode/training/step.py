"""One round's update of one policy: `Trainer.step`.

Holds the optimizer and nothing else that lasts. The model, its settings and the sampling
temperature come by constructor; packing, advantages and losses are pure functions next door.
Invariants: micro-batches change neither loss nor gradient, because gradients of sums are added up
and divided once by the round's count; without a live group, or with a gradient that isn't finite,
parameters and optimizer state stay as they are, on all ranks; the old policy is the one at the
start of the round; what a step does follows from the count of steps before it, so that resuming is
exact.
Source: Algorithm 1 of the swarm sampling paper (arXiv 2509.08721).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from swarmnode.config.external import LogProbGate
from swarmnode.config.training import Training
from swarmnode.training.channels import ACCURACY_ALONE, ChannelSpread
from swarmnode.training.gating import gated, looked_at
from swarmnode.training.groups import (
    OUT,
    GradientWatcher,
    ReferenceModel,
    StepReport,
    TrainableModel,
    TrainingGroup,
    Treatment,
)
from swarmnode.training.log_prob_gate import Calibration, Gate, Looked
from swarmnode.training.memory import ActivationCost, measured_cost
from swarmnode.training.metrics import group_metrics, length_metrics
from swarmnode.training.passes import DROPPED, OUT_OF_MEMORY, RoundPasses
from swarmnode.training.plan import TrainedRow, plan_round
from swarmnode.training.ranks import ALONE, Ranks
from swarmnode.training.records import divisor, token_metrics
from swarmnode.training.schedule import learning_rate

SKIPPED_DEAD = "steps/skipped_no_live_group"
SKIPPED_NONFINITE = "steps/skipped_nonfinite_gradient"


class Trainer:
    """Trains one policy; a step changes the model's parameters in place.

    `temperature` is what the completions were sampled at; all log-probs are taken at it.
    `longest` is the most tokens that a completion may have, which `normalization` = `constant`
    needs; without a `gate` peers' log-probs are not looked at. Over several `ranks` the model is
    sharded, all are given the same, and the step is that of one; `cost`, where it has been measured
    already, is the whole model's. Raises ValueError where the settings need what isn't there.
    """

    def __init__(
        self,
        model: TrainableModel,
        settings: Training,
        temperature: float,
        channel_weights: Mapping[str, float] = ACCURACY_ALONE,
        longest: int | None = None,
        gate: LogProbGate | None = None,
        ranks: Ranks = ALONE,
        cost: ActivationCost | None = None,
    ) -> None:
        if temperature <= 0.0:
            raise ValueError(f"the sampling temperature must be positive, got {temperature}")
        if settings.kl_weight > 0.0 and not isinstance(model, ReferenceModel):
            raise ValueError("training.kl_weight above 0 needs a policy that keeps a reference")
        if longest is None and settings.normalization == "constant":
            raise ValueError("training.normalization = constant needs the longest completion")
        self._model = model
        self._settings = settings
        self._temperature = temperature
        self._channel_weights = dict(channel_weights)
        self._spread = ChannelSpread()
        self._longest = longest or 1
        self._gate = Gate(gate or LogProbGate(action="off"))
        self._parameters = [one for one in model.parameters() if one.requires_grad]
        self._optimizer = _optimizer(self._parameters, settings)
        self._device = self._parameters[0].device
        self._steps = 0
        self._ranks = ranks
        self._cost = cost

    @property
    def steps(self) -> int:
        """Optimizer steps taken so far: the policy's version."""
        return self._steps

    def step(
        self,
        groups: Sequence[TrainingGroup],
        watched: Sequence[TrainingGroup] = (),
        watcher: GradientWatcher | None = None,
    ) -> StepReport:
        """Trains on a round's groups, local and external, in any order.

        `watched` are groups of peers that are only held against the gate. A `watcher` sees the
        gradient of the first inner step, task by task; the order in which gradients add up is
        another one then, which changes roundings and nothing else.
        """
        plan = plan_round(groups, self._settings, self._channel_weights, self._spread)
        self._spread = plan.spread
        seen: list[Looked] = []
        if self._gate.measures:
            seen += chain(*self._look(watched, plan_round(watched, self._settings).rows).values())
        if self._gate.enforces:
            looked = self._look(groups, plan.rows)
            seen += chain(*looked.values())
            plan = gated(self._gate, plan, looked)
        tasks = [groups[row.group].task for row in plan.rows] if watcher else None
        passes = self._passes(plan.rows, tasks)
        metrics = {**group_metrics(plan.counts), **length_metrics(groups), **plan.channels}
        metrics, stepped = self._inner_steps(passes, metrics, watcher)
        if self._gate.measures and not self._gate.enforces:
            looked = looked_at(self._gate, groups, plan.rows, passes.old_logprobs)
            seen += chain(*looked.values())
        if self._gate.measures:
            metrics |= self._gate.figures(seen) | self._gate.calibrate(groups)
        treatments = list(plan.treatments)
        for row in passes.dropped:
            treatments[plan.rows[row].group] = Treatment(OUT, "out of memory")
        return StepReport(metrics, stepped, tuple(treatments), plan.advantages)

    def _look(
        self, groups: Sequence[TrainingGroup], rows: Sequence[TrainedRow]
    ) -> Mapping[int, Sequence[Looked]]:
        """What the gate sees of external rows, by a pass of its own; rows by their position."""
        places = [place for place, row in enumerate(rows) if row.external]
        if not places:
            return {}
        found = self._passes([rows[place] for place in places]).look()
        known = {places[at]: logprobs for at, logprobs in found.items()}
        return looked_at(self._gate, groups, rows, known)

    def _passes(
        self, rows: Sequence[TrainedRow], tasks: Sequence[str] | None = None
    ) -> RoundPasses:
        if self._settings.activation_limit_mib and self._cost is None:
            self._cost = measured_cost(self._model, self._device)
        return RoundPasses(
            self._model,
            self._settings,
            self._temperature,
            self._longest,
            rows,
            self._cost,
            tasks,
            self._ranks,
        )

    def state_dict(self) -> dict[str, Any]:
        """All that lasts but the model's parameters; the optimizer's state is in torch's form."""
        return {
            "steps": self._steps,
            "optimizer": self._optimizer.state_dict(),
            "channel_spread": self._spread.to_values(),
            "log_prob_gate": self._gate.calibration.to_values(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a copy of `state_dict()` of a trainer over a model of the same shape."""
        # The optimizer keeps the tensors that it is given: two trainers must not share moments.
        self._optimizer.load_state_dict(copy.deepcopy(dict(state["optimizer"])))
        self._steps = int(state["steps"])
        self._spread = ChannelSpread.from_values(state.get("channel_spread", {}))
        self._gate.calibration = Calibration.from_values(state.get("log_prob_gate", {}))

    def _inner_steps(
        self, passes: RoundPasses, metrics: dict[str, float], watcher: GradientWatcher | None
    ) -> tuple[dict[str, float], bool]:
        """The round's metrics with those given, and whether a step was taken."""
        records: list[Tensor] = []
        norms: list[float] = []
        steps_before = self._steps
        skipped: str | None = None
        while skipped is None and len(norms) < self._settings.inner_steps:
            # Later inner steps tell of the same groups under a policy that has moved already.
            made = passes.gradients(self._steps, None if norms else watcher)
            norm, skipped = self._apply(made) if made else (0.0, SKIPPED_DEAD)
            if made:
                records += made
                norms.append(norm)
        self._optimizer.zero_grad(set_to_none=True)
        taken = self._steps - steps_before
        metrics |= {name: float(name == skipped) for name in (SKIPPED_DEAD, SKIPPED_NONFINITE)}
        metrics |= {name: float(passes.counts[name]) for name in (OUT_OF_MEMORY, DROPPED)}
        metrics["steps/taken"] = float(taken)
        if norms:
            cap = self._settings.importance_cap
            metrics |= token_metrics(torch.cat(records, dim=1), inner_steps=len(norms), cap=cap)
            metrics["grad_norm"] = sum(norms) / len(norms)
            metrics["learning_rate"] = self._optimizer.param_groups[0]["lr"]
        finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
        return finite, taken > 0

    def _apply(self, records: Sequence[Tensor]) -> tuple[float, str | None]:
        """Steps on the mean gradient; its norm, and the metric to raise if it was no step."""
        gradients = [one.grad for one in self._parameters if one.grad is not None]
        summed = self._ranks.whole(torch.nn.utils.get_total_norm(gradients))
        length, count = torch.stack([summed, divisor(records)]).tolist()
        if count == 0.0:
            return 0.0, SKIPPED_DEAD
        norm = length / count
        if not math.isfinite(norm):
            return norm, SKIPPED_NONFINITE
        scale = min(1.0, self._settings.gradient_clip / max(norm, 1e-12)) / count
        for gradient in gradients:
            gradient.mul_(scale)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate(self._settings, self._steps)
        self._optimizer.step()
        self._steps += 1
        return norm, None


def _optimizer(parameters: Sequence[nn.Parameter], settings: Training) -> torch.optim.AdamW:
    """AdamW, fused where torch has it for the device."""

    def made(fused: bool) -> torch.optim.AdamW:
        return torch.optim.AdamW(
            parameters, lr=settings.rate, weight_decay=settings.weight_decay, fused=fused
        )

    try:
        return made(fused=True)
    except RuntimeError:
        return made(fused=False)
