"""A policy that is restored goes on bit for bit like one that never stopped."""

from __future__ import annotations

import asyncio
import json
import random
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest
import torch

from swarmnode.clock import SystemClock
from swarmnode.config.policy import PolicySettings, TinySettings, WarmStartSettings
from swarmnode.config.training import Training
from swarmnode.policy.checkpoint import CheckpointError, newest_checkpoint, save_checkpoint
from swarmnode.policy.client import (
    Durations,
    PolicyOrder,
    RemotePolicy,
    Restored,
    RestoreReport,
)
from swarmnode.policy.saved_state import CheckpointRefused
from swarmnode.process import Child, ChildFailed
from swarmnode.worker import HostedPolicy

FILES = ("MANIFEST.json", "model.safetensors", "optimizer.safetensors", "state.json")
SMALL = TinySettings(width=16, layers=1, heads=2, feed_forward_width=16)
TRAINING = Training(learning_rate=1e-2, weight_decay=0.1, inner_steps=2)
PROMPTS = ["Calculate 3 + 4.", "Simplify the fraction 6/8 to its lowest terms."]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Sums of several threads may differ in their last bit from those of one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def order(tiny: TinySettings = SMALL, seed: int = 7, **changes: Any) -> dict[str, Any]:
    """What makes a policy without a warm start; `changes` are those of its training."""
    policy = PolicySettings(
        tiny=tiny, max_new_tokens=8, warm_start=WarmStartSettings(base_steps=0, steps=0)
    )
    return {
        "policy": policy.model_dump(),
        "training": TRAINING.model_copy(update=changes).model_dump(),
        "seed": seed,
        "shared_seed": 1,
        "base_pairs": [],
        "skill_pairs": [],
        "cache_folder": None,
    }


def recorded(number: int) -> dict[str, Any]:
    """A peer's group, as the daemon hands it over; it follows from the number alone."""
    generator = random.Random(number)
    texts = [str(generator.randrange(100)) for _ in range(4)]
    return {
        "prompt": f"Calculate {number} + {number}.",
        "task": "basic_arithmetic",
        "source": "external",
        "rewards": [1.0, 0.0, 0.0, 1.0],
        "same_tokenizer": True,
        "completions": [[text, "stop", None, None] for text in texts],
    }


class Sampling(Protocol):
    """What a round asks of a policy."""

    def generate(self, prompts: Sequence[str], completions: int) -> list[list[list[Any]]]: ...

    def train(self, groups: Sequence[dict[str, Any]]) -> dict[str, Any]: ...


class Elsewhere:
    """A policy of a host, for callers without an event loop."""

    def __init__(self, host: Child, number: int) -> None:
        self._host = host
        self._number = number

    def ask(self, method: str, **payload: Any) -> Any:
        asked = {"number": self._number, **payload}
        return asyncio.run(self._host.call(method, asked, 120.0))

    def generate(self, prompts: Sequence[str], completions: int) -> list[list[list[Any]]]:
        groups = self.ask("generate", prompts=prompts, completions=completions)
        return [
            [[text, reason, tuple(ids), tuple(logprobs)] for text, reason, ids, logprobs in group]
            for group in groups
        ]

    def train(self, groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
        trained: dict[str, Any] = self.ask("train", groups=groups)
        return trained


def rounds(policy: Sampling, numbers: range) -> list[Any]:
    """Sample, reward what is sampled by its text, train on it and on recorded groups."""
    sampled = []
    for number in numbers:
        groups = policy.generate(PROMPTS, 4)
        sampled.append(groups)
        local = [
            recorded(0)
            | {
                "prompt": prompt,
                "source": "local",
                "rewards": [float(len(text) % 2) for text, _, _, _ in group],
                "completions": group,
            }
            for prompt, group in zip(PROMPTS, groups, strict=True)
        ]
        policy.train([*local, recorded(number)])
    return sampled


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def saved(policy: HostedPolicy, folder: Path, extra: Any = None) -> Path:
    return Path(policy.save(str(folder), extra)["path"])


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
    assert rounds(resumed, range(6, 12)) == second != first
    again = saved(resumed, tmp_path / "resumed")
    assert again.name == end.name == "step-24"
    assert contents(again) == contents(end)
    assert contents(end)["model.safetensors"] != contents(middle)["model.safetensors"]
    assert resumed.generate(PROMPTS, 4) == whole.generate(PROMPTS, 4)


def test_saving_changes_nothing_that_follows(tmp_path: Path) -> None:
    torch.manual_seed(3)
    quiet, saving = HostedPolicy(order()), HostedPolicy(order())
    everyones = torch.get_rng_state(), random.getstate()
    for number in range(3):
        assert rounds(saving, range(number, number + 1)) == rounds(quiet, range(number, number + 1))
        saved(saving, tmp_path / "saving")
    assert contents(saved(quiet, tmp_path / "quiet")) == contents(tmp_path / "saving" / "step-6")
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
    assert state["settings"]["training"]["learning_rate"] == 1e-2
    assert set(state["optimizer"]["steps"].values()) == {4.0}
    assert state["libraries"]["torch"] == torch.__version__


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (order(learning_rate=0.5), r"training\.learning_rate = 0\.01, now it is 0\.5"),
        (order(SMALL.model_copy(update={"width": 32})), r"policy\.tiny\.width = 16, now it is 32"),
    ],
)
def test_a_checkpoint_of_other_settings_is_refused_by_their_name_and_changes_nothing(
    tmp_path: Path, other: dict[str, Any], difference: str
) -> None:
    policy = HostedPolicy(order())
    rounds(policy, range(1))
    path = saved(policy, tmp_path)
    stranger = HostedPolicy(other)
    with pytest.raises(CheckpointRefused, match=difference) as raised:
        stranger.restore(str(tmp_path))
    assert str(path) in str(raised.value)
    assert rounds(stranger, range(1)) == rounds(HostedPolicy(other), range(1))
    assert newest_checkpoint(tmp_path).path == path


def altered(source: Path, target: Path, change: Any) -> None:
    """A checkpoint with another state.json, under a manifest that agrees with it."""

    def write(temporary: Path) -> None:
        for name, data in contents(source).items():
            if name == "state.json":
                state = json.loads(data)
                change(state)
                data = json.dumps(state).encode()
            if name != "MANIFEST.json":
                (temporary / name).write_bytes(data)

    save_checkpoint(target, 1, 1, write)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (lambda state: state.update(format=2), "another version of this program"),
        (lambda state: state.pop("generator"), "another version of this program"),
        (lambda state: state.update(model="large"), "model 'large', now it is 'tiny'"),
        (lambda state: state.update(tokenizer="00"), "another tokenizer"),
        (lambda state: state.update(generator="AAAA"), "another kind of generator"),
        (lambda state: state["optimizer"]["steps"].popitem(), "moments of another optimizer"),
        (lambda state: state["optimizer"].update(learning_rates=[]), "other parameter groups"),
    ],
)
def test_a_sound_checkpoint_that_does_not_fit_is_refused_before_anything_changes(
    tmp_path: Path, change: Any, difference: str
) -> None:
    policy = HostedPolicy(order())
    rounds(policy, range(1))
    altered(saved(policy, tmp_path / "own"), tmp_path / "altered", change)
    stranger = HostedPolicy(order(seed=8))
    with pytest.raises(CheckpointRefused, match=difference):
        stranger.restore(str(tmp_path / "altered"))
    assert rounds(stranger, range(1)) == rounds(HostedPolicy(order(seed=8)), range(1))


def test_weights_of_another_shape_are_refused_even_under_equal_settings(tmp_path: Path) -> None:
    policy = HostedPolicy(order())
    rounds(policy, range(1))
    path = saved(policy, tmp_path / "own")
    wide = HostedPolicy(order(SMALL.model_copy(update={"width": 32})))

    def pretend(state: dict[str, Any]) -> None:
        state["settings"]["policy"]["tiny"]["width"] = 32

    altered(path, tmp_path / "altered", pretend)
    with pytest.raises(CheckpointRefused, match="parameters of another model: exp_avg"):
        wide.restore(str(tmp_path / "altered"))


def test_a_setting_that_an_update_added_does_not_cost_the_checkpoint(tmp_path: Path) -> None:
    policy = HostedPolicy(order())
    path = saved(policy, tmp_path / "own")

    def before(state: dict[str, Any]) -> None:
        del state["settings"]["training"]["clip_high"]
        state["settings_sha256"] = "0" * 64

    altered(path, tmp_path / "older", before)
    assert HostedPolicy(order()).restore(str(tmp_path / "older"))["restored"] is not None


@pytest.mark.parametrize("extra", [float("nan"), b"bytes", {1: "number as a key"}])
def test_what_is_no_json_value_is_refused_before_anything_is_written(
    tmp_path: Path, extra: Any
) -> None:
    with pytest.raises(CheckpointError, match="no JSON value"):
        HostedPolicy(order()).save(str(tmp_path), extra)
    assert list(tmp_path.iterdir()) == []


def test_two_hundred_damaged_checkpoints_are_all_detected_and_the_previous_one_loads(
    tmp_path: Path,
) -> None:
    policy = HostedPolicy(order())
    rounds(policy, range(1))
    previous = saved(policy, tmp_path / "swarm", "previous")
    expected = policy.generate(PROMPTS, 1)
    rounds(policy, range(1, 2))
    newest = saved(policy, tmp_path / "swarm", "newest")
    generator = random.Random(11)
    for case in range(200):
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


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_takes_no_more_costs_one_checkpoint_and_no_training(tmp_path: Path) -> None:
    policy, twin = HostedPolicy(order()), HostedPolicy(order())
    rounds(policy, range(1))
    rounds(twin, range(1))
    path = saved(policy, tmp_path)
    for limit in (100, path.joinpath("model.safetensors").stat().st_size + 100):
        with file_size_limit(limit), pytest.raises(CheckpointError, match="File too large"):
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
    assert contents(made.path) == contents(end)
    assert made.size == sum(map(len, contents(end).values()))
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
