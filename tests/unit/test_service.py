"""What a service manager hears: systemd's own protocol, over a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarmnode.clock import VirtualClock, VirtualLoop
from swarmnode.observe.status import Phase
from swarmnode.service import ServiceManager, keep_telling


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        found.bind(str(tmp_path / "notify"))
        found.settimeout(5.0)
        yield found


def heard(listening: socket.socket) -> list[str]:
    return listening.recv(4096).decode().split("\n")


def manager(listening: socket.socket) -> ServiceManager:
    return ServiceManager({"NOTIFY_SOCKET": listening.getsockname()})


def test_a_daemon_says_where_it_is_in_one_line_for_people(listening: socket.socket) -> None:
    manager(listening).tell("running", "training in a swarm of 3,\nround 7\n")
    assert heard(listening) == ["READY=1", "WATCHDOG=1", "STATUS=training in a swarm of 3, round 7"]
    manager(listening).tell("starting", "")
    assert heard(listening) == ["EXTEND_TIMEOUT_USEC=60000000", "STATUS="]
    manager(listening).tell("stopping", "")
    assert "STOPPING=1" in heard(listening)


def test_an_abstract_address_is_known_by_its_at_sign() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        found.bind("\0swarmnode-test-notify")
        found.settimeout(5.0)
        ServiceManager({"NOTIFY_SOCKET": "@swarmnode-test-notify"}).tell("running", "")
        assert heard(found)[0] == "READY=1"


def test_without_a_manager_or_with_a_deaf_one_nothing_happens(tmp_path: Path) -> None:
    assert not ServiceManager({}).there
    ServiceManager({}).tell("running", "")
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).tell("running", "")
    ServiceManager({"NOTIFY_SOCKET": "/" + "x" * 500}).tell("running", "")


def test_a_manager_that_reads_nothing_doesn_t_hold_the_daemon_up(listening: socket.socket) -> None:
    for _ in range(2000):
        manager(listening).tell("running", "x" * 200)


def test_it_is_told_again_until_the_end(listening: socket.socket) -> None:
    phases: list[Phase] = ["starting", "running", "running", "stopping"]
    loop = VirtualLoop()

    async def tell() -> None:
        left = iter(phases)
        clock = VirtualClock(loop)
        telling = keep_telling(manager(listening), clock, lambda: (next(left), ""))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(telling, 7.0)

    try:
        loop.run_until_complete(tell())
    finally:
        loop.close()
    first = [heard(listening)[0] for _ in phases]
    assert first == ["EXTEND_TIMEOUT_USEC=60000000", "READY=1", "READY=1", "STOPPING=1"]
