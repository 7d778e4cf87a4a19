"""Our packed step against a padded step through transformers, at the demo's shapes.

Both take the same 8 groups of 8 completions through a whole update: advantages, forward, clipped
loss, entropy, backward, gradient clipping, fused AdamW. The padded one is what trainers usually do:
one right-padded row per completion, logits at all completion positions. Completions are random
ids, so that no saving from equal completions is counted. Pairs are interleaved in one process.
Run with `python -m tests.benchmarks.engine_step`.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from swarmnode.config.policy import PolicySettings
from swarmnode.config.training import Training
from swarmnode.policy.loading import load_policy
from swarmnode.training import Trainer, TrainingGroup
from swarmnode.training.losses import token_statistics
from swarmnode.training.packing import TreeRow, pack
from tests.unit.training_support import captured_step

GROUPS, COMPLETIONS = 8, 8
PROMPT_TOKENS, COMPLETION_TOKENS = (9, 57), (1, 13)
TEMPERATURE = 0.9
SETTINGS = Training(warmup_steps=0)
MODEL = PolicySettings()


def demo_groups(vocabulary: int, seed: int = 0) -> list[TrainingGroup]:
    """Live groups with prompts and completions of the demo's lengths."""
    generator = random.Random(seed)

    def ids(low: int, high: int) -> tuple[int, ...]:
        # Not 0: transformers gives its padding token's embedding no gradient wherever it stands.
        length = generator.randint(low, high)
        return tuple(generator.randrange(1, vocabulary) for _ in range(length))

    return [
        TrainingGroup(
            prompt_ids=ids(*PROMPT_TOKENS),
            completions=tuple(ids(*COMPLETION_TOKENS) for _ in range(COMPLETIONS)),
            truncated=(False,) * COMPLETIONS,
            rewards=tuple(float(index <= group % 6) for index in range(COMPLETIONS)),
            source="local",
            task="demo",
        )
        for group in range(GROUPS)
    ]


class PaddedTrainer:
    """The usual step: one padded row per completion through transformers' own forward."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
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

    def backward(self, groups: Sequence[TrainingGroup]) -> tuple[float, float]:
        """Leaves the mean gradient in the parameters; loss and mean entropy."""
        rewards = torch.tensor([group.rewards for group in groups])
        deviation = rewards.std(dim=1, keepdim=True) + 1e-4
        advantages = ((rewards - rewards.mean(1, keepdim=True)) / deviation).reshape(-1, 1)
        logprobs, mask, entropies = self.logprobs(groups)
        ratio = (logprobs - logprobs.detach()).exp()
        clipped = ratio.clamp(1 - SETTINGS.clip_low, 1 + SETTINGS.clip_high)
        losses = -torch.minimum(ratio * advantages, clipped * advantages)
        loss = (losses * mask).sum() / mask.sum()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return float(loss.detach()), float((entropies * mask).sum() / mask.sum())

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


def agreement(groups: Sequence[TrainingGroup], model: PolicySettings) -> Agreement:
    """Compares log-probs and gradients of both steps on policies with equal random weights."""
    policy, reference = load_policy(model, 0), PaddedTrainer(load_policy(model, 0).model)
    packed = pack([TreeRow(one.prompt_ids, one.completions) for one in groups], torch.device("cpu"))
    hidden = policy.tree_hidden(packed.token_ids, packed.positions, packed.segments)
    logits = policy.head(hidden.flatten(0, 1)[packed.predictors])
    tokens = token_statistics(logits, packed.predictor_of_token, packed.targets, TEMPERATURE)
    chosen, mask, _ = reference.logprobs(groups)
    logprob_gap = (tokens.logprobs - chosen[mask]).detach().abs().max()

    unclipped = SETTINGS.model_copy(update={"gradient_clip": 1e9})
    ours, _ = captured_step(Trainer(policy, unclipped, TEMPERATURE), policy, groups)
    reference.backward(groups)
    theirs = torch.cat([one.grad.flatten() for one in reference.parameters if one.grad is not None])
    gradient_gap = (ours - theirs).abs().max() / theirs.abs().max()
    return Agreement(float(logprob_gap), float(gradient_gap))


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def measure(pairs: int = 30) -> dict[str, float]:
    """Medians of `pairs` interleaved steps of each kind on one thread, and their agreement."""
    torch.set_num_threads(1)
    policy = load_policy(MODEL, seed=0)
    groups = demo_groups(policy.codec.vocabulary_size)
    ours = Trainer(policy, SETTINGS, TEMPERATURE)
    padded = PaddedTrainer(load_policy(MODEL, seed=0).model)
    for _ in range(3):
        ours.step(groups)
        padded.step(groups)
    times = [
        (_seconds(lambda: ours.step(groups)), _seconds(lambda: padded.step(groups)))
        for _ in range(pairs)
    ]
    checked = agreement(groups, MODEL)
    return {
        "packed_ms": 1e3 * statistics.median(one for one, _ in times),
        "padded_ms": 1e3 * statistics.median(other for _, other in times),
        "times_faster": statistics.median(other / one for one, other in times),
        "logprob_difference": checked.logprobs,
        "gradient_difference": checked.gradient,
    }


def main() -> None:
    """Prints the table."""
    for name, value in measure().items():
        print(f"{name:22} {value:.3g}")


if __name__ == "__main__":
    main()
