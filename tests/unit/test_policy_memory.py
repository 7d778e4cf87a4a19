"""The estimate of memory: its terms against what is really held, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from swarmnode.config.policy import LoraSettings, PolicySettings, Precision, TinySettings
from swarmnode.config.rounds import Rounds
from swarmnode.config.training import Training
from swarmnode.policy.loading import estimated_memory, load_policy
from swarmnode.policy.memory import (
    ModelShape,
    Workload,
    activation_bytes,
    estimate,
    shape_of,
)
from swarmnode.policy.names import UnusableModel
from swarmnode.policy.needs import Needs
from swarmnode.policy.preflight import check_fits, folder_shape, tiny_shape
from swarmnode.process import Refusal
from swarmnode.training.memory import measured_cost
from swarmnode.worker import handlers
from tests.unit.model_support import small_gpt2, small_llama, write_model
from tests.unit.resume_support import order

WORK = Workload(
    questions=4,
    completions=8,
    groups=8,
    new_tokens=64,
    micro_batch_tokens=8192,
    activation_bytes=0,
    lora_rank=0,
    keeps_reference=False,
    weight_bytes=4,
    prompt_tokens=80,
)
SMOLLM2 = ModelShape(
    parameters=134_515_008,
    vocabulary=49152,
    width=576,
    layers=30,
    heads=9,
    query_width=576,
    key_value_width=192,
    feed_forward_width=1536,
)


def test_ranks_share_what_is_trained_and_gather_what_is_sampled_with() -> None:
    alone, of_four = estimate(SMOLLM2, WORK), estimate(SMOLLM2, replace(WORK, ranks=4))
    assert of_four.weights * 4 == alone.weights
    assert of_four.optimizer * 4 == alone.optimizer
    assert of_four.sampling == alone.sampling + alone.weights, "the whole model, and a copy of it"
    assert of_four.training < alone.training / 2
    assert of_four.total < alone.total


def test_the_shape_of_tiny_is_that_of_the_model_that_is_built() -> None:
    policy = load_policy(PolicySettings(), 0)
    shape = tiny_shape(TinySettings(), policy.codec.vocabulary_size)
    assert shape.parameters == sum(one.numel() for one in policy.parameters())
    assert replace(shape, parameters=0) == shape_of(policy.model.config.to_dict(), 0)


def test_parameters_are_counted_in_the_headers_of_the_files(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "small")
    assert folder_shape(folder, "small").parameters == sum(
        one.numel() for one in small_llama().parameters()
    )
    small_gpt2().save_pretrained(tmp_path / "gpt2")
    shape = folder_shape(tmp_path / "gpt2", "gpt2")
    assert (shape.width, shape.layers, shape.feed_forward_width) == (32, 2, 128)
    (tmp_path / "gpt2" / "config.json").write_text("{}")
    with pytest.raises(UnusableModel, match=r"gpt2 needs is unknown.*hidden_size"):
        folder_shape(tmp_path / "gpt2", "gpt2")


@pytest.mark.parametrize("width", [64, 128])
def test_activations_are_those_that_autograd_keeps(width: int) -> None:
    settings = TinySettings(width=width, layers=3, feed_forward_width=3 * width)
    policy = load_policy(PolicySettings(tiny=settings), 0)
    shape = tiny_shape(settings, policy.codec.vocabulary_size)
    kept = measured_cost(policy, torch.device("cpu")).bytes(1, 200)
    assert activation_bytes(shape, 200) == pytest.approx(kept, rel=0.08)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_adapters_keep_no_more_activations_than_the_estimate_says(
    tmp_path: Path, dtype: Precision
) -> None:
    folder = write_model(tmp_path / "small")
    settings = PolicySettings(model=str(folder), lora=LoraSettings(rank=2), dtype=dtype)
    policy = load_policy(settings, 0)
    estimated = activation_bytes(folder_shape(folder, "small"), 1)
    # The mask is all that grows with the square, and is large only beside so narrow a model.
    kept = measured_cost(policy, torch.device("cpu")).per_position
    # In half precision the adapters' inputs and what they add are float32 all the same.
    assert 0.6 * estimated < kept < 1.15 * estimated


def test_what_costs_memory_is_in_the_estimate_and_what_saves_it_too() -> None:
    plain = estimate(SMOLLM2, WORK)
    assert plain.weights == plain.optimizer // 2 == 4 * SMOLLM2.parameters
    phase = max(plain.sampling, plain.training)
    lasting = plain.runtime + plain.weights + plain.optimizer
    assert plain.total == lasting + phase + plain.gaps > lasting + 1.05 * phase
    held = estimate(SMOLLM2, replace(WORK, keeps_reference=True))
    assert held.total == plain.total + plain.weights
    adapters = estimate(SMOLLM2, replace(WORK, lora_rank=16, keeps_reference=True))
    assert adapters.reference == 0
    # Rank 16 in all matrices: performance.md section 3 counts 4.88 million.
    assert adapters.optimizer == 8 * 4_884_480
    half = estimate(SMOLLM2, replace(WORK, lora_rank=16, weight_bytes=2))
    assert half.sampling < adapters.sampling
    fewer = estimate(SMOLLM2, replace(WORK, micro_batch_tokens=1024))
    assert fewer.training < plain.training
    bounded = estimate(SMOLLM2, replace(WORK, activation_bytes=2**30))
    assert bounded.training < plain.training
    assert bounded.total < estimate(SMOLLM2, replace(WORK, activation_bytes=2**31)).total


def test_a_model_that_does_not_fit_is_refused_with_what_would_help() -> None:
    wanted = estimate(SMOLLM2, WORK)
    check_fits(wanted, [], in_use=0, available=wanted.total, limit_mib=0)
    with pytest.raises(UnusableModel, match=r"available here.*policy\.lora\.rank=16") as raised:
        check_fits(wanted, [], in_use=0, available=wanted.total - 1, limit_mib=0)
    assert "\n" not in str(raised.value)
    check_fits(wanted, [], in_use=2**20, available=wanted.total - 2**20, limit_mib=0)
    with pytest.raises(UnusableModel):
        check_fits(wanted, [wanted], in_use=0, available=wanted.total, limit_mib=0)
    check_fits(wanted, [], in_use=0, available=0, limit_mib=100_000)
    with pytest.raises(UnusableModel, match="memory_limit_mib = 1000"):
        check_fits(wanted, [], in_use=0, available=2**50, limit_mib=1000)


def test_a_host_refuses_before_it_reads_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    serving = handlers()
    policy = PolicySettings(memory_limit_mib=100).model_dump()
    asked = order() | {"policy": policy, "number": 0, "rounds": Rounds().model_dump()}
    monkeypatch.setattr("swarmnode.hosted_models.load_policy", None)
    for method in ("create", "preflight"):
        with pytest.raises(Refusal, match="may need"):
            serving[method](asked)


def test_a_generator_is_held_against_what_it_samples_in(monkeypatch: pytest.MonkeyPatch) -> None:
    class Made:
        def __init__(self, _order: object, _shelf: object) -> None: ...
        def figures(self) -> str:
            return "made"

        def close(self) -> None: ...

    serving, settings = handlers(), PolicySettings(tiny=TinySettings(width=512, layers=16))
    monkeypatch.setattr("swarmnode.worker.HostedGenerator", Made)
    whole = estimated_memory(settings, Training(), Rounds(), None).total

    def asked(limit_mib: int) -> dict[str, Any]:
        policy = settings.model_copy(update={"memory_limit_mib": limit_mib}).model_dump()
        return order() | {"policy": policy, "number": 0, "rounds": Rounds().model_dump()}

    # One that trains doesn't fit by a hair.
    assert serving["create_generator"](asked((whole >> 20) - 1)) == "made"
    for method, limit in (("create", (whole >> 20) - 1), ("create_generator", 300)):
        with pytest.raises(Refusal, match="may need"):
            serving[method](asked(limit))


def test_of_a_split_node_all_processes_and_what_they_share_are_told() -> None:
    def told(**changes: Any) -> Needs:
        policy = PolicySettings(**changes).model_dump()
        asked = order() | {"policy": policy, "number": 0, "rounds": Rounds().model_dump()}
        return Needs(**handlers()["preflight"](asked))

    alone, split = told(), told(mode="split", generators=3)
    assert (alone.generators, alone.shared_bytes, alone.total_bytes) == (0, 0, alone.bytes)
    assert (split.generators, split.bytes, split.parts) == (3, alone.bytes, alone.parts)
    weights = 4 * sum(one.numel() for one in load_policy(PolicySettings(), 0).parameters())
    assert split.shared_bytes == 2 * weights
    assert weights < split.generator_bytes < split.bytes
    assert "optimizer" not in split.generator_parts
    assert split.total_bytes == alone.bytes + 3 * split.generator_bytes + 2 * weights
    assert split.shared_available_bytes > 0
    folder = told(mode="split", weights={"channel": "folder"})
    assert (folder.generators, folder.shared_bytes) == (1, 0)


def test_all_must_fit_at_once() -> None:
    needs = Needs(
        bytes=100,
        parts="",
        available_bytes=200,
        generators=2,
        generator_bytes=40,
        shared_bytes=20,
        shared_available_bytes=20,
    )
    assert needs.fits
    assert not replace(needs, available_bytes=199).fits
    assert not replace(needs, shared_available_bytes=19).fits
    assert replace(needs, available_bytes=180, shared_apart=True).fits
    assert not replace(needs, available_bytes=179, shared_apart=True).fits


def test_tiny_takes_no_adapters_and_says_so_in_one_line() -> None:
    settings = PolicySettings(lora=LoraSettings(rank=2))
    asked = order() | {"policy": settings.model_dump(), "rounds": Rounds().model_dump()}
    for method in ("create", "create_generator", "preflight"):
        with pytest.raises(Refusal, match=r"policy.lora.rank=0") as raised:
            handlers()[method](asked | {"number": 0})
        assert "\n" not in str(raised.value)
    with pytest.raises(UnusableModel, match="trained as a whole"):
        load_policy(settings, 0)


def test_the_estimate_of_a_folder_needs_no_weights_in_memory(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "small")
    settings = PolicySettings(model=str(folder), lora=LoraSettings(rank=2))
    found = estimated_memory(settings, Training(), Rounds(), None)
    assert found.total > found.runtime


def test_the_arithmetic_needs_no_torch() -> None:
    code = "import sys, swarmnode.policy.preflight; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
