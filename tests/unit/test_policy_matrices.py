"""Adapters and packed layouts change how a matrix is applied, not what comes out."""

from __future__ import annotations

import platform
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from swarmnode.policy.decoder import Decoder
from swarmnode.policy.engine import NativeEngine
from swarmnode.policy.forwards import NativeForward
from swarmnode.policy.matrices import LowRank, Matrix, UnsupportedModel, joined, read_matrix
from tests.unit.policy_models import NATIVE, small_model

# peft asks transformers by a name that transformers is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")

TOKEN_IDS = torch.randint(0, 50, (3, 11), generator=torch.Generator().manual_seed(1))
TARGETS = ["q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"]


def adapted(family: str, **changes: Any) -> tuple[Any, Any]:
    """A peft model with adapters that aren't zero, and the transformers model inside it."""
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=4, lora_alpha=12, target_modules=TARGETS, **changes)
    model = peft.get_peft_model(small_model(family), config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.3)
    return model, model.get_base_model()


@pytest.mark.parametrize("family", NATIVE)
def test_adapters_get_the_values_and_gradients_of_peft(family: str) -> None:
    _, base = adapted(family)
    forward = NativeForward(Decoder(base))
    trained = [one for one in base.parameters() if one.requires_grad]
    assert len(trained) == 2 * len(TARGETS) * 2
    ours, theirs = forward.head(forward.causal_hidden(TOKEN_IDS)), base(TOKEN_IDS).logits
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0.0)
    weighting = torch.linspace(-1, 1, ours.numel()).view(ours.shape)
    for mine, other in zip(
        torch.autograd.grad((ours * weighting).sum(), trained),
        torch.autograd.grad((theirs * weighting).sum(), trained),
        strict=True,
    ):
        assert (mine - other).abs().max() < 1e-5 * other.abs().max()


@pytest.mark.parametrize("family", NATIVE)
def test_sampling_is_from_the_adapted_model(family: str) -> None:
    _, base = adapted(family)
    rows = NativeEngine(Decoder(base)).sample(
        [[5, 6, 7]], 8, 6, 1.0, (), torch.Generator().manual_seed(0)
    )[0]
    with torch.no_grad():
        for row in rows:
            logits: Tensor = base(torch.tensor([[5, 6, 7, *row.token_ids]])).logits[0, 2:-1]
            chosen = torch.tensor(row.token_ids).unsqueeze(1)
            expected = logits.log_softmax(-1).gather(1, chosen).squeeze(1)
            torch.testing.assert_close(torch.tensor(row.logprobs), expected, atol=1e-4, rtol=0.0)


def test_a_disabled_adapter_leaves_the_base_model() -> None:
    model, base = adapted("llama")
    forward = NativeForward(Decoder(base))
    with torch.no_grad():
        plain = small_model("llama")(TOKEN_IDS).logits
        with model.disable_adapter():
            reference = forward.head(forward.causal_hidden(TOKEN_IDS))
        enabled = forward.head(forward.causal_hidden(TOKEN_IDS))
    torch.testing.assert_close(reference, plain, atol=1e-4, rtol=0.0)
    assert (enabled - plain).abs().max() > 0.1


@pytest.mark.parametrize("changes", [{"lora_dropout": 0.1}, {"use_dora": True}])
def test_adapters_that_are_more_than_a_product_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedModel, match="LoRA"):
        Decoder(adapted("llama", **changes)[1])


def test_layers_that_are_no_plain_matrix_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedModel, match="Bilinear"):
        read_matrix(nn.Bilinear(2, 2, 2))


@pytest.mark.parametrize("inputs", [8, 1024])
def test_joined_matrices_give_what_each_gives_by_itself(inputs: int) -> None:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    parts = [
        Matrix(normal(200, inputs), normal(200)),
        Matrix(normal(100, inputs), None, LowRank(normal(4, inputs), normal(100, 4), 0.5)),
    ]
    values, scales = normal(3, 5, inputs), normal(inputs)
    expected = torch.cat([part(values * scales) for part in parts], -1)
    with torch.inference_mode():
        together = joined(parts, scales, torch.float32)(values)
    assert (together - expected).abs().max() < 1e-5 * expected.abs().max()


def test_wide_matrices_are_packed_on_this_kind_of_processor_and_small_ones_are_not() -> None:
    wide, small = (Matrix(torch.ones(size, size)) for size in (512, 64))
    packs = platform.machine() == "x86_64" and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    with torch.inference_mode():
        assert isinstance(joined([wide], None, torch.float32), Matrix) != packs
        assert isinstance(joined([small], None, torch.float32), Matrix)
