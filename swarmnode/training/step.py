"""One round's update of one policy: `Trainer.step`.

Holds the optimizer and nothing else that lasts. The model, its settings and the sampling
temperature come by constructor; packing, advantages and losses are pure functions next door.
Invariants: micro-batches change neither loss nor gradient, because gradients of sums are added up
and divided once by the round's token count; without a live group, or with a gradient that isn't
finite, parameters and optimizer state stay as they are; the old policy is the one at the start of
the round. Source: Algorithm 1 of the swarm sampling paper (arXiv 2509.08721).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from swarmnode.config.training import Training
from swarmnode.training.channels import ACCURACY_ALONE, ChannelSpread
from swarmnode.training.groups import StepReport, TrainableModel, TrainingGroup
from swarmnode.training.losses import (
    clipped_loss,
    off_policy_keep,
    token_statistics,
    truncated_importance_weights,
)
from swarmnode.training.metrics import (
    group_metrics,
    kept_tokens,
    length_metrics,
    token_metrics,
    token_record,
)
from swarmnode.training.plan import TrainingBatch, plan_round, training_batches

SKIPPED_DEAD = "steps/skipped_no_live_group"
SKIPPED_NONFINITE = "steps/skipped_nonfinite_gradient"


class Trainer:
    """Trains one policy; a step changes the model's parameters in place.

    `temperature` is what the completions were sampled at; all log-probs are taken at it.
    """

    def __init__(
        self,
        model: TrainableModel,
        settings: Training,
        temperature: float,
        channel_weights: Mapping[str, float] = ACCURACY_ALONE,
    ) -> None:
        if temperature <= 0.0:
            raise ValueError(f"the sampling temperature must be positive, got {temperature}")
        self._model = model
        self._settings = settings
        self._temperature = temperature
        self._channel_weights = dict(channel_weights)
        self._spread = ChannelSpread()
        self._parameters = [one for one in model.parameters() if one.requires_grad]
        self._optimizer = torch.optim.AdamW(
            self._parameters,
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self._device = self._parameters[0].device
        self._steps = 0

    @property
    def steps(self) -> int:
        """Optimizer steps taken so far: the policy's version."""
        return self._steps

    def step(self, groups: Sequence[TrainingGroup]) -> StepReport:
        """Trains on a round's groups, local and external, in any order."""
        plan = plan_round(groups, self._settings, self._channel_weights, self._spread)
        self._spread = plan.spread
        metrics = {**group_metrics(plan.counts), **length_metrics(groups), **plan.channels}
        batches = training_batches(plan.rows, self._settings.micro_batch_tokens, self._device)
        return self._inner_steps(batches, metrics)

    def state_dict(self) -> dict[str, Any]:
        """All that lasts but the model's parameters; the optimizer's state is in torch's form."""
        return {
            "steps": self._steps,
            "optimizer": self._optimizer.state_dict(),
            "channel_spread": self._spread.to_values(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a copy of `state_dict()` of a trainer over a model of the same shape."""
        # The optimizer keeps the tensors that it is given: two trainers must not share moments.
        self._optimizer.load_state_dict(copy.deepcopy(dict(state["optimizer"])))
        self._steps = int(state["steps"])
        self._spread = ChannelSpread.from_values(state.get("channel_spread", {}))

    def _inner_steps(
        self, batches: Sequence[TrainingBatch], metrics: dict[str, float]
    ) -> StepReport:
        old: list[Tensor] = []
        records: list[Tensor] = []
        norms: list[float] = []
        steps_before = self._steps
        skipped = None if batches else SKIPPED_DEAD
        while skipped is None and len(norms) < self._settings.inner_steps:
            self._optimizer.zero_grad(set_to_none=True)
            # The first inner step sees every batch under the policy at the start of the round.
            passes = [
                self._backward(batch, old[index] if norms else None)
                for index, batch in enumerate(batches)
            ]
            old = old or [logprobs for _, logprobs in passes]
            norm, skipped = self._apply([record for record, _ in passes])
            records += [record for record, _ in passes]
            norms.append(norm)
        self._optimizer.zero_grad(set_to_none=True)
        taken = self._steps - steps_before
        metrics |= {name: float(name == skipped) for name in (SKIPPED_DEAD, SKIPPED_NONFINITE)}
        metrics["steps/taken"] = float(taken)
        if norms:
            metrics |= token_metrics(torch.cat(records, dim=1), inner_steps=len(norms))
            metrics["grad_norm"] = sum(norms) / len(norms)
            metrics["learning_rate"] = self._optimizer.param_groups[0]["lr"]
        finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
        return StepReport(finite, stepped=taken > 0)

    def _backward(self, batch: TrainingBatch, old: Tensor | None) -> tuple[Tensor, Tensor]:
        """Adds the gradient of the summed loss; what each token did, and its log-prob."""
        packed, settings = batch.packed, self._settings
        hidden = self._model.tree_hidden(packed.token_ids, packed.positions, packed.segments)
        logits = self._model.head(hidden.flatten(0, 1).index_select(0, packed.predictors))
        tokens = token_statistics(
            logits, packed.predictor_of_token, packed.targets, self._temperature
        )
        logprobs = tokens.logprobs.detach()
        frozen = logprobs if old is None else old
        weights, keep = self._corrections(batch, frozen)
        loss = clipped_loss(
            tokens.logprobs, frozen, batch.advantages, settings.clip_low, settings.clip_high
        )
        losses = loss.losses * (weights * keep)
        losses.sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        record = token_record(
            losses=losses.detach(),
            keep=keep,
            entropies=tokens.entropies,
            low_clipped=loss.low_clipped,
            high_clipped=loss.high_clipped,
            logprobs=logprobs,
            sampler_logprobs=batch.sampler_logprobs,
            external=batch.external,
            weights=weights,
            weighted=batch.weighted,
        )
        return record, logprobs

    def _corrections(self, batch: TrainingBatch, old: Tensor) -> tuple[Tensor, Tensor]:
        """Importance weight of each token and whether it stays (1.0 or 0.0)."""
        ones = torch.ones_like(old)
        if not batch.any_weighted:
            return ones, ones
        weights = truncated_importance_weights(
            old, batch.sampler_logprobs, self._settings.importance_cap
        )
        keep = off_policy_keep(
            batch.advantages,
            old,
            batch.sampler_logprobs,
            batch.packed.completion_of_token,
            self._settings.off_policy_threshold,
        )
        return weights.where(batch.weighted, ones), (keep | ~batch.weighted).to(old.dtype)

    def _apply(self, records: Sequence[Tensor]) -> tuple[float, str | None]:
        """Steps on the mean gradient; its norm, and the metric to raise if it was no step."""
        gradients = [one.grad for one in self._parameters if one.grad is not None]
        summed = torch.nn.utils.get_total_norm(gradients)
        length, tokens = torch.stack([summed, kept_tokens(records)]).tolist()
        if tokens == 0.0:
            return 0.0, SKIPPED_DEAD
        norm = length / tokens
        if not math.isfinite(norm):
            return norm, SKIPPED_NONFINITE
        scale = min(1.0, self._settings.gradient_clip / max(norm, 1e-12)) / tokens
        for gradient in gradients:
            gradient.mul_(scale)
        warmup = max(1, self._settings.warmup_steps)
        for group in self._optimizer.param_groups:
            group["lr"] = self._settings.learning_rate * min(1.0, (self._steps + 1) / warmup)
        self._optimizer.step()
        self._steps += 1
        return norm, None
