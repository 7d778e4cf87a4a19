"""A policy that is restored goes on bit for bit like one that never stopped."""

from __future__ import annotations

import asyncio
import json
import random
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from swarmnode.clock import SystemClock
from swarmnode.hosted_policy import HostedPolicy
from swarmnode.policy.checkpoint import CheckpointError
from swarmnode.policy.client import (
    Durations,
    RemotePolicy,
    Restored,
    RestoreReport,
)
from swarmnode.policy.order import PolicyOrder
from swarmnode.process import Child, ChildFailed
from tests.unit.checkpoint_support import limited
from tests.unit.resume_support import FILES, PROMPTS, contents, digests, order, rounds, saved


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Sums of several threads may differ in their last bit from those of one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Elsewhere:
    """A policy of a host, for callers without an event loop."""

    def __init__(self, host: Child, number: int) -> None:
        self._host = host
        self._number = number

    def ask(self, method: str, **payload: Any) -> Any:
        asked = {"number": self._number, **payload}
        return asyncio.run(self._host.call(method, asked, 120.0))

    def generate(self, prompts: Sequence[str], completions: int) -> list[list[list[Any]]]:
        groups = self.ask("generate", prompts=prompts, tasks=[], completions=completions)
        return [
            [[text, reason, tuple(ids), tuple(logprobs)] for text, reason, ids, logprobs in group]
            for group in groups
        ]

    def train(self, groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
        trained: dict[str, Any] = self.ask("train", groups=groups)
        return trained


def test_twice_as_many_rounds_equal_half_of_them_a_restore_and_the_other_half(
    tmp_path: Path,
) -> None:
    whole = HostedPolicy(order())
    first = rounds(whole, range(6))
    middle = saved(whole, tmp_path / "half", {"round": 6})
    second = rounds(whole, range(6, 12))
    end = saved(whole, tmp_path / "whole")

    resumed = HostedPolicy(order(seed=99))
    report = resumed.restore(str(tmp_path / "half"))
    assert report["restored"] == {"path": str(middle), "version": 12, "extra": {"round": 6}}
    unchanged = saved(resumed, tmp_path / "unchanged", {"round": 6})
    assert digests(unchanged) == digests(middle)
    assert rounds(resumed, range(6, 12)) == second != first
    again = saved(resumed, tmp_path / "resumed")
    assert again.name == end.name == "step-24"
    assert digests(again) == digests(end)
    assert not digests(end).items() & digests(middle).items()
    assert resumed.generate(PROMPTS, 4) == whole.generate(PROMPTS, 4)


def test_saving_changes_nothing_that_follows(tmp_path: Path) -> None:
    torch.manual_seed(3)
    quiet, saving = HostedPolicy(order()), HostedPolicy(order())
    everyones = torch.get_rng_state(), random.getstate()
    for number in range(3):
        assert rounds(saving, range(number, number + 1)) == rounds(quiet, range(number, number + 1))
        saved(saving, tmp_path / "saving")
    assert digests(saved(quiet, tmp_path / "quiet")) == digests(tmp_path / "saving" / "step-6")
    assert torch.equal(everyones[0], torch.get_rng_state())
    assert everyones[1] == random.getstate()


def test_a_policy_without_a_step_can_be_saved_and_restored(tmp_path: Path) -> None:
    fresh = HostedPolicy(order())
    path = saved(fresh, tmp_path, ["spent", 3, None, 0.1])
    assert path.name == "step-0"
    resumed = HostedPolicy(order(seed=8))
    assert resumed.restore(str(tmp_path))["restored"]["extra"] == ["spent", 3, None, 0.1]
    assert rounds(resumed, range(2)) == rounds(fresh, range(2))


def test_without_a_checkpoint_a_policy_stays_as_it_is(tmp_path: Path) -> None:
    policy = HostedPolicy(order())
    assert policy.restore(str(tmp_path / "none")) == {"restored": None, "rejected": []}
    assert rounds(policy, range(1)) == rounds(HostedPolicy(order()), range(1))


def test_a_checkpoint_holds_plain_files_with_the_state_as_readable_json(tmp_path: Path) -> None:
    policy = HostedPolicy(order())
    rounds(policy, range(2))
    path = saved(policy, tmp_path)
    assert tuple(sorted(contents(path))) == FILES
    state = json.loads((path / "state.json").read_text())
    assert state["version"] == 4
    assert state["settings"]["training"]["learning_rate"] == 1e-1
    assert set(state["optimizer"]["steps"].values()) == {4.0}
    assert state["libraries"]["torch"] == torch.__version__


@pytest.mark.parametrize("extra", [float("nan"), b"bytes", {1: "number as a key"}])
def test_what_is_no_json_value_is_refused_before_anything_is_written(
    tmp_path: Path, extra: Any
) -> None:
    with pytest.raises(CheckpointError, match="no JSON value"):
        HostedPolicy(order()).save(str(tmp_path), extra)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "damages",
    [200, pytest.param(500, marks=[pytest.mark.real, pytest.mark.timeout(3600)])],
)
def test_damaged_checkpoints_are_all_detected_and_the_previous_one_loads(
    tmp_path: Path, damages: int
) -> None:
    policy = HostedPolicy(order())
    rounds(policy, range(1))
    previous = saved(policy, tmp_path / "swarm", "previous")
    expected = policy.generate(PROMPTS, 1)
    rounds(policy, range(1, 2))
    newest = saved(policy, tmp_path / "swarm", "newest")
    generator = random.Random(damages)
    for case in range(damages):
        file = newest / FILES[case % len(FILES)]
        whole = file.read_bytes()
        offset = generator.randrange(len(whole))
        flipped = bytes([whole[offset] ^ (1 << generator.randrange(8))])
        cut = case // len(FILES) % 2 == 0
        file.write_bytes(whole[:offset] if cut else whole[:offset] + flipped + whole[offset + 1 :])
        report = policy.restore(str(tmp_path / "swarm"))
        assert report["restored"]["path"] == str(previous), (file.name, offset, cut)
        assert report["restored"]["extra"] == "previous"
        ((name, reason),) = report["rejected"]
        assert name == newest.name
        assert file.name == "MANIFEST.json" or reason.startswith(file.name)
        assert policy.generate(PROMPTS, 1) == expected
        bad = newest.with_name(f"{newest.name}.bad").rename(newest)
        (bad / file.name).write_bytes(whole)
    assert policy.restore(str(tmp_path / "swarm"))["restored"]["extra"] == "newest"


def test_a_disk_that_takes_no_more_costs_one_checkpoint_and_no_training(tmp_path: Path) -> None:
    policy, twin = HostedPolicy(order()), HostedPolicy(order())
    rounds(policy, range(1))
    rounds(twin, range(1))
    path = saved(policy, tmp_path)
    for limit in (100, path.joinpath("model.safetensors").stat().st_size + 100):
        with (
            limited(resource.RLIMIT_FSIZE, limit),
            pytest.raises(CheckpointError, match="File too large"),
        ):
            saved(policy, tmp_path)
        assert list(tmp_path.iterdir()) == [path]
    assert rounds(policy, range(1, 2)) == rounds(twin, range(1, 2))


@pytest.fixture(scope="module")
def host() -> Iterator[Child]:
    child = Child("swarmnode.worker", name="policy host", environment={"OMP_NUM_THREADS": "1"})
    child.start()
    yield child
    child.close_now()


def remote(host: Child, number: int) -> RemotePolicy:
    return RemotePolicy(
        host,
        number,
        publisher=bytes(32),
        clock=SystemClock(),
        durations=Durations(generate=lambda: 0.0, train=lambda: 0.0),
        rewards=lambda scored: scored.successes,
    )


def test_a_fresh_process_goes_on_bit_for_bit_from_the_checkpoint_of_another(
    tmp_path: Path, host: Child
) -> None:
    whole = HostedPolicy(order())
    rounds(whole, range(2))
    middle = saved(whole, tmp_path / "half", {"round": 2})
    expected = rounds(whole, range(2, 4))
    end = saved(whole, tmp_path / "whole", {"round": 4})

    async def restore(policy: RemotePolicy) -> None:
        await policy.create(PolicyOrder(**order(seed=50)))
        report = await policy.restore(tmp_path / "half")
        assert report == RestoreReport(Restored(middle, 4, {"round": 2}), [])
        assert policy.info.version == 4

    policy = remote(host, 1)
    asyncio.run(restore(policy))
    assert rounds(Elsewhere(host, 1), range(2, 4)) == expected
    made = asyncio.run(policy.save(tmp_path / "resumed", {"round": 4}))
    assert made.path.name == end.name
    assert digests(made.path) == digests(end)
    assert made.size == sum(map(len, contents(made.path).values()))
    assert (made.rejected, made.seconds > 0.0) == ([], True)


def test_the_daemon_is_told_why_a_policy_was_not_restored(tmp_path: Path, host: Child) -> None:
    own = saved(HostedPolicy(order()), tmp_path)

    async def talk() -> None:
        policy = remote(host, 2)
        await policy.create(PolicyOrder(**order(learning_rate=0.5)))
        assert await policy.restore(tmp_path / "empty") == RestoreReport(None, [])
        with pytest.raises(ChildFailed, match=r"CheckpointRefused: .*learning_rate"):
            await policy.restore(tmp_path)
        with pytest.raises(ChildFailed, match=r"CheckpointError: .*no JSON value"):
            await policy.save(tmp_path, b"bytes")
        (own / "model.safetensors").write_bytes(b"")
        report = await policy.restore(tmp_path)
        assert report.restored is None
        assert [each.name for each in report.rejected] == [own.name]

    asyncio.run(talk())
