"""The supervisor against real children that answer, fail, hang, die and are killed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from swarmnode.frames import read_frame
from swarmnode.process import (
    Child,
    ChildFailed,
    ChildGone,
    ChildTimedOut,
    WorkKilled,
)

CHILDREN = "tests.unit.process_children"


@asynccontextmanager
async def running(kind: str, *, respawn: bool = False) -> AsyncIterator[Child]:
    child = Child(CHILDREN, name=kind, arguments=[kind], respawn=respawn)
    child.start()
    try:
        yield child
    finally:
        await child.close()


def test_answers_come_back_in_the_order_of_the_calls() -> None:
    async def scenario() -> list[object]:
        async with running("plain") as child:
            calls = [child.call("echo", {"n": n, "b": b"\x00"}, 10.0) for n in range(20)]
            return list(await asyncio.gather(*calls))

    assert asyncio.run(scenario()) == [{"n": n, "b": b"\x00"} for n in range(20)]


def test_an_exception_in_a_handler_is_its_answer_and_the_child_lives_on() -> None:
    async def scenario() -> object:
        async with running("plain") as child:
            with pytest.raises(ChildFailed, match="ValueError: a bad day"):
                await child.call("fail", "a bad day", 10.0)
            return await child.call("echo", 1, 10.0)

    assert asyncio.run(scenario()) == 1


def test_a_hanging_child_is_killed_and_a_dead_one_says_so() -> None:
    async def scenario() -> None:
        async with running("plain") as child:
            with pytest.raises(ChildTimedOut):
                await child.call("sleep", 60, 0.5)
            assert child.process_id is None
            with pytest.raises(ChildGone):
                await child.call("echo", 1, 10.0)

    asyncio.run(scenario())


def test_a_child_with_respawn_is_asked_twice_and_answers_again_after_its_death() -> None:
    async def scenario() -> tuple[object, int]:
        async with running("plain", respawn=True) as child:
            with pytest.raises(ChildGone):
                await child.call("exit", 3, 10.0)
            return await child.call("echo", "back", 10.0), child.starts

    assert asyncio.run(scenario()) == ("back", 3)


@pytest.mark.parametrize(("method", "payload"), [("sleep", 60), ("exit", 3)])
def test_a_forked_worker_that_hangs_or_dies_is_replaced_while_the_zygote_lives(
    method: str, payload: int
) -> None:
    async def scenario() -> None:
        async with running("forked") as child:
            first = await child.call("pid", None, 10.0, 5.0)
            started = time.monotonic()
            with pytest.raises(WorkKilled):
                await child.call(method, payload, 10.0, 0.3)
            second = await child.call("pid", None, 10.0, 5.0)
            assert time.monotonic() - started < 1.25
            assert second != first
            assert child.starts == 1
            with pytest.raises(ProcessLookupError):
                os.kill(first, 0)

    asyncio.run(scenario())


def test_a_child_sees_none_of_the_parents_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "1")

    async def scenario() -> list[str]:
        async with running("plain") as child:
            names: list[str] = await child.call("environment", None, 10.0)
            return names

    assert "A_SECRET" not in asyncio.run(scenario())


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_a_busy_child_and_its_worker_die_with_a_parent_that_is_killed() -> None:
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import asyncio, threading\n"
            "from swarmnode.process import Child\n"
            f"child = Child({CHILDREN!r}, name='orphan', arguments=['forked'])\n"
            "async def main():\n"
            "    child.start()\n"
            "    worker = await child.call('pid', None, 10.0, 5.0)\n"
            "    print(child.process_id, worker, flush=True)\n"
            "    await child.call('sleep', 60, 90.0, 80.0)\n"
            "asyncio.run(main())\n",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    children = [int(number) for number in parent.stdout.readline().split()]
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 5
    alive = children
    while alive and time.monotonic() < deadline:
        alive = [pid for pid in alive if _runs(pid)]
    assert alive == []


def _runs(process_id: int) -> bool:
    try:
        with open(f"/proc/{process_id}/stat") as status:
            return status.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        # The file vanishes with the process; one opened just before fails in the read.
        return False


@pytest.mark.parametrize("body", [b"\xc1", b"", b"\x91", b"\x01\x01", b"\x81\x90\x01", b"\xa1\xff"])
def test_a_frame_that_breaks_the_format_reads_as_hanging_up(body: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(len(body).to_bytes(4, "big") + body)
        with pytest.raises(EOFError):
            read_frame(ours)
