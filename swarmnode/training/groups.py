"""What the training step takes and gives: groups as token ids, the model's form, the report.

Ids are always those of our own tokenizer: completions of peers are re-encoded from their text
before they get here. Knows nothing of questions, scores, peers' keys or the wire.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from swarmnode.types import Source

ACCURACY = "accuracy"
"""The channel that every group has, and that alone says whether a group is live."""


@dataclass(frozen=True, slots=True)
class TrainingGroup:
    """The completions of one question, ready to be trained on.

    Raises ValueError for an empty prompt or for parts of different lengths.
    """

    prompt_ids: tuple[int, ...]
    completions: tuple[tuple[int, ...], ...]
    """Token ids as sampled, the end token included where it was sampled; may be empty."""
    truncated: tuple[bool, ...]
    """True where a completion was cut off before its end token; such a one counts as reward 0."""
    rewards: tuple[float, ...]
    """The accuracy channel in [0, 1]; NaN where a completion could not be scored, which gives it
    the advantage 0."""
    source: Source
    task: str
    sampler_logprobs: tuple[tuple[float, ...] | None, ...] | None = None
    """Log-probs in nats under the policy that sampled, one per token id, None where unknown. Given
    only if the sampler's tokenizer is ours and it sampled from the whole distribution (no top-p)
    at our temperature; unfit ones are treated as unknown."""
    total_logprobs: tuple[float | None, ...] | None = None
    """Log-probs in nats of whole completions under the policy that sampled, whatever its tokenizer,
    None where unknown; the end token is included where it was sampled."""
    same_tokenizer: bool = True
    """Whether the sampler's tokenizer is ours, by its fingerprint."""
    origin: str = ""
    """Who sampled it, as metrics may tell peers apart: one text for each peer."""
    further_channels: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """What else completions may be paid for, by name: finite, or NaN where it could not be told.
    Not zeroed for truncated completions: a channel may be about their length."""
    excluded: frozenset[int] = frozenset()
    """Positions of completions that a guard-rail keeps out of the loss; their rewards count in
    the baseline all the same."""

    def __post_init__(self) -> None:
        if not self.prompt_ids:
            raise ValueError("a group needs a prompt of at least one token")
        if ACCURACY in self.further_channels:
            raise ValueError("the accuracy channel is `rewards`")
        expected = len(self.completions)
        given = [len(self.truncated), *map(len, self.channels.values())]
        given += [
            len(known)
            for known in (self.sampler_logprobs, self.total_logprobs)
            if known is not None
        ]
        if any(length != expected for length in given):
            raise ValueError(
                f"{expected} completions need as many flags, rewards and log-probs, got {given}"
            )

    @property
    def channels(self) -> Mapping[str, tuple[float, ...]]:
        """All rewards by channel, `accuracy` first; one reward per completion."""
        return {ACCURACY: self.rewards, **self.further_channels}


class TrainableModel(Protocol):
    """What the step asks of a policy; deterministic (no dropout), with gradient."""

    def tree_hidden(self, token_ids: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        """Final hidden states, (rows, length, width), of packed rows of (rows, length) int64.

        Segment 0 is the prompt, k >= 1 the k-th completion, -1 padding. A token sees itself and
        the earlier tokens of its row whose segment is 0 or its own; `positions` are its rotary or
        absolute positions.
        """
        ...

    def head(self, hidden: Tensor) -> Tensor:
        """Logits, (..., vocabulary), of hidden states (..., width)."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """The parameters, always in the same order; those that need no gradient stay fixed."""
        ...


@runtime_checkable
class ReferenceModel(Protocol):
    """A model that can also be what it was when training began; `kl_weight` needs one."""

    def reference(self) -> AbstractContextManager[object]:
        """While entered, `tree_hidden` and `head` are those of the reference policy."""
        ...


@runtime_checkable
class RecomputingModel(Protocol):
    """A model that can trade time for memory."""

    def recomputed_activations(self) -> AbstractContextManager[object]:
        """While entered, `tree_hidden` keeps the inputs of its layers and no more; what lies within
        is computed again for the backward pass, which may come later. Results are the same."""
        ...


class GradientWatcher(Protocol):
    """Sees the gradient of a step grow, task by task; it must change nothing."""

    def begin(self) -> None:
        """The parameters' gradients have been cleared; what was seen before doesn't count."""
        ...

    def took(self, task: str, weight: float) -> None:
        """All groups of a task have been added to the gradients, none of another since the last
        call; `weight` is what the task's summed loss is to be divided by for its mean."""
        ...


@dataclass(frozen=True, slots=True)
class Treatment:
    """What a step made of one of its groups."""

    level: str
    """The correction's (swarmnode.training.corrections.Level), or `OUT`."""
    why: str
    """In a few words, without a line break."""


OUT = "out"
"""The level of a group of which nothing was trained on."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one call of `Trainer.step` did."""

    metrics: Mapping[str, float]
    """Under the names of `TRAINING_METRICS`, all finite; a name is missing without a meaning."""
    stepped: bool
    """Whether the parameters were changed."""
    treatments: tuple[Treatment, ...] = ()
    """One for each group given, in their order."""
    advantages: tuple[tuple[float, ...], ...] = ()
    """Likewise, of its completions; empty for a group that was left out beforehand."""
