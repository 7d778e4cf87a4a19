"""Rewards of other packages: a really installed one, and what it can do wrong."""

from __future__ import annotations

import importlib
import itertools
import math
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from swarmnode.config.channels import Channels, OwnReward
from swarmnode.config.training import Training
from swarmnode.hosted_policy import HostedPolicy
from swarmnode.reward_models.judging import LARGEST
from swarmnode.reward_models.own import UnusableReward, load_reward, paid_by
from swarmnode.reward_models.panel import Panel
from swarmnode.rewards.channels import Paid
from swarmnode.training.channels import round_advantages
from tests.unit.resume_support import SMALL, order, recorded
from tests.unit.training_support import make_group

SOURCE = '''
class Short:
    """Pays for few characters."""

    def __init__(self, options):
        self._each = options.get("each", 1.0)

    def rewards(self, completions):
        return [-self._each * len(one.text) for one in completions]


class Failing:
    def __init__(self, options):
        pass

    def rewards(self, completions):
        raise RuntimeError("no luck\\nwith this")


def silent(options):
    return object()


def unmakeable(options):
    raise KeyError("a file")
'''
ENTRIES = """[swarmnode.rewards]
short = brought_rewards:Short
failing = brought_rewards:Failing
silent = brought_rewards:silent
unmakeable = brought_rewards:unmakeable
absent = brought_rewards:absent
"""
COMPLETIONS = (
    Paid("?", "one", (5,), success=True),
    Paid("?", "seven", (5, 6), success=False),
    Paid("?", "", (), success=False),
)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package as pip leaves it: its module and its dist-info, on the path."""
    (tmp_path / "brought_rewards.py").write_text(SOURCE)
    info = tmp_path / "brought_rewards-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brought-rewards\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path
    sys.modules.pop("brought_rewards", None)


class Told:
    """A reward that does what a test wants."""

    def __init__(self, told: Any) -> None:
        self._told = told

    def rewards(self, completions: Sequence[Paid]) -> Any:
        return self._told(completions) if callable(self._told) else self._told


@pytest.mark.usefixtures("installed")
def test_an_installed_packages_reward_is_found_by_its_entry_point_and_made_with_its_options() -> (
    None
):
    made = load_reward(OwnReward(name="short", options={"each": 2}))
    assert list(made.rewards(COMPLETIONS)) == [-6.0, -10.0, 0.0]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("shrot", r"no reward is called 'shrot'; installed packages bring .*short"),
        ("silent", r"'silent' \(brought_rewards:silent\) has no method `rewards`"),
        ("unmakeable", r"\(brought_rewards:unmakeable\) cannot be made: KeyError: 'a file'"),
        ("absent", r"\(brought_rewards:absent\) cannot be made: AttributeError"),
    ],
)
def test_a_reward_that_cannot_be_had_is_refused_in_one_line(name: str, line: str) -> None:
    with pytest.raises(UnusableReward, match=line) as raised:
        load_reward(OwnReward(name=name))
    assert "\n" not in str(raised.value)


def test_a_reward_that_is_left_out_is_not_looked_for() -> None:
    settings = Channels(own=(OwnReward(name="missing", weight=0.0),))
    Panel(settings, torch.device("cpu"), {}, print)


def stubborn(_completions: Any) -> Any:
    while True:
        try:
            time.sleep(0.01)
        except Exception:
            continue


def endless(completions: Any) -> Any:
    return itertools.count(len(completions))


def ending(_completions: Any) -> Any:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ([1.0], "ValueError: 1 rewards for 3 completions"),
        ([1.0] * 4, "ValueError: more than 3 rewards for 3 completions"),
        (endless, "ValueError: more than 3 rewards for 3 completions"),
        (["a", 1.0, 2.0], "ValueError: could not convert string to float: 'a'"),
        (None, "TypeError: 'NoneType' object is not iterable"),
        ([10**400, 1.0, 2.0], "OverflowError: int too large to convert to float"),
        (ending, "SystemExit: 3"),
        (stubborn, "it took over 0.2 s"),
    ],
)
def test_what_a_reward_does_wrong_gives_nobody_a_reward_and_is_named(told: Any, why: str) -> None:
    found = paid_by(Told(told), COMPLETIONS, 0.2)
    assert (found.failed, found.why) == (3, why)
    assert all(map(math.isnan, found.scores))


def test_nothing_to_say_is_no_failure_and_an_infinite_reward_is_one_of_its_own() -> None:
    silent = paid_by(Told([None, math.nan, 1]), COMPLETIONS, 1.0)
    assert (silent.failed, silent.why, silent.scores[2]) == (0, "", 1.0)
    found = paid_by(Told([math.inf, 0.5, True]), COMPLETIONS, 1.0)
    assert (found.failed, found.why) == (1, "a reward is inf")
    assert found.scores[1:] == (0.5, 1.0)


def test_a_reward_that_float32_cannot_square_is_no_reward_and_spoils_no_other() -> None:
    # Finite here, and infinite in the tensors in which advantages are taken.
    found = paid_by(Told([1e300, -1e20, 0.5]), COMPLETIONS, 1.0)
    assert (found.failed, found.why) == (2, "a reward is 1e+300")
    assert [math.isnan(each) for each in found.scores] == [True, True, False]
    largest = paid_by(Told([LARGEST, 0.0, -LARGEST]), COMPLETIONS, 1.0)
    assert not largest.failed
    group = replace(
        make_group(random.Random(0), (1.0, 0.0, 1.0)), further_channels={"mine": largest.scores}
    )
    for settings in (Training(), Training(preset="gdpo")):
        worth = round_advantages([group], settings, {"accuracy": 1.0, "mine": 1.0})
        assert worth.values.isfinite().all()
        assert worth.values.abs().max() > 0.1


@pytest.mark.usefixtures("installed")
def test_a_step_goes_on_where_a_reward_raises_and_says_so_once(
    capfd: pytest.CaptureFixture[str],
) -> None:
    channels = {"own": [{"name": "short", "weight": 0.5}, {"name": "failing"}]}
    host = HostedPolicy({**order(tiny=SMALL), "channels": channels})
    for number in (1, 2):
        metrics = host.train([recorded(number) | {"source": "local"}, recorded(3)])["metrics"]
    assert metrics["steps/taken"] > 0
    assert metrics["channels/failed/failing"] == 8.0
    assert metrics["channels/failed/short"] == 0.0
    assert metrics["channels/advantage_share/failing"] == 0.0
    assert metrics["channels/mean/short"] < 0.0
    said = capfd.readouterr().err
    assert said.count("the reward 'failing' could not be told: RuntimeError: no luck") == 1
