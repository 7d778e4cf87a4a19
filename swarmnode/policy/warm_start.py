"""The supervised warm start: a random model learns to answer before it is rewarded for answering.

Only the tokens of the answer count in the loss, the end token included. The result depends on the
policy's weights and the arguments alone, so warm starts compose: a shared base, then specialists.
Knows question and answer texts; where they come from is not its affair.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn

from swarmnode.config.policy import WarmStartSettings
from swarmnode.policy.optimizer import Muon
from swarmnode.policy.policy import Policy
from swarmnode.policy.weights import WeightsCache, weights_digest
from swarmnode.progress import advanced

_CODE_VERSION = 2
"""Raise it whenever the same arguments would train to other weights."""
_BUCKET_BATCHES = 8
"""Batches among which pairs are sorted by length."""
_WARM_UP_SHARE = 0.1
_CLIP_NORM = 1.0
_ADAM_BETAS = (0.9, 0.98)

Encoded = tuple[list[int], list[int]]


@dataclass(frozen=True, slots=True)
class WarmStartPlan:
    """How to train on pairs; see config/policy.py for the fields' meanings."""

    steps: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    seed: int

    @classmethod
    def base(cls, settings: WarmStartSettings, seed: int) -> WarmStartPlan:
        """The plan of the base that all nodes share."""
        return cls(
            settings.base_steps,
            settings.batch_size,
            settings.learning_rate,
            settings.weight_decay,
            seed,
        )

    @classmethod
    def specialist(cls, settings: WarmStartSettings, seed: int) -> WarmStartPlan:
        """The plan of what a node learns after the base."""
        return cls(
            settings.steps,
            settings.batch_size,
            settings.skill_learning_rate,
            settings.weight_decay,
            seed,
        )


@dataclass(frozen=True, slots=True)
class WarmStartReport:
    """What a warm start did."""

    cached: bool
    """Whether the weights came from the cache."""
    loss: float
    """Mean loss in nats per answer token over the last tenth of the steps; NaN when cached."""


def warm_start(
    policy: Policy,
    pairs: Sequence[tuple[str, str]],
    plan: WarmStartPlan,
    cache: WeightsCache | None = None,
) -> WarmStartReport:
    """Train the policy, in place, on (question, answer) texts; 0 steps or no pairs change nothing.

    With a cache, weights that the same start and arguments once led to are taken from it.
    """
    if plan.steps == 0 or not pairs:
        return WarmStartReport(cached=False, loss=float("nan"))
    key = _key(policy, pairs, plan)
    if cache is not None and cache.load(key, policy.model):
        return WarmStartReport(cached=True, loss=float("nan"))
    loss = _train(policy, pairs, plan)
    if cache is not None:
        cache.store(key, policy.model)
    return WarmStartReport(cached=False, loss=loss)


def _key(policy: Policy, pairs: Sequence[tuple[str, str]], plan: WarmStartPlan) -> str:
    """Hash everything that shapes the result; the start weights stand for seed and base."""
    described = {
        "code": _CODE_VERSION,
        "torch": torch.__version__,
        "model": policy.model.config.to_diff_dict(),
        "tokenizer": policy.codec.fingerprint().hex(),
        "start": weights_digest(policy.model.state_dict()),
        "plan": asdict(plan),
        "pairs": list(pairs),
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def _train(policy: Policy, pairs: Sequence[tuple[str, str]], plan: WarmStartPlan) -> float:
    encoded = [
        (policy.encode_prompt(question), policy.encode_completion(answer, "stop"))
        for question, answer in pairs
    ]
    parameters = list(policy.parameters())
    matrices, others = _split(policy)
    muon = Muon(matrices)
    adam = torch.optim.AdamW(
        others, plan.learning_rate, _ADAM_BETAS, weight_decay=plan.weight_decay, fused=True
    )
    tail = max(1, plan.steps // 10)
    losses = []
    batches = _batches(encoded, plan.batch_size, random.Random(plan.seed))
    for step, batch in zip(range(plan.steps), batches, strict=False):
        advanced("teaching the model the form of the questions", step, plan.steps)
        share = _schedule(step, plan.steps)
        loss = _answer_loss(policy, batch)
        policy.model.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        torch.nn.utils.clip_grad_norm_(parameters, _CLIP_NORM)
        adam.param_groups[0]["lr"] = plan.learning_rate * share
        adam.step()
        muon.step(plan.learning_rate * share, plan.weight_decay)
        if step >= plan.steps - tail:
            losses.append(loss.item())
    policy.model.zero_grad()
    return sum(losses) / len(losses)


def _split(policy: Policy) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Separate the layers' matrices from embeddings, head and norms."""
    outside = {id(policy.head_weight), id(policy.model.get_input_embeddings().weight)}
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for parameter in policy.parameters():
        inside = parameter.ndim == 2 and id(parameter) not in outside
        (matrices if inside else others).append(parameter)
    return matrices, others


def _schedule(step: int, steps: int) -> float:
    """Rise over the first tenth, then fall in a line towards zero; in (0, 1]."""
    rise = max(1, round(steps * _WARM_UP_SHARE))
    return min((step + 1) / rise, (steps - step) / max(1, steps - rise), 1.0)


def _batches(
    encoded: Sequence[Encoded], batch_size: int, rng: random.Random
) -> Iterator[list[Encoded]]:
    """Yield batches of similar lengths without end, each pair once before any comes again."""
    while True:
        order = list(encoded)
        rng.shuffle(order)
        stretch = batch_size * _BUCKET_BATCHES
        for start in range(0, len(order), stretch):
            bucket = sorted(order[start : start + stretch], key=_length)
            batches = [bucket[i : i + batch_size] for i in range(0, len(bucket), batch_size)]
            rng.shuffle(batches)
            yield from batches


def _length(pair: Encoded) -> int:
    prompt, answer = pair
    return len(prompt) + len(answer)


def _answer_loss(policy: Policy, batch: Sequence[Encoded]) -> torch.Tensor:
    """Mean cross entropy in nats over the batch's answer tokens."""
    length = max(len(prompt) + len(answer) for prompt, answer in batch) - 1
    token_ids = torch.zeros(len(batch), length, dtype=torch.long)
    targets = torch.full((len(batch), length), -100)
    for row, (prompt, answer) in enumerate(batch):
        joined = torch.tensor(prompt + answer)
        token_ids[row, : len(joined) - 1] = joined[:-1]
        targets[row, len(prompt) - 1 : len(joined) - 1] = joined[len(prompt) :]
    counted = targets >= 0
    hidden = policy.causal_hidden(token_ids.to(policy.device))[counted.to(policy.device)]
    return F.cross_entropy(policy.head(hidden), targets[counted].to(policy.device))
