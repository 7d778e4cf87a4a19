"""What keeps less for its backward pass gives the values and gradients of torch's own."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from swarmnode.policy.frugal import gated, rms_norm


def normal(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(dtype).requires_grad_()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
@pytest.mark.parametrize("frozen", [False, True])
def test_the_norm_is_torchs(dtype: torch.dtype, tolerance: float, frozen: bool) -> None:
    hidden, weight = normal(2, 5, 16, dtype=dtype), normal(16, dtype=dtype, seed=1)
    weight.requires_grad_(not frozen)
    wanted = [hidden] if frozen else [hidden, weight]
    ours, theirs = rms_norm(hidden, weight, 1e-5), F.rms_norm(hidden, (16,), weight, 1e-5)
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)
    weighting = torch.linspace(-1, 1, ours.numel()).view(ours.shape)
    for mine, other in zip(
        torch.autograd.grad((ours * weighting).sum(), wanted),
        torch.autograd.grad((theirs * weighting).sum(), wanted),
        strict=True,
    ):
        torch.testing.assert_close(mine, other, atol=tolerance, rtol=tolerance)


def test_the_gated_product_is_torchs_and_keeps_its_inputs_alone() -> None:
    gate = normal(2, 5, 16, dtype=torch.float32)
    up = normal(2, 5, 16, dtype=torch.float32, seed=1)
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        ours = gated(gate, up)
    assert {one.data_ptr() for one in kept} == {gate.data_ptr(), up.data_ptr()}
    theirs = F.silu(gate) * up
    weighting = torch.linspace(-1, 1, ours.numel()).view(ours.shape)
    torch.testing.assert_close(ours, theirs)
    for mine, other in zip(
        torch.autograd.grad((ours * weighting).sum(), [gate, up]),
        torch.autograd.grad((theirs * weighting).sum(), [gate, up]),
        strict=True,
    ):
        torch.testing.assert_close(mine, other, atol=1e-6, rtol=1e-5)


def test_without_gradient_nothing_is_kept() -> None:
    with torch.inference_mode():
        hidden = torch.ones(2, 3, 8)
        assert rms_norm(hidden, torch.ones(8), 0.0).allclose(hidden)
        assert gated(hidden, hidden).allclose(F.silu(hidden))
