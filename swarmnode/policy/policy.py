"""The policy core: a model with its codec, as plain text in and sampled completions out.

A plain object without threads, files or clocks. It does not know tasks, rewards or who trains it;
training reaches it through `tree_hidden`, `head` and `parameters`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from transformers.modeling_utils import PreTrainedModel

from swarmnode.policy.engine import Engine
from swarmnode.policy.forwards import choose_forward
from swarmnode.policy.sampling import Sampled
from swarmnode.policy.text import TextCodec
from swarmnode.types import Completion, FinishReason, PolicyInfo


class Policy:
    """One node's language model."""

    def __init__(
        self,
        name: str,
        model: PreTrainedModel,
        codec: TextCodec,
        engine: Engine,
        version: int = 0,
    ) -> None:
        """Take a transformers module and an engine over the same parameters.

        Raises UnsupportedModel when the module can't be trained.
        """
        self.name = name
        self.model = model
        self.codec = codec
        self.engine = engine
        self.version = version
        self._forward = choose_forward(model)

    @property
    def info(self) -> PolicyInfo:
        """Which policy this is now."""
        return PolicyInfo(self.name, self.version, self.codec.fingerprint())

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self._forward.device

    @property
    def head_weight(self) -> Tensor:
        """The output matrix, (vocabulary, width); the embedding itself where they are tied."""
        return self._forward.head_weight

    def parameters(self) -> Iterator[nn.Parameter]:
        """Every trainable parameter once."""
        yield from self.model.parameters()

    def encode_prompt(self, text: str) -> list[int]:
        """Return the ids that a completion continues."""
        return self.codec.encode_prompt(text)

    def encode_completion(self, text: str, finish_reason: FinishReason) -> list[int]:
        """Return the ids of an answer, with the end token if it stopped by itself.

        What looks like a special token in the text is encoded as text.
        """
        return self.codec.encode_completion(text, finish_reason)

    def generate(
        self,
        prompts: Sequence[str],
        completions_per_prompt: int,
        max_new_tokens: int,
        temperature: float,
        generator: torch.Generator,
    ) -> list[tuple[Completion, ...]]:
        """Sample completions to each prompt; the same generator state gives the same completions.

        Log-probs are those of the distribution at `temperature`; there are none at temperature 0,
        which takes the likeliest token each time.
        """
        encoded = [self.encode_prompt(prompt) for prompt in prompts]
        sampled = self.engine.sample(
            encoded,
            completions_per_prompt,
            max_new_tokens,
            temperature,
            self.codec.end_ids,
            generator,
        )
        return [tuple(self._completion(row) for row in rows) for rows in sampled]

    def answer(
        self,
        prompts: Sequence[str],
        max_new_tokens: int,
        temperature: float,
        generator: torch.Generator,
    ) -> list[Completion]:
        """Answer each prompt once; greedily at temperature 0."""
        return [
            rows[0] for rows in self.generate(prompts, 1, max_new_tokens, temperature, generator)
        ]

    def tree_hidden(self, token_ids: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        """Return the final hidden states of packed rows, with gradient, (rows, length, width).

        All arguments are integer (rows, length). Segment 0 is a row's prompt, k >= 1 its k-th
        completion, -1 padding; a token sees the prompt and its own segment, up to its position.
        """
        return self._forward.tree_hidden(token_ids, positions, segments)

    def causal_hidden(self, token_ids: Tensor) -> Tensor:
        """Return the final hidden states of right-padded rows, with gradient."""
        return self._forward.causal_hidden(token_ids)

    def head(self, hidden: Tensor) -> Tensor:
        """Return the logits of hidden states, (..., width) to (..., vocabulary)."""
        return self._forward.head(hidden)

    def _completion(self, row: Sampled) -> Completion:
        return Completion(
            text=self.codec.decode(row.token_ids),
            finish_reason="stop" if row.stopped else "length",
            token_count=len(row.token_ids),
            token_ids=row.token_ids,
            logprobs=row.logprobs or None,
        )
