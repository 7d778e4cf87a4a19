"""A model spread over processes by FSDP2 (torch.distributed.fsdp.fully_shard), as a policy sees it.

Each process holds 1/N of every parameter, of its gradient and of the optimizer's moments. A layer
is gathered when it is run, and let go of after; its gradients are summed (not averaged: the step
divides once, by the round's count) and spread again. What lies outside of layers, embedding, last
norm and head, stays gathered from a forward pass to the end of its backward pass. Everything that
gathers must be done by all processes, in the same order.

Knows no process group but the mesh it is given. "PyTorch FSDP", arXiv 2304.11277; FSDP2 is its form
for one parameter at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from swarmnode.policy.weights import distinct_tensors

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from transformers.modeling_utils import PreTrainedModel

    from swarmnode.policy.forwards import TrainingForward

_WITHIN = "run_within_shards"
"""Name of what runs a function on a module whose parameters are gathered."""


class Sharding:
    """A policy's model over a mesh of one dimension."""

    def __init__(self, model: PreTrainedModel, mesh: DeviceMesh) -> None:
        """Spread a whole model, in place; the first process's weights are those of all.

        The model's decoder layers are its units. Names, shapes and ties stay as they were.
        """
        self._model = model
        self._names = list(distinct_tensors(model))
        self.leads = mesh.get_rank() == 0
        """Whether this process is the one that samples and writes."""
        _alike(model.state_dict().values())
        self._units: list[Any] = [_unit(layer, mesh) for layer in model.base_model.layers]
        self._units.append(_unit(model, mesh))
        self.parameters = list(model.parameters())
        """Every parameter once, this process's part of it."""

    def tensors(self) -> Mapping[str, Tensor]:
        """What a checkpoint or a generator needs, tied weights once, each spread over the mesh."""
        state = self._model.state_dict()
        return {name: state[name] for name in self._names}

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Let every process have the whole model while entered."""
        for unit in self._units:
            unit.unshard()
        try:
            yield
        finally:
            for unit in self._units:
                unit.reshard()

    def forward(self, inner: TrainingForward) -> ShardedForward:
        """A forward over the model that was there before it was spread."""
        return ShardedForward(inner, self._model)


class ShardedForward:
    """A training forward whose model is spread: the same values and gradients."""

    def __init__(self, inner: TrainingForward, model: nn.Module) -> None:
        self._inner = inner
        self._model = model

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self._inner.device

    @property
    def head_weight(self) -> Tensor:
        """The output matrix, (vocabulary, width); this process's part of it between passes."""
        return self._inner.head_weight

    def tree_hidden(
        self,
        token_ids: Tensor,
        positions: Tensor,
        segments: Tensor,
        *,
        checkpoint_activations: bool = False,
    ) -> Tensor:
        """Return hidden states as `TrainingForward.tree_hidden` says."""
        run = partial(
            self._inner.tree_hidden,
            positions=positions,
            segments=segments,
            checkpoint_activations=checkpoint_activations,
        )
        return run_within(self._model, run, token_ids)

    def causal_hidden(self, token_ids: Tensor) -> Tensor:
        """Return hidden states as `TrainingForward.causal_hidden` says."""
        return run_within(self._model, self._inner.causal_hidden, token_ids)

    def head(self, hidden: Tensor) -> Tensor:
        """Return the logits of the last pass's hidden states, (..., width) to (..., vocabulary)."""
        return self._inner.head(hidden)


def run_within(module: nn.Module, run: Callable[[Tensor], Tensor], given: Tensor) -> Tensor:
    """Run a function of a module's parameters, which are gathered for it where they are spread."""
    within = getattr(module, _WITHIN, None)
    return run(given) if within is None else within(run, given)


def _unit(module: nn.Module, mesh: DeviceMesh) -> Any:
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    setattr(module, _WITHIN, _run)
    made: Any = fully_shard(module, mesh=mesh)  # the module itself, and an FSDPModule as well
    register_fsdp_forward_method(made, _WITHIN)
    made.set_gradient_divide_factor(1.0)
    made.set_force_sum_reduction_for_comms(enable=True)
    return made


def _run(run: Callable[[Tensor], Tensor], given: Tensor) -> Tensor:
    return run(given)


@torch.no_grad()
def _alike(tensors: Iterable[Tensor]) -> None:
    """Starting weights may differ in their last bits from machine to machine."""
    from torch.distributed import broadcast

    for tensor in tensors:
        broadcast(tensor, src=0)
