"""Micro-batches under a limit of memory, and what becomes of those that exceed it all the same."""

from __future__ import annotations

import gc
import random

import pytest
import torch
from torch import Tensor

from swarmnode.config.training import Training
from swarmnode.training import OUT, Trainer
from swarmnode.training.memory import is_out_of_memory, measured_cost
from swarmnode.training.packing import micro_batches
from tests.unit.training_support import (
    TinyLlama,
    VersatileLlama,
    captured_step,
    make_group,
    make_groups,
)

PLAIN = Training(warmup_steps=0, gradient_clip=1e9)


def assert_close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)


class Cramped(TinyLlama):
    """Really asks the allocator for what it hasn't, with more than `room` positions at once."""

    def __init__(self, room: int, *, when_backward: bool = False) -> None:
        super().__init__(0)
        self.room = room
        self.when_backward = when_backward
        self.failures = 0

    def tree_hidden(self, token_ids: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        hidden = super().tree_hidden(token_ids, positions, segments)
        if token_ids.numel() <= self.room:
            return hidden
        if self.when_backward:
            hidden.register_hook(self._exhausted)  # type: ignore[no-untyped-call]
            return hidden
        return self._exhausted(hidden)

    def _exhausted(self, tensor: Tensor) -> Tensor:
        self.failures += 1
        return torch.empty(2**60, dtype=tensor.dtype)


class CrampedButVersatile(Cramped, VersatileLlama):
    """The same, with room for everything that recomputes."""

    def tree_hidden(self, token_ids: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        if self.recomputing:
            return VersatileLlama.tree_hidden(self, token_ids, positions, segments)
        return super().tree_hidden(token_ids, positions, segments)


@pytest.mark.parametrize("when_backward", [False, True])
def test_a_batch_that_runs_out_of_memory_is_halved_and_the_gradient_is_that_of_the_whole(
    when_backward: bool,
) -> None:
    groups = make_groups(1, 6)
    whole, metrics = captured_step(*trainer_of(TinyLlama(0)), groups)
    cramped = Cramped(90, when_backward=when_backward)
    halved, halved_metrics = captured_step(*trainer_of(cramped), groups)
    assert cramped.failures > 0
    assert halved_metrics["steps/out_of_memory"] == cramped.failures
    assert halved_metrics["groups/out_of_memory"] == 0.0
    assert_close(halved, whole)
    for name in ("loss", "entropy", "tokens/local", "grad_norm"):
        assert halved_metrics[name] == pytest.approx(metrics[name], rel=1e-5, abs=1e-6)


def trainer_of(model: TinyLlama, settings: Training = PLAIN) -> tuple[Trainer, TinyLlama]:
    return Trainer(model, settings, 1.0), model


@pytest.mark.parametrize("when_backward", [False, True])
@pytest.mark.parametrize("inner_steps", [1, 3])
def test_a_group_that_fails_alone_is_left_out_counted_and_leaves_no_gradient(
    when_backward: bool, inner_steps: int
) -> None:
    settings = PLAIN.model_copy(update={"inner_steps": inner_steps})
    groups = make_groups(2, 4)
    giant = make_group(random.Random(3), [1.0, 0.0] * 20)
    model, alone = Cramped(130, when_backward=when_backward), TinyLlama(0)
    report = Trainer(model, settings, 1.0).step([*groups[:2], giant, *groups[2:]])
    expected = Trainer(alone, settings, 1.0).step(groups)
    assert report.stepped
    assert report.metrics["groups/out_of_memory"] == 1.0
    assert [one.level for one in report.treatments] == ["none", "none", OUT, "none", "none"]
    assert report.treatments[2].why == "out of memory"
    assert report.metrics["tokens/local"] == expected.metrics["tokens/local"]
    assert report.metrics["steps/taken"] == inner_steps
    torch.testing.assert_close(model.vector(), alone.vector(), rtol=1e-4, atol=1e-5)


def test_a_round_of_which_nothing_fits_is_no_step() -> None:
    model = Cramped(1)
    trainer = Trainer(model, PLAIN, 1.0)
    before = model.vector()
    report = trainer.step(make_groups(4, 2))
    assert not report.stepped
    assert report.metrics["groups/out_of_memory"] == 2.0
    assert report.metrics["steps/skipped_no_live_group"] == 1.0
    assert torch.equal(model.vector(), before)
    assert all(one.grad is None for one in model.parameters())
    model.room = 10_000
    assert trainer.step(make_groups(4, 2)).stepped


def test_a_group_that_fails_alone_is_computed_again_in_the_backward_pass_where_the_model_can() -> (
    None
):
    groups = make_groups(5, 3)
    whole, _ = captured_step(*trainer_of(TinyLlama(0)), groups)
    model = CrampedButVersatile(1)
    saved, metrics = captured_step(*trainer_of(model), groups)
    assert metrics["groups/out_of_memory"] == 0.0
    assert model.recomputed >= 3
    assert_close(saved, whole)


def test_another_fault_is_not_taken_for_a_lack_of_memory() -> None:
    class Broken(TinyLlama):
        def tree_hidden(self, token_ids: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
            raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="mat1"):
        Trainer(Broken(0), PLAIN, 1.0).step(make_groups(6, 1))


def test_the_allocators_of_all_devices_are_understood() -> None:
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"))
    assert is_out_of_memory(RuntimeError("MPS backend out of memory (MPS allocated: 1 GB)"))
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(ValueError("out of memory"))
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert is_out_of_memory(caught.value)


def test_measured_activations_grow_with_the_row_and_follow_what_is_really_kept() -> None:
    small = measured_cost(TinyLlama(0, layers=1), torch.device("cpu"))
    large = measured_cost(TinyLlama(0, layers=4), torch.device("cpu"))
    assert 3.0 < large.per_position / small.per_position < 5.0
    assert large.bytes(2, 50) == pytest.approx(2 * large.bytes(1, 50) - large.constant)
    again = measured_cost(TinyLlama(0, layers=1), torch.device("cpu"))
    assert small == again


def test_a_measurement_leaves_nothing_of_its_forward_passes_behind() -> None:
    model = TinyLlama(0, layers=2)

    def made_by_steps() -> int:
        gc.collect()
        return sum(type(one) is Tensor and one.grad_fn is not None for one in gc.get_objects())

    before = made_by_steps()
    measured_cost(model, torch.device("cpu"))
    assert made_by_steps() == before


def test_a_limit_of_activations_makes_smaller_micro_batches_and_the_same_gradient() -> None:
    groups = make_groups(7, 8)
    calls: list[int] = []

    class Counted(VersatileLlama):
        def tree_hidden(self, token_ids: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
            calls.append(len(token_ids))
            return super().tree_hidden(token_ids, positions, segments)

    whole, _ = captured_step(*trainer_of(Counted(0)), groups)
    assert calls == [8]
    calls.clear()
    limited = PLAIN.model_copy(update={"activation_mib": 1})
    model = Counted(0)
    gradient, _ = captured_step(*trainer_of(model, limited), groups)
    assert calls[:3] == [1, 1, 1]
    assert len(calls) > 4
    assert_close(gradient, whole)


def test_rows_are_batched_within_both_limits() -> None:
    assert micro_batches([4, 4, 4, 4], 100, lambda rows, longest: rows * longest <= 8) == [
        [0, 1],
        [2, 3],
    ]
    assert micro_batches([9, 4], 100, lambda rows, longest: rows * longest <= 8) == [[0], [1]]
