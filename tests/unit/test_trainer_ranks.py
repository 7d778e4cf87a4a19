"""Two processes that train one policy take the steps of one, and end together (docs/scaling.md).

Both hosts are real, and so are torch's groups and FSDP2: gloo on loopback.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from safetensors.torch import load_file

from swarmnode import trainer_ranks
from swarmnode.children import policy_child, trainer_words
from swarmnode.config.policy import PolicySettings, TinySettings
from swarmnode.config.settings import SettingsError, load_settings
from swarmnode.process import Child, ChildGone, ChildRefused
from swarmnode.torchrun import Place, place_of
from swarmnode.trainer_ranks import (
    RanksLost,
    TrainerRanks,
    UnusableRanks,
    lead_torchrun,
    next_life,
)
from swarmnode.training.layout import layout_of
from swarmnode.training.ranks import Alone, rows_of_ranks
from tests.unit.model_support import small_gpt2
from tests.unit.resume_support import PROMPTS, order, recorded

pytestmark = pytest.mark.timeout(600)

SECONDS = 240.0
ASKED = [*PROMPTS, "Calculate 9 - 5."]
"""Three groups of our own: where each is a micro-batch, one of two ranks has a pass less."""
WIDE = TinySettings(width=128, layers=3, heads=4, feed_forward_width=256)
"""Enough that its activations are worth bounding."""


class Host:
    """A policy host of one or more ranks, for callers without an event loop."""

    def __init__(self, ranks: int) -> None:
        settings = PolicySettings(trainer_processes=ranks)
        words = trainer_words(settings, os.environ)
        self.child: Child = policy_child(os.environ, f"host of {ranks}", ranks=words)
        self.child.start()

    def ask(self, method: str, number: int = 0, **payload: Any) -> Any:
        return asyncio.run(self.child.call(method, {"number": number, **payload}, SECONDS))

    def create(self, number: int, made: Mapping[str, Any]) -> None:
        self.ask("create", number, **{"rounds": None, **made})

    def others(self) -> list[psutil.Process]:
        """Its other ranks."""
        assert self.child.process_id
        found: list[psutil.Process] = psutil.Process(self.child.process_id).children()
        return found


@pytest.fixture(scope="module")
def one() -> Iterator[Host]:
    host = Host(1)
    yield host
    host.child.close_now()


@pytest.fixture(scope="module")
def two() -> Iterator[Host]:
    host = Host(2)
    yield host
    others = host.others()
    host.child.close_now()
    psutil.wait_procs(others, timeout=60)
    assert not any(other.is_running() for other in others)


def rounds(host: Host, number: int, count: int = 3) -> list[dict[str, float]]:
    """Train on what is sampled and on recorded groups; the metrics of each round."""
    found = []
    for turn in range(count):
        sampled = host.ask("generate", number, prompts=ASKED, tasks=[], completions=4)
        local = [
            recorded(0)
            | {
                "prompt": prompt,
                "source": "local",
                "rewards": [1.0, 0.0, 1.0, 0.0],
                "completions": group,
            }
            for prompt, group in zip(ASKED, sampled, strict=True)
        ]
        peers = [recorded(10 * turn + each) for each in range(1, 4)]
        found.append(host.ask("train", number, groups=[*local, *peers], watched=[])["metrics"])
    return found


def assert_alike(
    ours: Sequence[Mapping[str, float]], theirs: Sequence[Mapping[str, float]]
) -> None:
    """Metrics of as many rounds, each that of one process to 1e-5."""
    for mine, other in zip(ours, theirs, strict=True):
        assert mine["steps/taken"] > 0
        assert {
            name: pytest.approx(value, rel=1e-5, abs=1e-5) for name, value in other.items()
        } == (mine)


def weights(path: Path) -> Mapping[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = load_file(path / "model.safetensors")
    found.update(load_file(path / "optimizer.safetensors"))
    return found


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"kl_weight": 0.1, "micro_batch_tokens": 16, "entropy_weight": 0.01},
        {"covariance": "clip", "covariance_low": 0.0, "covariance_share": 0.2},
        {"activation_mib": 1, "gradient_clip": 0.01},
        {"external_advantage": "both", "normalization": "sequences"},
    ],
    ids=lambda changes: ",".join(changes) or "default",
)
def test_two_ranks_take_the_steps_of_one(
    one: Host, two: Host, tmp_path: Path, changes: dict[str, Any]
) -> None:
    made = order(WIDE if "activation_mib" in changes else TinySettings(), **changes)
    for host in (one, two):
        host.create(0, made)
    assert_alike(rounds(two, 0), rounds(one, 0))
    saved = [
        host.ask("save", folder=str(tmp_path / str(n)), extra=None)["path"]
        for n, host in enumerate((one, two))
    ]
    expected, found = (weights(Path(path)) for path in saved)
    assert expected.keys() == found.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-5)


def test_a_checkpoint_of_either_is_one_of_both(one: Host, two: Host, tmp_path: Path) -> None:
    """What one saved the other goes on from, and both then do the same."""
    for number, (writer, reader) in enumerate(((one, two), (two, one)), start=1):
        folder = str(tmp_path / str(number))
        for host in (writer, reader):
            host.create(number, order(TinySettings(), kl_weight=0.1))
        rounds(writer, number, 2)
        writer.ask("save", number, folder=folder, extra={"kept": number})
        restored = reader.ask("restore", number, folder=folder)["restored"]
        assert (restored["version"], restored["extra"]) == (4, {"kept": number})
        assert_alike(rounds(reader, number, 2), rounds(writer, number, 2))


def test_weights_go_out_of_both_one_by_one_and_are_those_of_one(
    one: Host, two: Host, tmp_path: Path
) -> None:
    checksums = []
    for host in (one, two):
        made = order(TinySettings(), inner_steps=1) | {"weights_home": str(tmp_path / "home")}
        made["policy"]["weights"] = {"channel": "folder", "folder": str(tmp_path / "weights")}
        host.create(5, made)
        checksums.append(host.ask("publish_weights", 5, version=1)["checksum"])
    assert checksums[0] == checksums[1]
    with pytest.raises(Exception, match="version 1 after 1"):
        two.ask("publish_weights", 5, version=1)
    # Both ranks are still in step.
    rounds(two, 5, 1)
    assert two.ask("publish_weights", 5, version=2)["checksum"] != checksums[0]


def test_what_cannot_be_spread_is_one_line(two: Host, tmp_path: Path) -> None:
    small_gpt2().save_pretrained(tmp_path / "gpt2")
    made = order()
    with pytest.raises(ChildRefused, match=r"scheduling\.kind looks at gradients"):
        two.create(6, made | {"scheduling": {"settings": {}, "tasks": [], "total_rounds": 0}})
    with pytest.raises(SettingsError, match=r"adapters can't be trained by several processes"):
        load_settings(assignments=["policy.trainer_processes=2", "policy.lora.rank=4"])
    made["policy"]["device"] = "cuda"
    with pytest.raises(ChildRefused, match="torch sees no such device"):
        two.create(6, made)
    # None of it has put the ranks out of step.
    two.create(6, order())
    rounds(two, 6, 1)


def test_where_one_rank_is_lost_all_of_them_end(capfd: pytest.CaptureFixture[str]) -> None:
    host = Host(2)
    host.create(0, order())
    (other,) = host.others()
    other.send_signal(signal.SIGKILL)
    with pytest.raises(ChildGone):
        rounds(host, 0, 1)
    assert "policy host: another rank is gone (" in capfd.readouterr().err
    host.child.start()
    host.create(0, order())
    (other,) = host.others()
    assert host.child.process_id
    os.kill(host.child.process_id, signal.SIGKILL)
    psutil.wait_procs([other], timeout=30)
    assert not other.is_running()
    host.child.close_now()


def test_ranks_need_a_device_each_that_can_be_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda *_, **__: None)
    monkeypatch.setattr(torch.distributed, "new_group", lambda **_: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _device: None)
    store: Any = torch.distributed
    ranks = TrainerRanks(Place(0, 2, 0, 2, "127.0.0.1", 1), store.HashStore(), 1)
    ranks.check(torch.device("cpu"))
    with pytest.raises(UnusableRanks, match="2 trainer processes want a CUDA device each, and tor"):
        ranks.check(torch.device("cuda"))
    with pytest.raises(UnusableRanks, match="on processors or CUDA devices, not on mps; set"):
        ranks.check(torch.device("mps"))


def test_ranks_that_do_not_meet_say_who_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer_ranks, "PASS_TIMEOUT", timedelta(seconds=0.5))
    monkeypatch.setattr(trainer_ranks, "JOIN_SECONDS", 0.5)
    torch_distributed: Any = torch.distributed
    store = torch_distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    place = Place(0, 2, 0, 2, "127.0.0.1", store.port)
    with pytest.raises(RanksLost, match=r"^the other ranks don't come \("):
        lead_torchrun(place)
    assert not torch.distributed.is_initialized()
    with pytest.raises(RanksLost, match=r"^the first rank did not come back within 0\.5 s$"):
        next_life(place, last_life=1)
    del store
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        absent = replace(place, port=nobody.getsockname()[1])
        with pytest.raises(RanksLost, match=r"^127\.0\.0\.1:\d+ is not answering \(") as error:
            next_life(absent, last_life=0)
    assert "\n" not in str(error.value)


def test_torchrun_says_in_the_environment_which_rank_a_process_is() -> None:
    told = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    told |= {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
    assert place_of(told) is None, "another program's variables"
    told["TORCHELASTIC_RUN_ID"] = "none"
    assert place_of(told) == Place(3, 4, 1, 2, "10.0.0.1", 29500)
    again = place_of(told | {"TORCHELASTIC_RESTART_COUNT": "2"})
    assert again == Place(3, 4, 1, 2, "10.0.0.1", 29500, attempt=2)
    assert trainer_words(PolicySettings(), told) == ["torchrun"]
    assert place_of(told | {"WORLD_SIZE": "1"}) is None
    assert Place.of_arguments(again.arguments()) == again


def test_rows_are_spread_evenly_and_each_goes_to_one_rank() -> None:
    lengths = [90, 10, 20, 40, 50, 30, 60]
    shares = rows_of_ranks(lengths, 3)
    assert sorted(place for share in shares for place in share) == list(range(7))
    sums = [sum(lengths[place] for place in share) for share in shares]
    assert max(sums) - min(sums) <= 20


@pytest.mark.parametrize("rows", range(8))
def test_every_rank_makes_as_many_passes(rows: int) -> None:
    lengths = [10 * (place + 1) for place in range(rows)]
    layouts = [
        layout_of(Alone(rank, 3), lengths, [""] * rows, 60, lambda *_: True) for rank in range(3)
    ]
    assert len({len(each.own) + len(each.idle) for each in layouts}) == 1
    own = [place for each in layouts for batch in each.own for place in batch]
    assert sorted(own) == list(range(rows))
