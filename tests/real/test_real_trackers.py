"""A node with every tracker that is installed: what each has kept, and what its death costs.

Each is read by its own library. Nothing is sent: W&B is offline, trackio local.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import struct
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from swarmnode.sim.real import RealNode
from swarmnode.trackers.values import tracked_values
from tests.real.real_support import (
    adopting,
    exceptions,
    orphans,
    patience,
    place,
    process_of,
    running,
    said,
    until,
    wait_for_rounds,
)
from tests.unit.test_daemon import SMALLEST

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

TRACKERS = [name for name in ("tensorboard", "wandb", "trackio") if find_spec(name)]


def lines_of(node: RealNode) -> dict[int, dict[str, float]]:
    """What rounds.jsonl says, by round."""
    text = (node.home.metrics / "rounds.jsonl").read_text("utf-8")
    return {int(each["round"]): tracked_values(each) for each in map(json.loads, text.splitlines())}


def tensorboard_s(folder: Path) -> dict[int, float]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (run,) = folder.iterdir()
    read = EventAccumulator(str(run), size_guidance={"scalars": 0})
    read.Reload()
    return {each.step: each.value for each in read.Scalars("generated/tokens")}


def begins(node: RealNode, name: str) -> int:
    """How often a tracker has begun, by what the node says in its terminal."""
    lines = said(node).splitlines()
    return sum(f"name={name} " in each and "look_at_it_by" in each for each in lines)


def wandb_records(text: bytes) -> Iterator[bytes]:
    """The records of its file: LevelDB's log format, behind seven bytes of its own.

    https://github.com/google/leveldb/blob/main/doc/log_format.md; a torn end is left out.
    """
    at, whole = 7, b""
    while at + 7 <= len(text):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        length, kind = struct.unpack_from("<HB", text, at + 4)
        whole += text[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield whole
            whole = b""


def wandb_s(folder: Path) -> dict[int, float]:
    from wandb.proto.wandb_internal_pb2 import Record

    found: dict[int, float] = {}
    for path in sorted(folder.rglob("*.wandb")):
        for data in wandb_records(path.read_bytes()):
            record = Record()
            record.ParseFromString(data)
            items = {
                each.key or "/".join(each.nested_key): json.loads(each.value_json)
                for each in record.history.item
            }
            if "round" in items:
                found[items["round"]] = items.get("generated/tokens", 0.0)
    return found


def trackio_s(folder: Path) -> dict[int, float]:
    connection = sqlite3.connect(folder / "swarmnode.db")
    with connection:
        rows = connection.execute("SELECT step, metrics FROM metrics").fetchall()
    connection.close()
    return {step: json.loads(text).get("generated/tokens", 0.0) for step, text in rows}


READ = {"tensorboard": tensorboard_s, "wandb": wandb_s, "trackio": trackio_s}


def test_every_tracker_has_every_round_and_its_death_costs_none(tmp_path: Path) -> None:
    assert "tensorboard" in TRACKERS
    chosen = f"metrics.trackers={json.dumps(TRACKERS)}"
    with place(tmp_path, *SMALLEST, chosen) as here, adopting() as known:
        node = here.run("tracked", "--solo")
        wait_for_rounds(node, 3)
        for name in TRACKERS:
            found = until(lambda name=name: process_of(node, name), patience(60), name)  # type: ignore[misc]
            os.kill(found, signal.SIGKILL)
        ended = wait_for_rounds(node, 5)
        assert ended.round
        for name in TRACKERS:
            until(lambda name=name: process_of(node, name), patience(60), f"{name} is back")  # type: ignore[misc]

        def well() -> bool:
            status = running(node)
            codes = {each.code for each in status.warnings} if status else {"no status"}
            return not codes & {"no status", "tracker-failing"}

        until(well, patience(90), "no tracker has a problem")
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(patience(60)) == 0
        until(lambda: not orphans(known), patience(10), "no tracker's process is left")
        lines = lines_of(node)
        assert sorted(lines) == list(range(len(lines)))
        asked = {number: line["generated/tokens"] for number, line in lines.items() if number}
        for name in TRACKERS:
            kept = READ[name](node.home.metrics / name)
            assert {number: kept.get(number) for number in asked} == asked, name
        # A later life goes on with the same runs.
        begun = {name: begins(node, name) for name in TRACKERS}
        again = here.run("tracked", "--solo")
        wait_for_rounds(again, 2)
        for name in TRACKERS:
            until(lambda name=name: begins(again, name) > begun[name], patience(60), name)  # type: ignore[misc]
        again.process.send_signal(signal.SIGTERM)
        assert again.process.wait(patience(60)) == 0
        more = {number for number, line in lines_of(again).items() if number}
        assert more > set(asked)
        for name in TRACKERS:
            assert set(READ[name](again.home.metrics / name)) >= more, name
        assert not [line for line in exceptions(again) if "tracker" not in line], said(again)


def test_a_tracker_that_can_t_write_is_a_warning_and_the_rounds_go_on(tmp_path: Path) -> None:
    with place(tmp_path, *SMALLEST, 'metrics.trackers=["tensorboard"]') as here:
        home = tmp_path / "blocked"
        home.mkdir(mode=0o700)
        (home / "metrics").mkdir()
        (home / "metrics" / "tensorboard").write_text("in the way")
        node = here.run("blocked", "--solo")
        wait_for_rounds(node, 2)

        def warned() -> str:
            status = running(node)
            found = (
                [w.text for w in status.warnings if w.code == "tracker-failing"] if status else []
            )
            return found[0] if found else ""

        text = until(warned, patience(60), "the status says so")
        assert text.startswith("tensorboard: tensorboard: begin: ")
        before = running(node)
        wait_for_rounds(node, 2)
        assert before
        assert before.phase == "running"
        (home / "metrics" / "tensorboard").unlink()
        until(lambda: not warned(), patience(120), "it works again")
        assert psutil.pid_exists(node.process.pid)
