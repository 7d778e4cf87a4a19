"""Placing hosts: where they go, and what becomes of one that is lost. Ray itself is in tests/real.

The hosts here are real processes behind the actor's own class; only Ray is left out between them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from swarmnode.cluster.cluster import Cluster, ClusterError, HostLost
from swarmnode.cluster.host import PlacedHost
from swarmnode.cluster.journal import Journal, digest_of
from swarmnode.cluster.placed import PlacedChild
from swarmnode.cluster.places import MachineOfCluster, Wanted, next_place
from swarmnode.config.settings import load_settings
from swarmnode.process import ChildFailed, ChildGone, ChildRefused, ChildTimedOut, spawn
from swarmnode.sim.folder import settings_digest

CHILDREN = "tests.unit.placed_children"
HOST = Wanted("host", CHILDREN, {})
SMALL, LARGE = MachineOfCluster("a" * 56, "small", 1), MachineOfCluster("b" * 56, "large", 3)


class WithoutRay(Cluster):
    """A cluster whose actors are objects of this process."""

    def __init__(self) -> None:
        self.told: list[str] = []
        super().__init__("", {}, Path(os.devnull), self.told.append)
        self._thread.start()
        self._actors: dict[str, PlacedChild] = {}
        self.likenesses = iter(["the same"] * 100)

    async def placed(self, wanted: Wanted, seconds: float) -> tuple[MachineOfCluster, int]:
        environment = {**wanted.environment, "LIKENESS": next(self.likenesses)}
        actor = PlacedChild(wanted.module, wanted.name, environment)
        self._end(wanted.name)
        self._actors[wanted.name] = actor
        found = await actor.begin()
        return LARGE, found["process_id"]

    async def answered(self, name: str, request: bytes, seconds: float) -> bytes:
        return await self._actors[name].ask(request)

    def close_now(self) -> None:
        for name in list(self._actors):
            self._end(name)
        super().close_now()

    def _end(self, name: str) -> None:
        """As Ray does with an actor: its process goes, and the child with it."""
        if actor := self._actors.pop(name, None):
            actor._child.close_now()


@pytest.fixture
def cluster() -> Iterator[WithoutRay]:
    made = WithoutRay()
    yield made
    made.close_now()


def host_on(cluster: Cluster, journal: Journal | None, name: str = "policy host 0") -> PlacedHost:
    host = PlacedHost(cluster, Wanted(name, CHILDREN, {}), journal)
    host.start()
    return host


def ask(host: PlacedHost, method: str, payload: object = None, seconds: float = 30.0) -> object:
    return asyncio.run(host.call(method, payload, seconds))


def kill(host: PlacedHost) -> None:
    assert host.process_id is not None
    os.kill(host.process_id, signal.SIGKILL)


def test_hosts_are_spread_by_the_share_of_cores_that_is_taken() -> None:
    taken: dict[str, int] = {}
    places = []
    for _ in range(4):
        place = next_place([SMALL, LARGE], taken, HOST)
        assert place is not None
        places.append((place.machine.host, place.free))
        taken[place.machine.node] = taken.get(place.machine.node, 0) + 1
    assert sorted(places) == [("large", True)] * 3 + [("small", True)]
    crowded = next_place([SMALL, LARGE], taken, HOST)
    assert crowded is not None
    assert (crowded.machine, crowded.free) == (LARGE, False)
    assert next_place([MachineOfCluster("c", "without", 0)], {}, HOST) is None


def test_a_gpu_is_shared_with_nobody() -> None:
    with_gpu = MachineOfCluster("c" * 56, "with a GPU", 1, 1)
    wanted = Wanted("generator 1", CHILDREN, {}, cores=2, gpus=1)
    place = next_place([LARGE, with_gpu], {}, wanted)
    assert place is not None
    assert place.machine is with_gpu
    assert next_place([LARGE, with_gpu], {with_gpu.node: 1}, wanted) is None


def test_a_journal_gives_back_requests_in_order_with_the_digests_of_answers(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    entries = [(bytes([n]) * n, b"answer %d" % n) for n in range(20)]
    for request, answer in entries:
        journal.add(request, answer)
    expected = [(request, digest_of(answer)) for request, answer in entries]
    assert [list(journal), list(journal)] == [expected, expected]
    assert list(tmp_path.iterdir()) == []
    journal.close()


def test_a_lost_host_is_made_anew_and_brought_to_where_it_was(
    cluster: WithoutRay, tmp_path: Path
) -> None:
    host = host_on(cluster, Journal(tmp_path))
    assert [ask(host, "add", number) for number in (1, 10, 100)] == [1, 11, 111]
    first = host.process_id
    kill(host)
    assert ask(host, "add", 1000) == 1111
    assert (host.starts, host.process_id != first) == (2, True)
    assert ask(host, "die_once", str(tmp_path / "marker")) == "alive"
    assert (ask(host, "add", 1), host.starts) == (1112, 3)
    lost, again = cluster.told[:2]
    assert lost.startswith("policy host 0 was lost on large (bbbbbbbb): ")
    assert again == "policy host 0 begins again on large (bbbbbbbb), from 3 requests"
    host.close_now()


def test_one_that_answers_otherwise_than_before_is_an_error(
    cluster: WithoutRay, tmp_path: Path
) -> None:
    host = host_on(cluster, Journal(tmp_path))
    ask(host, "chance")
    kill(host)
    with pytest.raises(ClusterError, match="answers chance otherwise on large"):
        ask(host, "add", 1)
    host.close_now()


def test_a_request_that_ends_its_host_each_time_is_given_up(
    cluster: WithoutRay, tmp_path: Path
) -> None:
    host = host_on(cluster, Journal(tmp_path))
    with pytest.raises(ChildGone, match=r"policy host 0 on large .* is gone: .* died during die"):
        ask(host, "die")
    assert host.starts == 3
    host.close_now()


def test_without_a_journal_a_lost_host_is_gone_until_it_is_started_again(
    cluster: WithoutRay,
) -> None:
    host = host_on(cluster, None)
    assert ask(host, "add", 1) == 1
    kill(host)
    with pytest.raises(ChildGone):
        ask(host, "add", 1)
    assert host.process_id is None
    with pytest.raises(ChildGone, match="not running"):
        ask(host, "add", 1)
    host.start()
    assert ask(host, "add", 1) == 1


def test_endings_of_a_host_are_those_of_a_child(cluster: WithoutRay, tmp_path: Path) -> None:
    host = host_on(cluster, Journal(tmp_path))
    with pytest.raises(ChildRefused, match=r"^make room$"):
        ask(host, "refuse", "make room")
    with pytest.raises(ChildFailed, match="TypeError"):
        ask(host, "add", "text")
    assert host.process_id is not None
    os.kill(host.process_id, signal.SIGSTOP)
    with pytest.raises(ChildTimedOut, match="took over"):
        ask(host, "add", 1, 0.5)
    assert host.starts == 1
    with pytest.raises(ChildGone, match="not running"):
        ask(host, "add", 1)
    host.close_now()


def test_a_machine_that_computes_otherwise_is_refused(cluster: WithoutRay, tmp_path: Path) -> None:
    cluster.likenesses = iter(["version 1", "version 2"])
    one = host_on(cluster, Journal(tmp_path))
    two = host_on(cluster, Journal(tmp_path), "policy host 1")
    ask(one, "add", 1)
    with pytest.raises(ClusterError, match=r"differ in the code \(version 2 and version 1\)"):
        ask(two, "add", 1)
    one.close_now()
    two.close_now()


def test_a_host_that_is_given_no_place_says_why(cluster: WithoutRay, tmp_path: Path) -> None:
    class Full(WithoutRay):
        async def placed(self, wanted: Wanted, seconds: float) -> tuple[MachineOfCluster, int]:
            raise HostLost("large (bbbbbbbb) gave it no place in 120 s")

    full = Full()
    host = host_on(full, Journal(tmp_path))
    with pytest.raises(ChildGone, match="gave it no place"):
        ask(host, "add", 1)
    host.close_now()
    full.close_now()


def test_an_address_where_nothing_listens_is_told_at_once(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        cluster = Cluster(address, {}, tmp_path / "log", print)
        with pytest.raises(ClusterError, match=f"no Ray cluster is at {address}: .* refused"):
            cluster.connect(1)
        cluster.close_now()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def listening() -> Iterator[str]:
    """An address where somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def driven(
    monkeypatch: pytest.MonkeyPatch, folder: Path, does: str, address: str = "", seconds: float = 60
) -> Cluster:
    """A cluster whose driver is a real process that has no Ray behind it (cluster_driver.py)."""

    def start(
        _command: Sequence[str], _arguments: Sequence[str], environment: Mapping[str, str]
    ) -> tuple[subprocess.Popen[bytes], socket.socket]:
        return spawn([sys.executable, "-m", "tests.unit.cluster_driver"], [does], environment)

    monkeypatch.setattr("swarmnode.cluster.cluster.spawn", start)
    return Cluster(address, os.environ, folder / "cluster.log", lambda _line: None, seconds)


@pytest.mark.parametrize(
    ("does", "there", "seconds", "line"),
    [
        ("refuses", True, 60.0, r"^the Ray cluster at .*: .*Version mismatch"),
        ("refuses", False, 60.0, r"^Ray on this machine: .*Version mismatch"),
        ("hangs", False, 1.0, r"^Ray on this machine did not answer in 1 s; Ray's own words"),
        ("dies", True, 60.0, r"^the Ray cluster at .* was lost; Ray's own words: .*cluster\.log"),
    ],
)
def test_a_cluster_that_cannot_be_had_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    listening: str,
    does: str,
    there: bool,
    seconds: float,
    line: str,
) -> None:
    cluster = driven(monkeypatch, tmp_path, does, listening if there else "", seconds)
    with pytest.raises(ClusterError, match=line) as error:
        cluster.connect(1)
    cluster.close_now()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("does", "line"),
    [
        ("coreless", "^Ray on this machine has no machine with a core to give$"),
        ("unlike", r"^policy host 0 on small .* can't compute: .*No module named 'torch'"),
    ],
)
def test_a_machine_that_can_take_no_host_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, does: str, line: str
) -> None:
    cluster = driven(monkeypatch, tmp_path, does)
    cluster.connect(1)
    host = host_on(cluster, Journal(tmp_path))
    with pytest.raises(ClusterError, match=line):
        ask(host, "add", 1)
    host.close_now()
    cluster.close_now()


def test_what_is_asked_of_a_cluster_that_is_being_left_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    left = tmp_path / "left"
    monkeypatch.setenv("LEFT", str(left))
    cluster = driven(monkeypatch, tmp_path, "lingers")
    cluster.connect(1)
    with ThreadPoolExecutor(1) as beside:
        leaving = beside.submit(cluster.close_now)
        try:
            while not cluster.lost:
                time.sleep(0.01)
            with pytest.raises(ClusterError, match="the Ray cluster was left"):
                cluster.run(cluster.asked("machines", None))
        finally:
            left.touch()
        leaving.result()


def test_where_a_run_was_computed_does_not_change_which_run_it_is() -> None:
    here = load_settings()
    there = load_settings(assignments=["simulation.cluster=ray:head:6379"])
    other = load_settings(assignments=["simulation.seed=1"])
    assert settings_digest(here) == settings_digest(there) != settings_digest(other)
