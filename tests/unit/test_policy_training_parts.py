"""How a policy is trained: its reference, learning rate, device and number format."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from swarmnode.config.policy import LoraSettings, PolicySettings
from swarmnode.config.training import Training
from swarmnode.policy import device
from swarmnode.policy.device import choose_device, choose_dtype
from swarmnode.policy.loading import load_policy
from swarmnode.policy.names import UnusableModel
from tests.unit.model_support import disturb, logits, packed, write_model

LORA = LoraSettings(rank=4, alpha=8.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "small")


def test_the_reference_of_full_training_is_what_was_kept(folder: Path) -> None:
    policy = load_policy(PolicySettings(model=str(folder)), 0)
    with pytest.raises(ValueError, match="no reference"), policy.reference():
        pass
    policy.keep_reference()
    start = logits(policy)
    disturb(policy)
    with policy.reference():
        assert torch.equal(logits(policy), start)
    assert not torch.allclose(logits(policy), start, atol=1e-3)


def test_learning_rate_and_memory_follow_the_model_unless_they_are_set() -> None:
    unset, given = Training(), Training(learning_rate=0.5)
    assert unset.for_model("tiny", adapters=False, device="cpu").rate == unset.rate == 2e-4
    assert unset.for_model("a/b", adapters=False, device="cpu").rate == 5e-6
    assert unset.for_model("a/b", adapters=True, device="cpu").rate == pytest.approx(5e-5)
    assert given.for_model("a/b", adapters=True, device="cpu").rate == 0.5
    assert given.for_model("a/b", adapters=True, device="cpu").activation_limit_mib == 2048
    assert unset.for_model("tiny", adapters=False, device="cpu").activation_limit_mib == 0
    for model, where, tokens in (("a/b", "cpu", 512), ("a/b", "mps", 8192), ("tiny", "cpu", 8192)):
        assert unset.for_model(model, adapters=False, device=where).tokens_at_once == tokens
    assert unset.tokens_at_once == 8192
    chosen = Training(micro_batch_tokens=1024).for_model("a/b", adapters=False, device="cpu")
    assert chosen.tokens_at_once == 1024
    boundless = Training(activation_mib=0)
    assert boundless.for_model("a/b", adapters=False, device="cpu").activation_limit_mib == 0


def test_a_device_that_is_not_there_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("cpu") == torch.device("cpu")
    with pytest.raises(UnusableModel, match=r"policy\.device = cuda"):
        choose_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto") == torch.device("cuda")


@pytest.mark.parametrize(
    ("instructions", "frozen", "speedup", "expected"),
    [
        (False, True, 9.0, torch.float32),
        (True, False, 9.0, torch.float32),
        (True, True, 1.4, torch.float32),
        (True, True, 1.6, torch.bfloat16),
    ],
)
def test_a_processor_takes_bfloat16_only_where_it_has_it_and_gains_by_it(
    monkeypatch: pytest.MonkeyPatch,
    instructions: bool,
    frozen: bool,
    speedup: float,
    expected: torch.dtype,
) -> None:
    monkeypatch.setattr(device, "_has_bfloat16", lambda: instructions)

    def rate(dtype: torch.dtype) -> float:
        assert instructions, "without the instructions there is nothing to try"
        return speedup if dtype == torch.bfloat16 else 1.0

    cpu = torch.device("cpu")
    assert choose_dtype("auto", cpu, frozen=frozen, rate=rate) == expected
    assert choose_dtype("float16", cpu, frozen=frozen, rate=rate) == torch.float16


def test_the_trial_measures_something() -> None:
    assert device.gemm_rate(torch.float32) > 1.0


def test_a_shorter_format_is_computed_in_and_what_is_trained_stays_float32(folder: Path) -> None:
    whole = load_policy(PolicySettings(model=str(folder)), 0)
    short = load_policy(PolicySettings(model=str(folder), dtype="bfloat16"), 0)
    assert {one.dtype for one in short.parameters()} == {torch.float32}
    difference = (logits(short) - logits(whole)).abs().max()
    assert 0.0 < difference < 1.0
    short.head(short.tree_hidden(*packed())).sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    assert {one.grad.dtype for one in short.parameters() if one.grad is not None} == {torch.float32}
