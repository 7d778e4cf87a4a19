"""Our round for the whole-round benchmark: the policy that the settings name, and its trainer.

The same classes that the policy host wires: the engine that is chosen for the model, and
`Trainer.step` with clipping and all metrics. No end token is passed where the length is forced.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from swarmnode.config.policy import PolicySettings
from swarmnode.config.training import Training
from swarmnode.policy.loading import load_policy
from swarmnode.policy.policy import Policy
from swarmnode.training import Trainer, TrainingGroup
from tests.benchmarks.engine_peers_meter import FORWARD, Meter, count_products, matrix_weights
from tests.benchmarks.engine_peers_work import (
    GRADIENT_CLIP,
    LEARNING_RATE,
    TEMPERATURE,
    Work,
    reward,
)

MICRO_BATCH_TOKENS = 512
"""One or two groups at a time: peers' micro-batches are chosen too, and memory is compared."""


class Counted:
    """A policy as the trainer sees it, whose products are counted."""

    def __init__(self, policy: Policy, meter: Meter) -> None:
        self._policy = policy
        self._meter = meter
        self._head = policy.head_weight.numel()
        self._body = matrix_weights(policy.model) - self._head

    def tree_hidden(self, token_ids: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        """The policy's."""
        hidden = self._policy.tree_hidden(token_ids, positions, segments)
        count_products(self._meter, self._body, token_ids.numel(), hidden)
        self._meter.count(0.0, passes=1)
        return hidden

    def head(self, hidden: Tensor) -> Tensor:
        """The policy's."""
        logits = self._policy.head(hidden)
        count_products(self._meter, self._head, hidden.shape[:-1].numel(), logits)
        return logits

    def parameters(self) -> Iterator[nn.Parameter]:
        """The policy's."""
        return self._policy.parameters()

    def count_generation(self, prompts: list[list[int]], lengths: list[int]) -> None:
        """Count the least that sampling takes: prompts once, and each token but the last."""
        sampled = sum(lengths) - len(lengths)
        positions = sum(map(len, prompts)) + sampled
        flops = self._body * positions + self._head * (len(prompts) + sampled)
        self._meter.count(FORWARD * flops, passes=max(lengths))


def measure(work: Work, meter: Meter) -> dict[str, float]:
    """Run one round; what was sampled and what the step reported."""
    settings = PolicySettings(model=work.model_folder, device="cpu", dtype="float32")
    policy = load_policy(settings, seed=0)
    return measure_policy(policy, work, meter)


def measure_policy(policy: Policy, work: Work, meter: Meter) -> dict[str, float]:
    """Run one round with a policy that is loaded."""
    counted = Counted(policy, meter)
    settings = Training(
        learning_rate=LEARNING_RATE,
        gradient_clip=GRADIENT_CLIP,
        warmup_steps=0,
        micro_batch_tokens=MICRO_BATCH_TOKENS,
    )
    trainer = Trainer(counted, settings, TEMPERATURE)
    generator = torch.Generator().manual_seed(work.seed)
    meter.start()
    prompts = [policy.encode_prompt(prompt) for prompt in work.prompts]
    with meter.generating():
        sampled = policy.engine.sample(
            prompts,
            work.completions,
            work.new_tokens,
            TEMPERATURE,
            () if work.forced else policy.codec.end_ids,
            generator,
        )
        lengths = [len(row.token_ids) for rows in sampled for row in rows]
        counted.count_generation(prompts, lengths)
    for rows in sampled:
        for row in rows:
            policy.codec.decode(row.token_ids)
    report = trainer.step(
        [
            TrainingGroup(
                prompt_ids=tuple(prompt),
                completions=tuple(row.token_ids for row in rows),
                # As if all had ended: what is cut off earns nothing, and a dead group saves work.
                truncated=(False,) * len(rows),
                rewards=tuple(reward(place) for place in range(len(rows))),
                source="local",
                task="benchmark",
                sampler_logprobs=tuple(row.logprobs for row in rows),
            )
            for prompt, rows in zip(prompts, sampled, strict=True)
        ]
    )
    meter.stop()
    if not report.stepped:
        raise RuntimeError(f"the round took no step: {dict(report.metrics)}")
    return {
        "prompt_tokens": sum(map(len, prompts)),
        "completion_tokens": sum(lengths),
        "weight_bytes": sum(one.numel() * one.element_size() for one in policy.parameters()),
        "grad_norm": report.metrics["grad_norm"],
    }
