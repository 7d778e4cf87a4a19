"""Adapters: what they train, their reference, their files, and policies held near their start."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from swarmnode.config.policy import LoraSettings, PolicySettings
from swarmnode.hosted_policy import HostedPolicy
from swarmnode.policy.loading import load_policy
from swarmnode.policy.lora import adapter_weights, add_adapters, merged_weights
from swarmnode.policy.matrices import LowRank, Matrix, beside
from swarmnode.policy.names import UnusableModel
from swarmnode.policy.policy import Policy
from swarmnode.policy.saved_state import CheckpointRefused
from tests.unit.model_support import disturb, logits, packed, small_gpt2, small_llama, write_model
from tests.unit.resume_support import digests, order, rounds, saved

LORA = LoraSettings(rank=4, alpha=8.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "small")


def adapted(folder: Path, **changes: Any) -> Policy:
    lora = LORA.model_copy(update=changes)
    return load_policy(PolicySettings(model=str(folder), lora=lora, dtype="float32"), seed=0)


def test_new_adapters_change_nothing_and_alone_are_trained(folder: Path) -> None:
    policy, plain = adapted(folder), load_policy(PolicySettings(model=str(folder)), 0)
    assert torch.allclose(logits(policy), logits(plain), atol=1e-5)
    policy.tree_hidden(*packed()).sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    trained = {name for name, one in policy.model.named_parameters() if one.grad is not None}
    assert trained
    assert all(".lora_" in name for name in trained)
    assert trained == set(policy.saved_tensors())
    assert not any("lm_head" in name for name in trained)


def test_adapters_start_from_the_seed_alone(folder: Path) -> None:
    first, second = adapted(folder), adapted(folder)
    for name, tensor in first.saved_tensors().items():
        assert torch.equal(tensor, second.saved_tensors()[name])


def test_the_reference_of_adapters_is_the_model_without_them(folder: Path) -> None:
    policy = adapted(folder)
    start = logits(policy)
    disturb(policy)
    moved = logits(policy)
    assert not torch.allclose(moved, start, atol=1e-3)
    with policy.reference():
        assert torch.allclose(logits(policy), start, atol=1e-5)
    assert torch.equal(logits(policy), moved)
    policy.tree_hidden(*packed()).sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    assert all(one.grad is not None for one in policy.saved_tensors().values())


def test_merged_weights_are_those_of_a_plain_model_that_answers_alike(folder: Path) -> None:
    policy = adapted(folder)
    disturb(policy)
    plain = small_llama()
    plain.load_state_dict(merged_weights(policy.model))
    expected = plain(torch.arange(3, 11)[None]).logits
    assert torch.allclose(policy.model(torch.arange(3, 11)[None]).logits, expected, atol=1e-5)
    assert torch.allclose(logits(policy)[0, :4], expected[0, :4], atol=1e-4)


class Allocations(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Notes the storages that operations make, views and what is done in place left out."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # likewise
        self.made: dict[int, Tensor] = {}
        self.given: set[int] = set()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.given |= {_place(one) for one in args if isinstance(one, Tensor)}
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and _place(result) not in self.given:
            # Held, so that no later one gets its place.
            self.made[_place(result)] = result
        return result


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_adapters_make_no_more_blocks_of_memory_than_they_must(dtype: torch.dtype) -> None:
    inputs = torch.randn(64, 8, dtype=dtype, requires_grad=True)
    parts = []
    for outputs in (24, 40, 48):
        weight = torch.randn(outputs, 8, dtype=dtype)
        up = torch.randn(outputs, 2).requires_grad_()
        down = torch.randn(2, 8).requires_grad_()
        parts.append(Matrix(weight, None, LowRank(down, up, 0.7)))
    apply = beside(parts)
    with Allocations() as noted:
        result = apply(inputs)
    # The product, the adapter's product, and its copy where that is of another type.
    each = 2 if dtype == torch.float32 else 3
    widths = Counter(one.shape[-1] for one in noted.made.values())
    assert [widths[outputs] for outputs in (24, 40, 48)] == [each] * 3
    # One copy of the inputs in the adapters' type for all three.
    assert widths[8] == (0 if dtype == torch.float32 else 1)
    plain = torch.cat([part.merged()(inputs) for part in parts], -1)
    tolerance = 1e-5 if dtype == torch.float32 else 0.1
    assert torch.allclose(result.float(), plain.float(), rtol=tolerance, atol=tolerance)
    result.float().sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    assert inputs.grad is not None
    for part in parts:
        assert part.low_rank is not None
        assert part.low_rank.up.grad is not None
        assert part.low_rank.down.grad is not None


def test_an_adapter_is_sampled_with(folder: Path) -> None:
    policy = adapted(folder)

    def sampled() -> tuple[str, ...]:
        rows = policy.generate(["1"], 4, 8, 1.0, torch.Generator().manual_seed(0))[0]
        return tuple(row.text for row in rows)

    before = sampled()
    disturb(policy)
    assert sampled() != before


def test_adapters_are_named_as_peft_names_them_in_files(folder: Path) -> None:
    names = set(adapter_weights(adapted(folder, targets=("q_proj",)).model))
    layer = "base_model.model.model.layers.{}.self_attn.q_proj.lora_{}.weight"
    assert names == {layer.format(number, part) for number in (0, 1) for part in "AB"}


def test_targets_that_the_model_lacks_are_refused_in_one_line(folder: Path) -> None:
    with pytest.raises(UnusableModel, match=r"policy\.lora\.targets") as raised:
        adapted(folder, targets=("nothing",))
    assert "\n" not in str(raised.value)


def test_layers_of_another_kind_and_an_absent_package_are_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnusableModel, match="GPT2LMHeadModel has no linear layers"):
        add_adapters(small_gpt2(), LORA, 0)  # its layers are convolutions
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(UnusableModel, match=r"needs the package peft: pip install '.*\[lora\]'"):
        adapted(folder)


def hosted(folder: Path, lora: LoraSettings, **training: Any) -> HostedPolicy:
    policy = PolicySettings(model=str(folder), lora=lora, dtype="float32", max_new_tokens=8)
    return HostedPolicy(order(**training) | {"policy": policy.model_dump()})


@pytest.mark.parametrize("lora", [LORA, LoraSettings()], ids=["adapters", "all weights"])
def test_a_policy_held_near_its_start_goes_on_bit_for_bit(
    folder: Path, tmp_path: Path, lora: LoraSettings
) -> None:
    whole, stopped = hosted(folder, lora, kl_weight=0.1), hosted(folder, lora, kl_weight=0.1)
    rounds(whole, range(2))
    rounds(stopped, range(2))
    path = saved(stopped, tmp_path / "middle")
    resumed = hosted(folder, lora, kl_weight=0.1)
    disturb(resumed._policy)
    if not lora.rank:
        resumed._policy.keep_reference()  # another start than the saved one's
    assert resumed.restore(str(tmp_path / "middle"))["restored"]["path"] == str(path)
    assert rounds(resumed, range(2, 4)) == rounds(whole, range(2, 4))
    ends = [digests(saved(one, tmp_path / name)) for one, name in ((whole, "a"), (resumed, "b"))]
    assert ends[0] == ends[1]
    held = load_file(path / "model.safetensors")
    assert all(".lora_" in name for name in held) == bool(lora.rank)
    assert (path / "reference.safetensors").exists() == (not lora.rank)


def test_adapters_are_not_put_on_another_models_weights(folder: Path, tmp_path: Path) -> None:
    saved(hosted(folder, LORA), tmp_path / "saved")
    stranger = hosted(folder, LORA)
    stranger._policy.origin = "another commit"
    with pytest.raises(CheckpointRefused, match="other files"):
        stranger.restore(str(tmp_path / "saved"))


def test_weights_below_adapters_are_kept_in_the_shorter_format(folder: Path) -> None:
    settings = PolicySettings(model=str(folder), dtype="bfloat16", lora=LORA)
    kinds = {one.requires_grad: one.dtype for one in load_policy(settings, 0).parameters()}
    assert kinds == {True: torch.float32, False: torch.bfloat16}
