"""What a round costs a process: CPU and wall seconds, products, passes, memory.

Products are counted as they happen, by hooks on a transformers model or by a contestant that calls
`count`: 2 operations per weight and position for a forward, 4 more when its gradient comes back,
so that recomputed forwards count as well. Products of attention are left out (a few percent here).
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from tests.benchmarks.engine_peers_rows import Phase

FORWARD, BACKWARD = 2.0, 4.0


@dataclass(slots=True)
class _Spent:
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    flops: float = 0.0
    passes: int = 0

    def phase(self) -> Phase:
        return Phase(self.cpu_seconds, self.wall_seconds, self.flops / 1e12, self.passes)


@dataclass(slots=True)
class Meter:
    """Adds up what goes on while its round is open; `generate` apart from all the rest."""

    _spent: dict[str, _Spent] = field(
        default_factory=lambda: {"generate": _Spent(), "train": _Spent()}
    )
    _now: str | None = None
    _since: tuple[float, float] = (0.0, 0.0)

    def start(self) -> None:
        """Begin the round, in `train`."""
        self._change("train")

    def stop(self) -> None:
        """End the round."""
        self._change(None)

    @contextmanager
    def generating(self) -> Iterator[None]:
        """What happens within belongs to `generate`; outside of the round nothing counts."""
        before = self._now
        self._change(None if before is None else "generate")
        try:
            yield
        finally:
            self._change(before)

    def count(self, flops: float, *, passes: int = 0) -> None:
        """Add products to what is going on now."""
        if self._now is not None:
            self._spent[self._now].flops += flops
            self._spent[self._now].passes += passes

    def phases(self) -> dict[str, Phase]:
        """What was spent."""
        return {name: spent.phase() for name, spent in self._spent.items()}

    def _change(self, to: str | None) -> None:
        now = (time.process_time(), time.perf_counter())
        if self._now is not None:
            spent = self._spent[self._now]
            spent.cpu_seconds += now[0] - self._since[0]
            spent.wall_seconds += now[1] - self._since[1]
        self._now, self._since = to, now


def count_products(meter: Meter, weights: int, positions: int, result: Tensor) -> None:
    """Count a forward of `positions` through `weights`, and its backward when that happens."""
    meter.count(FORWARD * weights * positions)
    _count_backward(meter, weights, positions, result)


def count_model(meter: Meter, model: Any) -> None:
    """Count what goes through a transformers decoder; its `generate` becomes a phase."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            _count_linear(meter, module, passes=int(module is model.lm_head))
    generate: Callable[..., Any] = model.generate

    def generate_in_phase(*arguments: Any, **options: Any) -> Any:
        with meter.generating():
            return generate(*arguments, **options)

    model.generate = generate_in_phase


def matrix_weights(module: nn.Module) -> int:
    """Weights that positions are multiplied with: those of matrices, not of norms."""
    return sum(each.numel() for each in module.parameters() if each.dim() > 1)


def _count_linear(meter: Meter, module: nn.Linear, *, passes: int) -> None:
    weights = module.weight.numel()

    # Before, and not after: a recomputation stops as soon as it has what it was begun for.
    def forward(_module: nn.Module, inputs: tuple[Any, ...]) -> None:
        meter.count(FORWARD * weights * inputs[0].shape[:-1].numel(), passes=passes)

    def backward(_module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        _count_backward(meter, weights, inputs[0].shape[:-1].numel(), output)

    module.register_forward_pre_hook(forward)
    module.register_forward_hook(backward)


def _count_backward(meter: Meter, weights: int, positions: int, result: Tensor) -> None:
    def came_back(_gradient: Tensor) -> None:
        meter.count(BACKWARD * weights * positions)

    if result.requires_grad:
        result.register_hook(came_back)  # type: ignore[no-untyped-call]  # torch leaves it untyped


def peak_mib() -> float:
    """The most memory that this process ever had resident, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
