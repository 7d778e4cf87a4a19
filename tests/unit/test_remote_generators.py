"""Generators from other machines: who comes in, what is believed of them, and how they are lost.

tests/real/test_real_elsewhere.py has two network namespaces.
"""

from __future__ import annotations

import asyncio
import copy
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from swarmnode.channel import Channel
from swarmnode.generating import Here, with_here
from swarmnode.generator_answers import (
    BadAnswer,
    checked_answers,
    checked_figures,
    checked_version,
)
from swarmnode.generator_key import GeneratorKeyError, make_key, tls_by
from swarmnode.process import ChildFailed, ChildGone, ChildTimedOut
from swarmnode.remote_generators import Door, DoorError, Place
from tests.real.real_support import free_port, patience, place, running, until, wait_for_rounds
from tests.unit.resume_support import order
from tests.unit.test_daemon import SMALLEST

pytestmark = pytest.mark.timeout(600)

GOOD: list[Any] = [["5", "stop", [1, 2], [-0.5, -0.25]], ["", "length", [], []]]
FIGURES: dict[str, Any] = {
    "name": "tiny",
    "tokenizer_fingerprint": b"f",
    "figures": {"parameters": 7},
    "judging_parameters": 0,
}
SAMPLE = {"prompts": ["one"], "completions": 2}
Handler = Callable[[Any], Awaitable[Any]]


@asynccontextmanager
async def open_door(folder: Path, places: list[Place]) -> AsyncIterator[Door]:
    door = Door.open("127.0.0.1:0", folder / "generators.pem", places)
    running = asyncio.create_task(door.run())
    try:
        yield door
    finally:
        running.cancel()
        await door.close()


@asynccontextmanager
async def guest(
    door: Door, key: Path, answers: Mapping[str, Handler]
) -> AsyncIterator[tuple[Channel, asyncio.Task[None]]]:
    """Somebody who shows a key at the door."""
    tls = tls_by(key, serves=False)
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port, ssl=tls)
    channel = Channel(reader, writer, answers)
    serving = asyncio.create_task(channel.run())
    try:
        yield channel, serving
    finally:
        await channel.close()
        await serving


def saying(**said: Any) -> dict[str, Handler]:
    """Handlers that say these things; they note what they are greeted with."""

    def handler(value: Any) -> Handler:
        async def answer(_asked: Any) -> Any:
            return value

        return answer

    return {name: handler(value) for name, value in {"begin": None, **said}.items()}


def test_who_shows_the_key_gets_a_place_and_answers(tmp_path: Path) -> None:
    async def story() -> None:
        spot = Place("remote-1")
        async with open_door(tmp_path, [spot]) as door:
            answers = saying(create_generator=FIGURES, sample=[GOOD])
            async with guest(door, tmp_path / "generators.pem", answers):
                await asyncio.wait_for(spot.begin(), 30)
                assert await spot.call("create_generator", order(), 30) == FIGURES
                assert await spot.call("sample", SAMPLE, 30) == [GOOD]
            for _ in range(200):
                if spot.free:
                    break
                await asyncio.sleep(0.05)
            assert not spot.alive
            with pytest.raises(ChildGone, match="remote-1 is not here"):
                await spot.call("sample", SAMPLE, 30)
            # Somebody else may have it then.
            async with guest(door, tmp_path / "generators.pem", answers):
                await asyncio.wait_for(spot.begin(), 30)
                assert spot.starts == 2

    asyncio.run(story())


def test_one_that_leaves_while_it_is_asked_is_gone(tmp_path: Path) -> None:
    async def story() -> None:
        spot, asked = Place("remote-1"), asyncio.Event()

        async def hangs(_asked: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()

        async with open_door(tmp_path, [spot]) as door:
            answers = {**saying(), "sample": hangs}
            async with guest(door, tmp_path / "generators.pem", answers):
                await asyncio.wait_for(spot.begin(), 30)
                asking = asyncio.create_task(spot.call("sample", SAMPLE, 30))
                await asyncio.wait_for(asked.wait(), 30)
            with pytest.raises(ChildGone, match="remote-1 is gone during sample: "):
                await asking

    asyncio.run(story())


def test_there_are_no_more_guests_than_places(tmp_path: Path) -> None:
    async def story() -> str:
        told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def refused(text: str) -> None:
            told.set_result(text)

        async with open_door(tmp_path, [Place("remote-1")]) as door:
            key = tmp_path / "generators.pem"
            async with guest(door, key, saying()), guest(door, key, {"refused": refused}):
                return await asyncio.wait_for(told, 30)

    assert asyncio.run(story()) == "all 1 places are taken (policy.remote_generators)"


def test_another_key_or_none_gets_nothing(tmp_path: Path) -> None:
    make_key(tmp_path / "other.pem")

    async def story() -> None:
        spot = Place("remote-1")
        async with open_door(tmp_path, [spot]) as door:
            with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
                async with guest(door, tmp_path / "other.pem", saying()):
                    pass
            tls = tls_by(tmp_path / "other.pem", serves=False)
            tls.verify_mode = ssl.CERT_NONE  # one who doesn't mind who the node is
            reader, writer = await asyncio.open_connection("127.0.0.1", door.port, ssl=tls)
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                await asyncio.wait_for(reader.readexactly(1), 30)
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
            writer.write(b"x" * 100)
            # A record of TLS's own, or nothing: no call is ever made.
            assert b"begin" not in await asyncio.wait_for(reader.read(), 30)
            writer.close()
            assert spot.free
            async with guest(door, tmp_path / "generators.pem", saying()):
                await asyncio.wait_for(spot.begin(), 30)

    asyncio.run(story())


def test_what_is_no_answer_fails_and_what_takes_too_long_is_hung_up_on(tmp_path: Path) -> None:
    async def asleep(_asked: Any) -> None:
        await asyncio.sleep(3600)

    async def story() -> None:
        spot = Place("remote-1")
        async with open_door(tmp_path, [spot]) as door:
            answers = saying(create_generator=FIGURES, sample=[[*GOOD, GOOD[0]]])
            async with guest(door, tmp_path / "generators.pem", answers | {"take_weights": asleep}):
                await asyncio.wait_for(spot.begin(), 30)
                await spot.call("create_generator", order(), 30)
                with pytest.raises(ChildFailed, match="not 2 completions to each of 1 questions"):
                    await spot.call("sample", SAMPLE, 30)
                with pytest.raises(ChildTimedOut):
                    await spot.call("take_weights", {}, -9.5)
                assert not spot.alive

    asyncio.run(story())


@pytest.mark.parametrize(
    "broken",
    [
        "text",
        [["5", "stop", [1], [-0.5, -0.25]], GOOD[0]],
        [["5", "stop", [1, -2], [-0.5, -0.25]], GOOD[0]],
        [["5", "stop", [1, True], [-0.5, -0.25]], GOOD[0]],
        [["5", "stop", [1, 2], [-0.5, float("nan")]], GOOD[0]],
        [["5", "stop", [1, 2], [-0.5, 2.0]], GOOD[0]],
        [["5", "stop", [1, 2], None], GOOD[0]],
        [["5", "later", [1, 2], [-0.5, -0.25]], GOOD[0]],
        [[5, "stop", [1, 2], [-0.5, -0.25]], GOOD[0]],
        [["x" * 5000, "stop", [1, 2], [-0.5, -0.25]], GOOD[0]],
        [["5", "stop", [1] * 9, [-0.5] * 9], GOOD[0]],
        [["5", "stop", [1, 2], [-0.5, -0.25], {"judge": "much"}], GOOD[0]],
        [["5", "stop", [1, 2], [-0.5, -0.25], {}, {}], GOOD[0]],
    ],
)
def test_a_completion_of_another_form_is_none(broken: Any) -> None:
    judged = [*copy.deepcopy(GOOD[0]), {"judge": 0.5}]
    assert checked_answers([GOOD, [judged, GOOD[0]]], 2, 2, 8)
    with pytest.raises(BadAnswer):
        checked_answers([GOOD, broken], 2, 2, 8)


def test_what_else_is_told_is_checked_as_well() -> None:
    assert checked_figures(FIGURES) == FIGURES
    assert checked_version({"version": -1, "taken": False})
    wrong: Any
    for wrong in ({}, {**FIGURES, "name": 3}, {**FIGURES, "figures": {"parameters": -1}}, None):
        with pytest.raises(BadAnswer):
            checked_figures(wrong)
    for wrong in ({"version": "3", "taken": True}, {"version": -2, "taken": True}, []):
        with pytest.raises(BadAnswer):
            checked_version(wrong)


def test_the_key_file_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "generators.pem"
    make_key(path)
    content = path.read_bytes()
    make_key(path)
    assert path.read_bytes() == content
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    with pytest.raises(GeneratorKeyError, match="may be opened by others"):
        tls_by(path, serves=True)
    path.chmod(0o600)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(GeneratorKeyError, match="holds no generators' key"):
        tls_by(path, serves=False)
    with pytest.raises(GeneratorKeyError, match="cannot be read"):
        tls_by(tmp_path / "nowhere", serves=False)


def test_an_address_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(DoorError, match="can't be listened at"):
            Door.open(address, tmp_path / "generators.pem", [])


def test_what_differs_on_the_other_machine_is_put_in_place() -> None:
    made = with_here(order(), Here(model="/models/here", device="cpu", weights_folder="/mnt/w"))
    assert made["policy"]["model"] == "/models/here"
    assert made["policy"]["weights"]["folder"] == "/mnt/w"
    assert with_here(order(), Here())["policy"]["model"] == "tiny"


def started_by_hand(out: Path, port: int) -> subprocess.Popen[bytes]:
    """`swarmnode generate` for the node of that home."""
    command = [
        "generate",
        "--of",
        f"127.0.0.1:{port}",
        "--key",
        str(out / "node" / "generators.pem"),
    ]
    return subprocess.Popen(
        [sys.executable, "-m", "swarmnode", *command],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def test_a_node_trains_on_what_a_generator_elsewhere_samples_and_takes_it_back(
    tmp_path: Path,
) -> None:
    """Over a broadcast, which wants everybody at once."""
    port = free_port()
    settings = (
        'policy.mode="split"',
        "policy.generators=0",
        "policy.remote_generators=1",
        f'policy.generators_address="127.0.0.1:{port}"',
        'policy.weights.channel="broadcast"',
        f'policy.weights.address="127.0.0.1:{free_port()}"',
    )
    with place(tmp_path, *SMALLEST, *settings) as here:
        node = here.run("node", "--solo")
        key = node.home.generators_key
        until(key.exists, patience(60), "the key of generators")
        first = started_by_hand(tmp_path, port)
        second = None
        try:
            wait_for_rounds(node, 3, 120)
            os.killpg(first.pid, signal.SIGKILL)
            second = started_by_hand(tmp_path, port)
            wait_for_rounds(node, 3, 120)
            status = running(node)
            assert status
            assert status.split
            assert [each.name for each in status.split.generators] == ["remote-1"]
            assert status.split.lag <= status.split.max_lag
        finally:
            for process in (first, second):
                if process is not None:
                    process.kill()
                    process.wait()
