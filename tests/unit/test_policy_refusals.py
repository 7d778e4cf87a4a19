"""A sound checkpoint that belongs to something else is refused before anything changes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from swarmnode.hosted_policy import HostedPolicy
from swarmnode.policy.checkpoint import newest_checkpoint, save_checkpoint
from swarmnode.policy.saved_state import CheckpointRefused
from tests.unit.resume_support import SMALL, contents, order, rounds, saved


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (order(learning_rate=0.5), r"training\.learning_rate = 0\.1, now it is 0\.5"),
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


def test_what_bounds_memory_may_change_between_two_runs(tmp_path: Path) -> None:
    policy = HostedPolicy(order())
    rounds(policy, range(1))
    saved(policy, tmp_path)
    smaller = HostedPolicy(order(micro_batch_tokens=64, activation_mib=1))
    assert smaller.restore(str(tmp_path))["restored"]["version"] > 0
    assert rounds(smaller, range(1)) == rounds(policy, range(1))


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


def test_moments_of_another_precision_are_refused(tmp_path: Path) -> None:
    policy = HostedPolicy(order())
    rounds(policy, range(1))
    own = saved(policy, tmp_path / "own")

    def write(temporary: Path) -> None:
        shutil.copytree(own, temporary, dirs_exist_ok=True)
        (temporary / "MANIFEST.json").unlink()
        moments = load_file(own / "optimizer.safetensors")
        doubled = {name: moment.double() for name, moment in moments.items()}
        save_file(doubled, temporary / "optimizer.safetensors")

    save_checkpoint(tmp_path / "altered", 1, 1, write)
    with pytest.raises(CheckpointRefused, match="does not fit"):
        policy.restore(str(tmp_path / "altered"))


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
