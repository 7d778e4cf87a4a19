"""The lock around the scorer's worker, tried from inside by real attempts (requirement S5)."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from swarmnode.process import Child, ChildFailed, WorkKilled
from swarmnode.rewards import landlock, sandbox
from swarmnode.zygote import APART_ANSWER_BYTES
from tests.security.sandboxed_attempts import ATTEMPTS, MARKER, MEMORY_BYTES

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


@pytest.mark.skipif(sys.platform != "linux", reason="the list is Linux's")
def test_a_worker_has_none_of_its_zygotes_descriptors(child: Child) -> None:
    def descriptors(process_id: int | None) -> set[int]:
        return {int(name) for name in os.listdir(f"/proc/{process_id}/fd")}

    worker = ask(child, "process id")
    assert {50, 500} < descriptors(child.process_id)
    assert descriptors(worker) == {0, 1, 2, 3}


@needs_filter
@pytest.mark.skipif(os.geteuid() != 0, reason="of root alone")
def test_root_is_held_by_the_filter_where_limits_do_not_hold_it(child: Child) -> None:
    def fork_under_limits() -> None:
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        if (process_id := os.fork()) == 0:
            os._exit(0)
        os.waitpid(process_id, 0)

    assert ask(child, "attempt", "fork") == "PermissionError"
    if in_a_fork(fork_under_limits) != "done":
        pytest.skip("this is the root of a container, whom limits hold")


needs_landlock = pytest.mark.skipif(not landlock.version(), reason="this kernel has no landlock")


@needs_landlock
@pytest.mark.parametrize("name", ["read a file", "write a file", "list a folder", "make a folder"])
def test_landlock_alone_forbids_files(name: str) -> None:
    def attempt() -> None:
        sandbox._give_up_privileges()
        assert landlock.forbid_files_and_ports()
        ATTEMPTS[name].action()

    assert in_a_fork(attempt) == "PermissionError"
    assert not MARKER.exists()


@needs_landlock
@pytest.mark.skipif(landlock.version() < landlock.PORTS_VERSION, reason="this kernel's is older")
def test_landlock_alone_forbids_ports() -> None:
    def attempt() -> None:
        probe = socket.socket()
        sandbox._give_up_privileges()
        assert landlock.forbid_files_and_ports()
        probe.bind(("127.0.0.1", 0))

    assert in_a_fork(attempt) == "PermissionError"


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (1, (0x1FFF,)),
        (2, (0x3FFF,)),
        (3, (0x7FFF,)),
        (4, (0x7FFF, 3)),
        (5, (0xFFFF, 3)),
        (6, (0xFFFF, 3, 3)),
        (9, (0xFFFF, 3, 3)),
    ],
)
def test_each_version_of_landlock_is_asked_for_all_that_it_can(
    version: int, words: tuple[int, ...]
) -> None:
    assert struct.unpack(f"={len(words)}Q", landlock.ruleset(version)) == words


def test_a_kernel_without_landlock_leaves_the_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    def attempt() -> None:
        monkeypatch.setattr(landlock, "version", lambda: 0)
        assert not landlock.forbid_files_and_ports()
        sandbox.lock(MEMORY_BYTES)
        ATTEMPTS["read a file"].action()

    assert in_a_fork(attempt) == ("PermissionError" if sandbox.filtered() else "done")


@pytest.mark.parametrize(
    ("system", "processor", "version", "found"),
    [
        ("linux", "x86_64", 7, sandbox.Confinement.FILTER_AND_LANDLOCK),
        ("linux", "aarch64", 1, sandbox.Confinement.FILTER_AND_LANDLOCK),
        ("linux", "x86_64", 0, sandbox.Confinement.FILTER),
        ("linux", "riscv64", 7, sandbox.Confinement.NOTHING),
        ("darwin", "arm64", 0, sandbox.Confinement.NOTHING),
        ("darwin", "x86_64", 0, sandbox.Confinement.NOTHING),
    ],
)
def test_what_confines_depends_on_system_processor_and_kernel(
    system: str, processor: str, version: int, found: sandbox.Confinement
) -> None:
    assert sandbox.confinement_of(system, processor, version) is found


def in_a_fork(action: Callable[[], object]) -> str:
    """What an action ends in, in a process of its own: "done" or the name of an error."""
    reader, writer = os.pipe()
    process_id = os.fork()
    if process_id == 0:
        try:
            action()
            told = "done"
        except Exception as error:
            told = type(error).__name__
        os.write(writer, told.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(process_id, 0)
    with os.fdopen(reader) as pipe:
        return pipe.read()


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


def test_cpu_time_beyond_the_limit_ends_a_worker_and_waiting_does_not(child: Child) -> None:
    with pytest.raises(WorkKilled) as killed:
        ask(child, "use", 0.05, seconds=30.0)
    assert killed.value.cause == "cpu"
    with pytest.raises(WorkKilled) as killed:
        ask(child, "hang", seconds=0.1)
    assert killed.value.cause == "time"


def test_an_answer_that_drips_in_is_ended_in_time(child: Child) -> None:
    started = time.monotonic()
    with pytest.raises(WorkKilled) as killed:
        ask(child, "drip", seconds=0.2)
    assert killed.value.cause == "time"
    assert time.monotonic() - started < 2.0


def test_what_cannot_be_read_is_nobodys_answer(child: Child) -> None:
    with pytest.raises(WorkKilled) as killed:
        ask(child, "garble", b"\xc1")
    assert killed.value.cause == "garbled"
    # What comes unasked now is not taken for the answer to the next question.
    with pytest.raises(WorkKilled) as killed:
        ask(child, "echo", 1)
    assert killed.value.cause == "died"
    assert ask(child, "echo", 2) == 2


def test_a_kill_tells_how_far_the_worker_was(child: Child) -> None:
    with pytest.raises(WorkKilled) as killed:
        ask(child, "reach", 7)
    assert (killed.value.cause, killed.value.reached) == ("died", 7)
    with pytest.raises(WorkKilled) as killed:
        ask(child, "leave", 3)
    assert killed.value.reached == 0


def test_what_is_asked_apart_is_done_by_a_worker_that_ends_with_its_answer(child: Child) -> None:
    async def workers(*apart: bool) -> list[int]:
        found = [await child.work("process id", None, 60, 1.0, apart=each) for each in apart]
        return [worked.value for worked in found]

    own, first, second, own_again = asyncio.run(workers(False, True, True, False))
    assert own == own_again
    assert len({own, first, second}) == 3
    for ended in (first, second):
        with pytest.raises(ProcessLookupError):
            os.kill(ended, 0)


def test_a_worker_apart_can_flood_nobody_with_its_answer(child: Child) -> None:
    async def answer(*, apart: bool) -> int:
        worked = await child.work("answer", APART_ANSWER_BYTES, 60, 1.0, apart=apart)
        return len(worked.value)

    with pytest.raises(WorkKilled):
        asyncio.run(answer(apart=True))
    assert asyncio.run(answer(apart=False)) == APART_ANSWER_BYTES


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere elapsed seconds are told")
def test_what_work_costs_is_told_in_cpu_seconds(child: Child) -> None:
    async def cost(method: str, payload: object) -> float:
        return (await child.work(method, payload, 60, 30.0, apart=True)).seconds

    assert asyncio.run(cost("sleep", 0.3)) < 0.1
    assert 0.2 < asyncio.run(cost("spin", 0.3)) < 0.5


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
