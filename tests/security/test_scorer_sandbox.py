"""The lock around the scorer's worker, tried from inside by real attempts."""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from swarmnode.process import Child, ChildFailed, WorkKilled
from swarmnode.rewards import sandbox
from tests.security.sandboxed_attempts import ATTEMPTS, MARKER

needs_filter = pytest.mark.skipif(
    not sandbox.filtered(), reason="this machine has no system call filter, only resource limits"
)


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    """A zygote whose locked worker attacks."""
    child = Child("tests.security.sandboxed_attempts", name="attempts")
    child.start()
    yield child
    child.close_now()


def ask(child: Child, method: str, payload: object = None, seconds: float = 1.0) -> Any:
    """The worker's answer."""
    return asyncio.run(child.call(method, payload, 60, seconds))


@needs_filter
@pytest.mark.parametrize("name", ATTEMPTS)
def test_a_locked_worker_is_refused(child: Child, name: str) -> None:
    assert ask(child, "attempt", name) in ATTEMPTS[name].refusals
    assert not MARKER.exists()
    assert ask(child, "echo", "still here") == "still here"


def test_a_locked_worker_still_answers_and_allocates_a_little(child: Child) -> None:
    assert ask(child, "echo", {"text": "¬P", "bytes": b"\x00" * 100_000})["text"] == "¬P"
    assert ask(child, "allocate", 16 << 20) == 16 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not enforce the address space")
@pytest.mark.parametrize("count", [1 << 29, 1 << 40])
def test_memory_beyond_the_limit_is_refused(child: Child, count: int) -> None:
    with pytest.raises(ChildFailed, match="MemoryError"):
        ask(child, "allocate", count)
    assert ask(child, "echo", 1) == 1


def test_the_process_starts_with_nothing_of_its_parents(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWARMNODE_TEST_SECRET", "secret")
    with open(os.devnull) as inherited:
        os.set_inheritable(inherited.fileno(), True)
        child.start()
        surroundings = ask(child, "surroundings", seconds=1)
    # Python itself sets LC_CTYPE where the environment is empty.
    assert set(surroundings["environment"]) <= {"LC_CTYPE", "__CF_USER_TEXT_ENCODING"}
    if sys.platform == "linux":
        assert surroundings["descriptors"] == 4  # the standard streams and the socket


def test_what_a_worker_prints_reaches_nobody(
    child: Child, capfd: pytest.CaptureFixture[str]
) -> None:
    child.start()
    ask(child, "print", "peer's text")
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


@pytest.mark.parametrize("method", ["hang", "exit", "leave"])
def test_a_worker_that_hangs_or_ends_is_replaced_by_a_locked_one(child: Child, method: str) -> None:
    with pytest.raises(WorkKilled):
        ask(child, method, 3, seconds=0.25)
    assert ask(child, "echo", 1) == 1
    if sandbox.filtered():
        assert ask(child, "attempt", "read a file") == "PermissionError"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it ends at its next read")
def test_a_worker_dies_with_its_zygote(child: Child) -> None:
    child.start()
    worker = ask(child, "process id")
    zygote = child.process_id
    assert zygote is not None
    descriptor = os.pidfd_open(worker)
    os.kill(zygote, signal.SIGKILL)
    poll = asyncio.new_event_loop()
    ended = asyncio.Event()
    poll.add_reader(descriptor, ended.set)
    poll.run_until_complete(asyncio.wait_for(ended.wait(), 5))
    poll.close()
    os.close(descriptor)


@pytest.mark.parametrize("architecture", sandbox.ARCHITECTURES.values(), ids=lambda a: str(a.audit))
def test_the_filter_decides_every_call_as_the_tables_say(
    architecture: sandbox.Architecture,
) -> None:
    program = sandbox.compile_filter(architecture)
    column = architecture.column
    allowed = {numbers[column] for numbers in sandbox.ALLOWED.values()}
    guarded = {numbers[column] for numbers in sandbox.NOT_EXECUTABLE.values()}
    assert not allowed & guarded
    for number in (*range(512), 0x40000000, 0x40000001, 0xFFFFFFFF):
        for protection in (0, 1, 3, 4, 5, 7):
            verdict = run_filter(program, number, architecture.audit, protection)
            lets_through = number in allowed or (number in guarded and not protection & 4)
            assert verdict == (sandbox.RET_ALLOW if lets_through else sandbox.RET_EPERM)
    assert run_filter(program, 0, 0x40000003, 0) == sandbox.RET_KILL_PROCESS


def run_filter(program: bytes, number: int, audit: int, protection: int) -> int:
    """What the kernel's machine returns for a call, for the instructions that the filter uses."""
    data = struct.pack("=IIQ6Q", number, audit, 0, 0, 0, protection, 0, 0, 0)
    accumulator, place = 0, 0
    while True:
        code, if_true, if_false, operand = struct.unpack_from("=HBBI", program, place * 8)
        place += 1
        if code == sandbox.LOAD_WORD:
            (accumulator,) = struct.unpack_from("=I", data, operand)
        elif code == sandbox.JUMP_EQUAL:
            place += if_true if accumulator == operand else if_false
        elif code == sandbox.JUMP_ANY_BIT:
            place += if_true if accumulator & operand else if_false
        else:
            assert code == sandbox.RETURN
            return int(operand)


def test_a_machine_that_refuses_the_lock_is_known_at_the_start() -> None:
    sandbox.rehearse(1 << 28)
    with pytest.raises(RuntimeError, match="refuses the sandbox"):
        sandbox.rehearse(1 << 80)  # a limit that no kernel takes
