"""Gradients of single domains without a backward pass of their own.

While a step's micro-batches add up their gradients, the gradient of one micro-batch is what the sum
changed by. It is taken of a few late matrices only: HDS (arXiv 2606.24133) finds later layers to
tell slightly more, and K of them have to be kept (K × selected parameters, float32).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from swarmnode.scheduling.scheduler import ByDomain

_NUMBER = re.compile(r"\.(\d+)\.")


class DomainGradients:
    """Adds up the gradient of each domain over one step's micro-batches of one domain each."""

    def __init__(self, parameters: Sequence[Tensor], domains: int) -> None:
        """`parameters` are selected leaves; their `grad` is read, never changed.

        Begin before the first backward of a step, with gradients cleared or not.
        """
        self._parameters = list(parameters)
        self._sums: list[Tensor | None] = [None] * domains
        self._counts = [0] * domains
        self._before = self._flat()

    @torch.no_grad()
    def took(self, domain: int, *, scale: float = 1.0) -> None:
        """After a backward of a micro-batch of `domain`.

        `scale` is what its mean loss was multiplied with before (the share of the micro-batch in
        the step, a loss scale of half precision) and is divided out, so that ⟨g_i, g_j⟩ means the
        same for all.
        """
        now = self._flat()
        change = (now - self._before) / scale
        self._before = now
        known = self._sums[domain]
        self._sums[domain] = change if known is None else known.add_(change)
        self._counts[domain] += 1

    def passed_over(self) -> None:
        """After a backward that is not to be looked at."""
        self._before = self._flat()

    @torch.no_grad()
    def products(self) -> tuple[ByDomain, ...]:
        """⟨g_i, g_j⟩ of the domains' mean gradients; None for those without a micro-batch.

        On the diagonal a gradient meets itself, noise included: ⟨g_i, g_i⟩ is too large by the
        variance of its mean; the others are free of that.
        """
        seen = [domain for domain, count in enumerate(self._counts) if count]
        rows = [
            gradient / self._counts[domain]
            for domain in seen
            if (gradient := self._sums[domain]) is not None
        ]
        table: list[list[float | None]] = [[None] * len(self._counts) for _ in self._counts]
        if rows:
            matrix = torch.stack(rows)
            for i, values in zip(seen, (matrix @ matrix.T).tolist(), strict=True):
                for j, value in zip(seen, values, strict=True):
                    table[i][j] = value
        return tuple(tuple(row) for row in table)

    def _flat(self) -> Tensor:
        """All selected gradients as one float32 vector; zeros where there is none yet."""
        return torch.cat(
            [
                (torch.zeros_like(p) if p.grad is None else p.grad).detach().float().flatten()
                for p in self._parameters
            ]
        )


class LayerChanges:
    """Norms of selected layers' weights, and of what they changed by since the step before."""

    @torch.no_grad()
    def __init__(self, layers: Sequence[Tensor]) -> None:
        """Keeps a copy of each layer's weights."""
        self._layers = list(layers)
        self._before = [layer.detach().clone() for layer in layers]

    @torch.no_grad()
    def taken(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """‖ω‖ and ‖Δω‖ by layer, after a step."""
        norms = torch.stack([layer.float().norm() for layer in self._layers])
        pairs = list(zip(self._layers, self._before, strict=True))
        changes = torch.stack([(layer - old).float().norm() for layer, old in pairs])
        for layer, old in pairs:
            old.copy_(layer)
        return tuple(norms.tolist()), tuple(changes.tolist())


def layer_matrices(model: nn.Module) -> list[Tensor]:
    """The last trained matrix of each numbered layer, which stands for the layer.

    In decoders it is the second feed-forward matrix, or that of an adapter there. Layers are known
    by the first number in the names of their parameters (`model.layers.3.mlp…`); where none is, the
    last trained matrix of all stands alone. Raises ValueError where no matrix is trained.
    """
    found: dict[int, Tensor] = {}
    last: Tensor | None = None
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad or parameter.ndim < 2:
            continue
        last = parameter
        if number := _NUMBER.search(name):
            found[int(number[1])] = parameter
    if last is None:
        raise ValueError("the model has no trained matrix")
    return [found[number] for number in sorted(found)] or [last]


def late_layers(count: int) -> tuple[int, ...]:
    """Every second layer from the last one back: 15, 13, 11 of 16, as HDS's configuration has it.

    Fewer where a model has too few. The gradients of these layers are compared, and an agent sees
    their norms. The article selects layers once for both; the published configuration shows the
    norms of six more, each of which is a token here: a third of what an update costs.
    """
    return tuple(range(count - 1, -1, -2))[:3]
