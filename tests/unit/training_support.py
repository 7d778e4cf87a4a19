"""What the tests of training share: a tiny Llama in the trainer's form, groups, gradients."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.checkpoint import checkpoint
from transformers import LlamaConfig, LlamaForCausalLM

from swarmnode.config.training import Training
from swarmnode.training import TrainableModel, Trainer, TrainingGroup
from swarmnode.types import Source

VOCABULARY = 61


class TinyLlama:
    """transformers' Llama behind `TrainableModel`, with the tree mask as an explicit 4-D mask."""

    def __init__(
        self, seed: int = 0, vocabulary: int = VOCABULARY, width: int = 32, layers: int = 2
    ) -> None:
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=width,
            intermediate_size=4 * width,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            initializer_range=0.2,
            attn_implementation="sdpa",
        )
        self.llama = LlamaForCausalLM(config)

    def tree_hidden(self, token_ids: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        length = token_ids.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool).tril()
        own = segments.unsqueeze(2) == segments.unsqueeze(1)
        visible = causal & (own | (segments == 0).unsqueeze(1)) | torch.eye(length).bool()
        mask = torch.zeros(visible.shape).masked_fill(~visible, torch.finfo(torch.float32).min)
        output = self.llama.model(
            input_ids=token_ids, attention_mask=mask.unsqueeze(1), position_ids=positions
        )
        hidden: Tensor = output.last_hidden_state
        return hidden

    def head(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.llama.lm_head(hidden)
        return logits

    def parameters(self) -> Iterator[nn.Parameter]:
        yield from self.llama.parameters()

    def vector(self) -> Tensor:
        """All parameters in one vector."""
        return torch.cat([one.detach().flatten().clone() for one in self.parameters()])


class VersatileLlama(TinyLlama):
    """The same with what a policy may be able to do besides: a reference, and recomputation."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.start = copy.deepcopy(self.llama)
        self.recomputing = False
        self.recomputed = 0
        """Forward passes under recomputation."""

    @contextmanager
    def reference(self) -> Iterator[None]:
        now, self.llama = self.llama, self.start
        yield
        self.llama = now

    @contextmanager
    def recomputed_activations(self) -> Iterator[None]:
        self.recomputing = True
        yield
        self.recomputing = False

    def tree_hidden(self, token_ids: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        if not self.recomputing:
            return super().tree_hidden(token_ids, positions, segments)
        self.recomputed += 1
        plain = super().tree_hidden
        hidden: Tensor = checkpoint(plain, token_ids, positions, segments, use_reentrant=False)
        return hidden


def make_group(
    generator: random.Random,
    rewards: Sequence[float] = (1.0, 0.0, 0.0, 1.0),
    source: Source = "local",
    task: str = "counting",
    prompt: int | None = None,
) -> TrainingGroup:
    """A group of random ids with completions of 1 to 9 tokens, none cut off."""

    def ids(count: int) -> tuple[int, ...]:
        return tuple(generator.randrange(VOCABULARY) for _ in range(count))

    return TrainingGroup(
        prompt_ids=ids(prompt or generator.randint(3, 20)),
        completions=tuple(ids(generator.randint(1, 9)) for _ in rewards),
        truncated=(False,) * len(rewards),
        rewards=tuple(rewards),
        source=source,
        task=task,
    )


def make_groups(seed: int, count: int, source: Source = "local") -> list[TrainingGroup]:
    """Live groups with unlike pass rates."""
    generator = random.Random(seed)
    patterns = [(1.0, 0.0, 0.0, 1.0), (0.0, 0.0, 1.0), (1.0, 1.0, 0.0, 1.0, 1.0)]
    return [make_group(generator, patterns[index % 3], source) for index in range(count)]


def captured_step(
    trainer: Trainer, model: TrainableModel, groups: Sequence[TrainingGroup]
) -> tuple[Tensor, dict[str, float]]:
    """A step's gradient as the optimizer sees it, all parameters in one vector, and its metrics."""
    captured: list[Tensor] = []

    def capture(*_: object) -> None:
        gradients = [
            torch.zeros_like(one) if one.grad is None else one.grad for one in model.parameters()
        ]
        captured.append(torch.cat([gradient.flatten() for gradient in gradients]))

    handle = register_optimizer_step_pre_hook(capture)
    try:
        report = trainer.step(groups)
    finally:
        handle.remove()
    assert report.stepped
    return captured[0], dict(report.metrics)


def step_gradient(
    groups: Sequence[TrainingGroup], settings: Training, temperature: float = 1.0, seed: int = 0
) -> tuple[Tensor, dict[str, float]]:
    """The mean gradient, unclipped, that a step on a fresh model applies, and its metrics."""
    model = TinyLlama(seed)
    unclipped = settings.model_copy(update={"gradient_clip": 1e9})
    return captured_step(Trainer(model, unclipped, temperature), model, groups)


def naive_logprobs(
    model: TinyLlama, prompt: Sequence[int], completion: Sequence[int], temperature: float
) -> Tensor:
    """Log-prob of each token of a completion, one forward pass of its own per token."""
    collected = []
    for index, target in enumerate(completion):
        ids = torch.tensor([[*prompt, *completion[:index]]])
        logits: Tensor = model.llama(input_ids=ids).logits[0, -1] / temperature
        collected.append(logits.log_softmax(-1)[target])
    return torch.stack(collected)
