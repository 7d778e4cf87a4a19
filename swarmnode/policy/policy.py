"""The policy core: a model with its codec, as plain text in and sampled completions out.

A plain object without threads, files or clocks. It does not know tasks, rewards or who trains it;
training reaches it through `tree_hidden`, `head`, `parameters` and the two contexts `reference`
and `recomputed_activations`.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from transformers.modeling_utils import PreTrainedModel

from swarmnode.policy.engine import Engine
from swarmnode.policy.forwards import NativeForward, TrainingForward, choose_forward
from swarmnode.policy.lora import disabled_adapters, has_adapters
from swarmnode.policy.matrices import UnsupportedModel
from swarmnode.policy.sampling import Sampled
from swarmnode.policy.sharded import Sharding
from swarmnode.policy.text import Examples, TextCodec
from swarmnode.policy.weights import distinct_tensors
from swarmnode.types import Completion, FinishReason, PolicyInfo

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


class Policy:
    """One node's language model."""

    def __init__(
        self,
        name: str,
        model: PreTrainedModel,
        codec: TextCodec,
        engine: Engine,
        version: int = 0,
        origin: str = "",
        autocast: torch.dtype | None = None,
    ) -> None:
        """Take a transformers module, with or without adapters, and an engine over the same.

        origin: which files the weights below adapters are from. autocast: what products are
        computed in if not in the weights' own type.
        Raises UnsupportedModel when the module can't be trained.
        """
        self.name = name
        self.model = model
        self.codec = codec
        self.engine = engine
        self.version = version
        self.origin = origin
        self.examples: Mapping[str, Examples] = {}
        """What comes before a question, by its task."""
        self._autocast = autocast
        self._adapted = has_adapters(model)
        self._start: PreTrainedModel | None = None
        self._start_forward: TrainingForward | None = None
        self._recompute = False
        self._forward = choose_forward(model)
        self._sharding: Sharding | None = None
        self._start_sharding: Sharding | None = None

    @property
    def info(self) -> PolicyInfo:
        """Which policy this is now."""
        return PolicyInfo(self.name, self.version, self.codec.fingerprint())

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self._forward.device

    @property
    def dtype(self) -> torch.dtype:
        """What matrix products are computed in."""
        return self._autocast or self.head_weight.dtype

    @property
    def head_weight(self) -> Tensor:
        """The output matrix, (vocabulary, width); the embedding itself where they are tied."""
        return self._forward.head_weight

    def parameters(self) -> Iterator[nn.Parameter]:
        """Every trainable parameter once; of a sharded policy, this process's part of it."""
        yield from self.model.parameters() if self._sharding is None else self._sharding.parameters

    def keep_reference(self) -> None:
        """Take the policy as it is now for the reference; with adapters it is there already."""
        if not self._adapted:
            self._start = copy.deepcopy(self.model).requires_grad_(False)
            self._start_forward = choose_forward(self._start)

    def shard(self, mesh: DeviceMesh) -> None:
        """Spread model and reference over the processes of a mesh, all of which do the same.

        From here on whatever passes through the model is done by all of them: each gets its own
        hidden states, and the first alone samples. Raises UnsupportedModel.
        """
        if self._adapted or not isinstance(self._forward, NativeForward):
            what = "adapters" if self._adapted else f"models such as {type(self.model).__name__}"
            raise UnsupportedModel(
                f"{what} can't be trained by several processes yet; set policy.trainer_processes=1"
            )
        self._sharding = Sharding(self.model, mesh)
        self._forward = self._sharding.forward(self._forward)
        if self._start is not None and self._start_forward is not None:
            self._start_sharding = Sharding(self._start, mesh)
            self._start_forward = self._start_sharding.forward(self._start_forward)

    @property
    def spread(self) -> bool:
        """Whether the model is spread over processes."""
        return self._sharding is not None

    @property
    def leads(self) -> bool:
        """Whether this process is the first of those that have the model, or the only one."""
        return self._sharding is None or self._sharding.leads

    @contextlib.contextmanager
    def reference(self) -> Iterator[None]:
        """Let `tree_hidden` and `head` be the reference's while entered.

        With adapters that is the policy with these switched off, else what `keep_reference` took;
        ValueError without it.
        """
        if self._adapted:
            with disabled_adapters(self.model):
                yield
            return
        if self._start_forward is None:
            raise ValueError("no reference was kept")
        trained, self._forward = self._forward, self._start_forward
        try:
            yield
        finally:
            self._forward = trained

    @contextlib.contextmanager
    def recomputed_activations(self) -> Iterator[None]:
        """Let `tree_hidden` keep no more than its layers' inputs for the backward pass."""
        self._recompute = True
        try:
            yield
        finally:
            self._recompute = False

    def saved_tensors(self) -> Mapping[str, Tensor]:
        """What a checkpoint must hold: the adapters alone where these are trained, else all.

        Of a sharded policy they are spread, as its parameters are.
        """
        if self._sharding is not None:
            return self._sharding.tensors()
        if self._adapted:
            return {name: one for name, one in self.model.named_parameters() if one.requires_grad}
        return distinct_tensors(self.model)

    def reference_tensors(self) -> Mapping[str, Tensor]:
        """The reference, where it is a copy; spread like the policy."""
        if self._start_sharding is not None:
            return self._start_sharding.tensors()
        return {} if self._start is None else distinct_tensors(self._start)

    def encode_prompt(self, text: str, task: str = "") -> list[int]:
        """Return the ids that a completion continues, with the task's examples before the text."""
        return self.codec.encode_prompt(text, self.examples.get(task, ()))

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
        tasks: Sequence[str] = (),
    ) -> list[tuple[Completion, ...]]:
        """Sample completions to each prompt; the same generator state gives the same completions.

        tasks: those of the prompts, which bring their examples; without it there are none.

        Log-probs are those of the distribution at `temperature`; there are none at temperature 0,
        which takes the likeliest token each time. The first process of a sharded policy samples,
        with the whole model gathered on all of them; the others get nothing.
        """
        of_prompts = tasks or [""] * len(prompts)
        encoded = [self.encode_prompt(*each) for each in zip(prompts, of_prompts, strict=True)]
        with self._gathered() as samples, self._computing():
            if not samples:
                return [()] * len(prompts)
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
        tasks: Sequence[str] = (),
    ) -> list[Completion]:
        """Answer each prompt once; greedily at temperature 0."""
        rows = self.generate(prompts, 1, max_new_tokens, temperature, generator, tasks)
        return [row[0] for row in rows if row]

    def tree_hidden(self, token_ids: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        """Return the final hidden states of packed rows, with gradient, (rows, length, width).

        All arguments are integer (rows, length). Segment 0 is a row's prompt, k >= 1 its k-th
        completion, -1 padding; a token sees the prompt and its own segment, up to its position.
        """
        with self._computing():
            return self._forward.tree_hidden(
                token_ids, positions, segments, checkpoint_activations=self._recompute
            )

    def causal_hidden(self, token_ids: Tensor) -> Tensor:
        """Return the final hidden states of right-padded rows, with gradient."""
        with self._computing():
            return self._forward.causal_hidden(token_ids)

    def head(self, hidden: Tensor) -> Tensor:
        """Return the logits, float32, of hidden states, (..., width) to (..., vocabulary)."""
        with self._computing():
            return self._forward.head(hidden).float()

    @contextlib.contextmanager
    def _gathered(self) -> Iterator[bool]:
        """Have the whole model while entered; whether this process is the one to use it."""
        if self._sharding is None:
            yield True
            return
        with self._sharding.gathered():
            yield self._sharding.leads

    def _computing(self) -> contextlib.AbstractContextManager[object]:
        if self._autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=self._autocast)

    def _completion(self, row: Sampled) -> Completion:
        return Completion(
            text=self.codec.decode(row.token_ids),
            finish_reason="stop" if row.stopped else "length",
            token_count=len(row.token_ids),
            token_ids=row.token_ids,
            logprobs=row.logprobs or None,
        )
