"""Trackers: what they are given, and that none of their failures is a round's."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from swarmnode import process
from swarmnode.config.policy import PolicySettings
from swarmnode.config.settings import Settings, SettingsError, load_settings
from swarmnode.observe.metrics import METRICS
from swarmnode.observe.training_metrics import CHANNEL_METRICS, TRAINING_METRICS, TRL_NAMES
from swarmnode.process import Child, ChildError
from swarmnode.trackers import following
from swarmnode.trackers.following import Ended, Following, LinesFollower, TrackerFollower
from swarmnode.trackers.installed import missing_tracker
from swarmnode.trackers.lines import RoundLines
from swarmnode.trackers.run import Run
from swarmnode.trackers.values import told_settings, tracked_values

REPORT: Mapping[str, Any] = {
    "round": 7,
    "clock_seconds": 1.0,
    "reward/local": {"gcd": 0.5, "bf": 0.25},
    "reward/training_set": {},
    "held_out": {"gcd": "1100"},
    "held_out_greedy": {"gcd": "1110"},
    "metrics": {"loss": 0.5, "guard/value/length": 9, "kl": float("nan")},
    "dropped": {"expired": 2},
    "sources": {"ab" * 8: 3},
    "answers": {"gcd": {"commonest": [["4", 1, 1]], "right": {}, "references": {}}},
}


def report(number: int) -> Mapping[str, Any]:
    return {**REPORT, "round": number}


class Taking:
    """A follower that fails as often as it is told to."""

    name = "taking"
    process = None

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.taken: list[int] = []
        self.closed = False

    async def write(self, rounds: Sequence[Ended]) -> None:
        if self.failures:
            self.failures -= 1
            raise ChildError("the disk said\nno")
        self.taken += [each.report["round"] for each in rounds]

    async def close(self) -> None:
        self.closed = True


class Hanging(Taking):
    """One that never answers."""

    async def write(self, rounds: Sequence[Ended]) -> None:
        await asyncio.Event().wait()


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  # what is waited for has no event
            await asyncio.sleep(0.01)


def test_a_tracker_gets_the_figures_of_a_round_by_their_names_and_no_peer() -> None:
    assert tracked_values(REPORT) == {
        "reward/local": 0.375,
        "reward/local/gcd": 0.5,
        "reward/local/bf": 0.25,
        "held_out": 0.5,
        "held_out/gcd": 0.5,
        "held_out_greedy": 0.75,
        "held_out_greedy/gcd": 0.75,
        "loss": 0.5,
        "guard/value/length": 9.0,
        "dropped/expired": 2.0,
    }


def test_the_settings_that_go_along_name_no_address_and_no_folder() -> None:
    policy = PolicySettings(model="/home/alice/models/mine")
    settings = load_settings(
        assignments=[
            'network.bootstrap=["/ip4/192.0.2.1/tcp/1/p2p/12D3KooWSecret"]',
            "dashboard.address=192.0.2.9",
        ]
    ).model_copy(update={"policy": policy})
    text = json.dumps(told := told_settings(settings))
    assert told["policy.model"] == "mine"
    assert told["training.learning_rate"] == settings.training.learning_rate
    for hidden in ("alice", "192.0.2", "12D3KooW"):
        assert hidden not in text


def test_lines_are_json_bounded_private_and_whole_after_a_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "metrics" / "rounds.jsonl"
    lines = RoundLines(path, 8000)
    lines.write([report(1), report(2)])
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open("a") as file:
        file.write('{"round": 3, "met')
    lines.write([report(4)])
    first, second, torn, last = path.read_text().splitlines()
    assert [json.loads(each)["round"] for each in (first, second, last)] == [1, 2, 4]
    assert torn.startswith('{"round": 3')
    assert json.loads(last)["metrics"]["kl"] is None
    for number in range(5, 100):
        lines.write([report(number)])
    older = path.with_name("rounds.jsonl.1")
    assert path.stat().st_size + older.stat().st_size <= 8000
    assert json.loads(path.read_text().splitlines()[-1])["round"] == 99
    assert sorted(each.name for each in path.parent.iterdir()) == ["rounds.jsonl", "rounds.jsonl.1"]


def test_a_link_in_the_place_of_the_lines_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "else").write_text("mine")
    (tmp_path / "rounds.jsonl").symlink_to(tmp_path / "else")
    with pytest.raises(OSError, match="symbolic links"):
        RoundLines(tmp_path / "rounds.jsonl", 8000).write([REPORT])
    assert (tmp_path / "else").read_text() == "mine"


def test_a_failure_is_told_until_it_is_over_and_loses_no_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "MOST_SECONDS_BETWEEN_TRIES", 0.02)
    failing, fine = Taking(failures=3), Taking()
    fine.name = "fine"

    async def go() -> None:
        both = Following([failing, fine])
        for number in range(1, 4):
            both.heard(report(number), 1.0)
        await until(lambda: both.problems)
        assert both.problems == {"taking": "the disk said\\nno"}
        await until(lambda: failing.taken)
        assert both.problems == {}
        await both.close()

    asyncio.run(go())
    assert failing.taken == fine.taken == [1, 2, 3]
    assert failing.closed


def test_what_takes_nothing_costs_no_more_than_a_bounded_queue_and_a_moment_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "CLOSE_SECONDS", 0.05)
    hanging, fine = Hanging(), Taking()

    async def go() -> int:
        both = Following([hanging, fine])
        for number in range(1, 1001):
            both.heard(report(number), 1.0)
            if number % 100 == 0:
                await asyncio.sleep(0)
        await until(lambda: fine.taken and fine.taken[-1] == 1000)
        waiting = both._followed[0]
        assert len(waiting._waiting) == following.MOST_WAITING
        await both.close()
        return waiting.dropped

    assert asyncio.run(go()) == 1000 - following.MOST_WAITING
    assert hanging.closed


def child_of(module: str) -> TrackerFollower:
    run = Run("project", "run", "ab12", "/nowhere", {})
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = Child(module, name="tensorboard", arguments=["tensorboard"], environment=environment)
    return TrackerFollower("tensorboard", child, run)


def test_a_tracker_whose_process_ends_or_refuses_is_a_problem_and_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies on its way up, then refuses, then works: what it was sent is in the file."""
    (tmp_path / "wayward_tracker.py").write_text(
        "import os, pathlib, sys\n"
        "from swarmnode.process import inherited_socket, serve\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "starts = len(list(folder.glob('start-*')))\n"
        "(folder / f'start-{starts}').touch()\n"
        "def begin(payload):\n"
        "    if starts == 0: os._exit(3)\n"
        "    if starts == 1: raise RuntimeError('not today')\n"
        "    return 'here'\n"
        "def write(payload):\n"
        "    (folder / 'got').write_text(str([row[0] for row in payload]))\n"
        "if __name__ == '__main__':\n"
        "    handlers = dict(begin=begin, write=write, close=print)\n"
        "    serve(handlers, inherited_socket(sys.argv[1:]))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(following, "MOST_SECONDS_BETWEEN_TRIES", 0.02)
    seen: list[str] = []

    async def go() -> None:
        both = Following([child_of("wayward_tracker")])
        both.heard(report(1), 1.0)
        both.heard(report(2), 2.0)

        def looked() -> bool:
            seen.extend(text for text in both.problems.values() if text not in seen)
            return (tmp_path / "got").exists() and not both.problems

        await until(looked)
        ((name, process_id, restarts),) = both.processes
        assert (name, restarts) == ("tensorboard", 2)
        assert process_id is not None
        await both.close()
        assert both.processes[0][1] is None

    asyncio.run(go())
    assert seen == [
        "tensorboard died during begin",
        "tensorboard: begin: RuntimeError: not today",
    ]
    assert (tmp_path / "got").read_text() == "[1, 2]"


def test_a_process_that_hangs_is_ended_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hanging_tracker.py").write_text(
        "import sys, time\n"
        "from swarmnode.process import inherited_socket, serve\n"
        "if __name__ == '__main__':\n"
        "    serve(dict(begin=lambda payload: time.sleep(600)), inherited_socket(sys.argv[1:]))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(following, "BEGIN_SECONDS", 0.2)
    monkeypatch.setattr(process, "KILL_GRACE_SECONDS", 0.2)

    async def go() -> None:
        follower = child_of("hanging_tracker")
        one = Following([follower])
        one.heard(report(1), 1.0)
        await until(lambda: one.problems)
        assert one.problems == {"tensorboard": "tensorboard: begin took over 0.2 s"}
        assert follower.process[1] is None
        await one.close()

    asyncio.run(go())


def test_lines_that_can_t_be_written_are_a_problem_and_no_exception(tmp_path: Path) -> None:
    (tmp_path / "metrics").write_text("a file in the way")

    async def go() -> None:
        lines = RoundLines(tmp_path / "metrics" / "rounds.jsonl", 8000)
        one = Following([LinesFollower(lines)])
        one.heard(report(1), 1.0)
        await until(lambda: one.problems)
        assert list(one.problems) == ["rounds.jsonl"]
        await one.close()

    asyncio.run(go())


def test_what_is_not_installed_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "wandb" else name)
    assert missing_tracker(["tensorboard"]) == ""
    line = missing_tracker(["tensorboard", "wandb"])
    assert line.startswith("metrics.trackers names wandb, which is not installed; `pip install ")
    assert "'swarmnode-rl[wandb]'" in line


def test_a_tracker_that_nobody_knows_is_a_mistake_and_one_named_twice_is_one() -> None:
    with pytest.raises(SettingsError, match=r"metrics\.trackers"):
        load_settings(assignments=['metrics.trackers=["mlflow"]'])
    twice = load_settings(assignments=['metrics.trackers=["wandb", "wandb"]'])
    assert twice.metrics.trackers == ("wandb",)
    assert Settings().metrics.trackers == ()


def test_tensorboard_reads_what_was_written_and_a_second_start_adds_to_it(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from swarmnode.trackers.tensorboard_files import TensorBoard

    run = Run("project", "run", "ab12", str(tmp_path), {"policy.model": "tiny"})
    for number in (1, 2):
        tracker = TensorBoard.open(run)
        tracker.log(number, 100.0 + number, tracked_values(report(number)))
        tracker.close()
    assert tracker.where == f"tensorboard --logdir {tmp_path}"
    read = EventAccumulator(str(tmp_path / "run"))
    read.Reload()
    assert set(read.Tags()["scalars"]) == set(tracked_values(REPORT))
    losses = read.Scalars("loss")
    assert [(each.step, each.wall_time, each.value) for each in losses] == [
        (1, 101.0, 0.5),
        (2, 102.0, 0.5),
    ]
    assert b'policy.model = "tiny"' in read.Tensors("settings")[0].tensor_proto.string_val[0]


def test_the_names_that_are_said_to_be_trl_s_are_in_its_trainer_and_no_other_of_ours_is() -> None:
    trl = find_spec("trl")
    transformers = find_spec("transformers")
    assert trl
    assert transformers
    assert trl.origin
    assert transformers.origin
    grpo = (Path(trl.origin).parent / "trainer" / "grpo_trainer.py").read_text("utf-8")
    base = (Path(transformers.origin).parent / "trainer.py").read_text("utf-8")
    catalogue = {**METRICS, **TRAINING_METRICS, **CHANNEL_METRICS}
    theirs = {name for name in catalogue if f'"{name}"' in grpo or f'logs["{name}"]' in base}
    assert theirs == TRL_NAMES
