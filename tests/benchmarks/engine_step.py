"""Our packed step against a padded step through transformers.

Both take the same groups of 8 completions through a whole update: advantages, forward, clipped
loss, entropy, backward, gradient clipping, fused AdamW. The padded one is what trainers usually do:
one right-padded row per completion, micro-batches of so many rows, logits at all completion
positions. Completions are random ids, so that no saving from equal completions is counted. Pairs
are interleaved in one process and one thread; CPU seconds are counted.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from swarmnode.config.training import Training
from swarmnode.policy.policy import Policy
from swarmnode.training import Trainer, TrainingGroup
from swarmnode.training.losses import token_statistics
from swarmnode.training.packing import TreeRow, pack
from tests.benchmarks.engine_machine import seconds
from tests.benchmarks.engine_subject import Subject
from tests.unit.training_support import captured_step

TEMPERATURE = 0.9
SETTINGS = Training(warmup_steps=0, learning_rate=1e-5)
MIXED_LENGTHS = (64, 20, 35, 64, 12, 48, 64, 28)
"""Tokens of a group's completions: some cut off at 64, most not."""


def tiny_groups(vocabulary: int, seed: int = 0) -> list[TrainingGroup]:
    """Eight live groups with prompts and completions of the demo's lengths."""
    generator = random.Random(seed)
    return [
        _group(
            generator,
            vocabulary,
            generator.randint(9, 57),
            [generator.randint(1, 13) for _ in range(8)],
            successes=1 + group % 6,
        )
        for group in range(8)
    ]


def mixed_groups(vocabulary: int, prompts: Sequence[int], seed: int = 0) -> list[TrainingGroup]:
    """Live groups with prompts of these many tokens and completions of mixed lengths."""
    generator = random.Random(seed)
    return [_group(generator, vocabulary, length, MIXED_LENGTHS, successes=3) for length in prompts]


def groups_for(subject: Subject, model: str) -> list[TrainingGroup]:
    """Eight live groups that suit a subject, `tiny` or another model."""
    vocabulary = subject.policy.head_weight.shape[0]
    if model == "tiny":
        return tiny_groups(vocabulary)
    return mixed_groups(vocabulary, [len(prompt) for prompt in subject.prompts])


def _group(
    generator: random.Random,
    vocabulary: int,
    prompt: int,
    lengths: Sequence[int],
    successes: int,
) -> TrainingGroup:
    def ids(length: int) -> tuple[int, ...]:
        # Not 0: transformers gives its padding token's embedding no gradient wherever it stands.
        return tuple(generator.randrange(3, vocabulary) for _ in range(length))

    return TrainingGroup(
        prompt_ids=ids(prompt),
        completions=tuple(map(ids, lengths)),
        truncated=(False,) * len(lengths),
        rewards=tuple(float(index < successes) for index in range(len(lengths))),
        source="local",
        task="demo",
    )


class PaddedTrainer:
    """The usual step: one padded row per completion through transformers' own forward."""

    def __init__(self, model: nn.Module, groups_at_once: int) -> None:
        self.model = model
        self.groups_at_once = groups_at_once
        self.parameters = list(model.parameters())
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=SETTINGS.rate, weight_decay=0.0, fused=True
        )

    def logprobs(self, groups: Sequence[TrainingGroup]) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probs, mask and entropies, each (completions, longest completion)."""
        rows = [
            (group.prompt_ids, completion) for group in groups for completion in group.completions
        ]
        width = max(len(prompt) + len(completion) for prompt, completion in rows)
        longest = max(len(completion) for _, completion in rows)
        padded = [[*a, *b] + [0] * (width - len(a) - len(b)) for a, b in rows]
        token_ids = torch.tensor(padded)
        lengths = torch.tensor([len(a) + len(b) for a, b in rows])
        attention = (torch.arange(width) < lengths.unsqueeze(1)).long()
        starts = torch.tensor([len(prompt) for prompt, _ in rows]).unsqueeze(1)
        columns = torch.arange(longest)
        mask = columns < (lengths.unsqueeze(1) - starts)
        places = (starts + columns).clamp(max=width - 1)
        body, head = self.model.model, self.model.lm_head
        assert isinstance(body, nn.Module)
        assert isinstance(head, nn.Module)
        hidden = body(input_ids=token_ids, attention_mask=attention).last_hidden_state
        before = (places - 1).unsqueeze(2).expand(-1, -1, hidden.shape[2])
        distribution = (head(hidden.gather(1, before)).float() / TEMPERATURE).log_softmax(-1)
        targets = token_ids.gather(1, places)
        chosen = distribution.gather(2, targets.unsqueeze(2)).squeeze(2)
        with torch.no_grad():
            entropies = -(distribution.exp() * distribution).sum(-1)
        return chosen, mask, entropies

    def backward(self, groups: Sequence[TrainingGroup]) -> None:
        """Leaves the mean gradient in the parameters."""
        self.optimizer.zero_grad()
        count = sum(len(one) for group in groups for one in group.completions)
        for start in range(0, len(groups), self.groups_at_once):
            chosen = groups[start : start + self.groups_at_once]
            rewards = torch.tensor([group.rewards for group in chosen])
            deviation = rewards.std(dim=1, keepdim=True) + 1e-4
            advantages = ((rewards - rewards.mean(1, keepdim=True)) / deviation).reshape(-1, 1)
            logprobs, mask, entropies = self.logprobs(chosen)
            ratio = (logprobs - logprobs.detach()).exp()
            clipped = ratio.clamp(1 - SETTINGS.clip_low, 1 + SETTINGS.clip_high)
            losses = -torch.minimum(ratio * advantages, clipped * advantages)
            loss = (losses * mask).sum() / count
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            # What a trainer would log.
            float(loss.detach()), float((entropies * mask).sum())

    def step(self, groups: Sequence[TrainingGroup]) -> None:
        """One update."""
        self.backward(groups)
        nn.utils.clip_grad_norm_(self.parameters, SETTINGS.gradient_clip)
        self.optimizer.step()


@dataclass(frozen=True, slots=True)
class Agreement:
    """Largest differences between the two steps on the same weights."""

    logprobs: float
    """In nats."""
    gradient: float
    """Relative to the largest entry of the gradient."""


def agreement(groups: Sequence[TrainingGroup], policy: Policy, reference: Policy) -> Agreement:
    """Compares log-probs and gradients of both steps; the policies have equal weights.

    Both are one step further afterwards.
    """
    padded = PaddedTrainer(reference.model, groups_at_once=1)
    packed = pack([TreeRow(one.prompt_ids, one.completions) for one in groups], torch.device("cpu"))
    with torch.no_grad():
        hidden = policy.tree_hidden(packed.token_ids, packed.positions, packed.segments)
        logits = policy.head(hidden.flatten(0, 1)[packed.predictors])
        tokens = token_statistics(logits, packed.predictor_of_token, packed.targets, TEMPERATURE)
        given = [padded.logprobs([group]) for group in groups]
    expected = torch.cat([chosen[mask] for chosen, mask, _ in given])
    logprob_gap = (tokens.logprobs - expected).abs().max()

    unclipped = SETTINGS.model_copy(update={"gradient_clip": 1e9})
    ours, _ = captured_step(Trainer(policy, unclipped, TEMPERATURE), policy, groups)
    padded.backward(groups)
    theirs = torch.cat([one.grad.flatten() for one in padded.parameters if one.grad is not None])
    gradient_gap = (ours - theirs).abs().max() / theirs.abs().max()
    return Agreement(float(logprob_gap), float(gradient_gap))


@dataclass(frozen=True, slots=True)
class Step:
    """Medians over pairs of steps."""

    ours_seconds: float
    theirs_seconds: float
    speedup: float
    """The median of the pairs' ratios."""
    operations: float
    """Floating-point operations that our step cannot do without, attention left out."""
    agreement: Agreement


def measure(
    subject: Subject,
    groups: Sequence[TrainingGroup],
    pairs: int,
    *,
    groups_at_once: int,
    warm_steps: int = 1,
) -> Step:
    """Interleaved steps of each kind; their agreement is looked at first, on the first groups."""
    ours, other = subject.fresh(), subject.fresh()
    checked = agreement(groups[:2], ours, other)
    trainer = Trainer(ours, SETTINGS, TEMPERATURE)
    padded = PaddedTrainer(other.model, groups_at_once)
    for _ in range(warm_steps):
        trainer.step(groups)
        padded.step(groups)
    times = [
        (seconds(lambda: trainer.step(groups)), seconds(lambda: padded.step(groups)))
        for _ in range(pairs)
    ]
    return Step(
        ours_seconds=statistics.median(one for one, _ in times),
        theirs_seconds=statistics.median(other for _, other in times),
        speedup=statistics.median(other / one for one, other in times),
        operations=_operations(subject, groups),
        agreement=checked,
    )


def _operations(subject: Subject, groups: Sequence[TrainingGroup]) -> float:
    """Forward and backward of each group's prompt once and of its completions."""
    rows = [TreeRow(group.prompt_ids, group.completions) for group in groups]
    positions = sum(row.length for row in rows)
    predictors = positions - sum(len(row.prompt_ids) - 1 for row in rows)
    return 3.0 * (subject.body_operations * positions + subject.head_operations * predictors)
