"""The doctor: each thing that a node needs is found wanting, and says what to do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swarmnode.doctor import (
    Check,
    Dialled,
    MachineFacts,
    Result,
    checks,
    examine,
    healthy,
    model_check,
    running_checks,
)
from swarmnode.doctor.dialling import GREETING
from swarmnode.doctor.examine import RELEASED
from swarmnode.home import Home
from swarmnode.observe.facts import Facts
from swarmnode.observe.health import warnings
from swarmnode.observe.network_status import NetworkStatus
from swarmnode.observe.status import NodeStatus, StatusDocument
from swarmnode.policy.needs import Needs
from swarmnode.rewards.sandbox import Confinement

GOOD = MachineFacts(
    python=(3, 11),
    packages={"torch": "2.13.0", "hivemind": "1.1.12", "swarmnode-rl": "0.1.0"},
    library="hivemind",
    library_problem="",
    p2pd=Path("/opt/p2pd"),
    p2pd_problem="",
    p2pd_executable=True,
    listen=(Dialled("/ip4/127.0.0.1/tcp/31337", ""),),
    home=Path("/home/alice/.swarmnode"),
    home_problem="",
    home_mode=0o700,
    key_mode=0o600,
    disk_free_bytes=1 << 40,
    memory_available_bytes=1 << 40,
    descriptors=65536,
    bootstrap=(Dialled("/ip4/192.0.2.7/tcp/4001", ""),),
    sandbox=Confinement.FILTER_AND_LANDLOCK,
    status=None,
)


def running(facts: Facts | None = None, offset: float | None = 0.5) -> StatusDocument:
    return StatusDocument(
        version="0.1.0",
        started=0.0,
        now=1.0,
        node=NodeStatus(),
        network=NetworkStatus(state="connected", clock_offset_seconds=offset),
        warnings=tuple(warnings(facts or Facts())),
    )


def bad(found: list[Check]) -> list[tuple[str, Result]]:
    return [(each.name, each.result) for each in found if each.result is not Result.OK]


def test_the_memory_of_a_split_node_is_that_of_all_its_processes() -> None:
    gib = 1 << 30
    alone = Needs(bytes=2 * gib, parts="weights 1 GiB", available_bytes=gib)
    # One that doesn't fit is refused by its host.
    assert model_check("small", alone) == Check(
        "model", Result.OK, "small needs 2.0 GiB at its peak (weights 1 GiB)"
    )
    split = replace(
        alone,
        available_bytes=8 * gib,
        generators=2,
        generator_bytes=gib,
        generator_parts="program 1 GiB",
        shared_bytes=gib,
        shared_available_bytes=4 * gib,
    )
    fits = model_check("small", split)
    assert (fits.result, fits.fix) == (Result.OK, "")
    for words in ("5.0 GiB at its peaks", "8.0 GiB are", "2 generators of 1.0 GiB", "of 4.0 GiB"):
        assert words in fits.found
    full = model_check("small", replace(split, available_bytes=4 * gib))
    assert full.result is Result.WARNING
    assert "policy.generators" in full.fix
    assert "folder" not in full.fix
    small = model_check("small", replace(split, shared_available_bytes=gib // 2))
    assert small.result is Result.WARNING
    assert "policy.weights.channel=folder" in small.fix


def test_a_good_machine_passes_every_check() -> None:
    found = checks(GOOD)
    assert bad(found) == []
    assert healthy(found)


@pytest.mark.parametrize(
    ("facts", "name", "result", "fix"),
    [
        ({"python": (3, 12)}, "python", Result.FAILED, "3.11"),
        ({"packages": {"hivemind": "1.1.12"}}, "torch", Result.FAILED, "Install"),
        (
            {"packages": {**GOOD.packages, "swarmnode": "0.4.1"}},
            "distribution", Result.FAILED, "pip uninstall swarmnode",
        ),
        (
            {"library": "", "library_problem": "it is missing; install it"},
            "transport",
            Result.FAILED,
            "Install it",
        ),
        ({"p2pd_problem": "it is another; install it again"}, "p2pd", Result.FAILED, "Install"),
        ({"p2pd_executable": False}, "p2pd", Result.FAILED, "chmod +x /opt/p2pd"),
        ({"sandbox": Confinement.NOTHING}, "sandbox", Result.WARNING, "Linux"),
        ({"home_problem": "Read-only file system"}, "home", Result.FAILED, "SWARMNODE_HOME"),
        ({"home_mode": 0o755}, "home", Result.FAILED, "chmod 700 /home/alice/.swarmnode"),
        ({"key_mode": 0o640}, "key", Result.FAILED, "key rotate"),
        ({"disk_free_bytes": 1}, "disk", Result.FAILED, "Free"),
        ({"disk_free_bytes": 1 << 30}, "disk", Result.WARNING, "Free"),
        ({"memory_available_bytes": 1 << 30}, "memory", Result.WARNING, "Close"),
        ({"descriptors": 1024}, "open-files", Result.WARNING, "ulimit -n 4096"),
        (
            {"listen": (Dialled("/ip4/127.0.0.1/tcp/1", "Address already in use"),)},
            "port", Result.FAILED, "--listen",
        ),
        (
            {"bootstrap": (Dialled("/ip4/192.0.2.7/tcp/4001", "Connection refused"),)},
            "bootstrap", Result.FAILED, "firewall",
        ),
        ({"now": RELEASED - 1e6}, "clock", Result.FAILED, "timedatectl"),
        ({"clock_kept": False}, "clock", Result.WARNING, "timedatectl"),
    ],
)  # fmt: skip
def test_what_is_wanting_is_found_with_its_fix(
    facts: Mapping[str, Any], name: str, result: Result, fix: str
) -> None:
    found = checks(replace(GOOD, **facts))
    assert bad(found) == [(name, result)]
    assert healthy(found) is (result is Result.WARNING)
    assert fix in next(each.fix for each in found if each.name == name)


def test_what_confines_the_scorer_is_said_and_a_kernel_without_landlock_is_no_fault() -> None:
    def said(sandbox: Confinement) -> str:
        found = checks(replace(GOOD, sandbox=sandbox))
        assert healthy(found)
        return next(each.found for each in found if each.name == "sandbox")

    assert "landlock and limits" in said(Confinement.FILTER_AND_LANDLOCK)
    assert "no landlock" in said(Confinement.FILTER)
    # macOS, where the verifiers themselves are the one line of defence.
    assert "nothing confines the scorer but resource limits" in said(Confinement.NOTHING)


def test_one_bootstrap_peer_of_two_is_enough() -> None:
    found = checks(replace(GOOD, bootstrap=(Dialled("/a", "refused"), Dialled("/b", ""))))
    assert bad(found) == [("bootstrap", Result.WARNING)]


def test_what_is_not_there_yet_is_no_fault() -> None:
    fresh = replace(GOOD, home_mode=None, key_mode=None, listen=(), bootstrap=())
    assert bad(checks(fresh)) == []


def test_a_running_nodes_own_complaints_are_told() -> None:
    assert bad(checks(replace(GOOD, status=running()))) == []
    full = running(Facts(disk_free_bytes=1, reachable=False))
    assert bad(checks(replace(GOOD, status=full))) == [("disk-full", Result.FAILED)]
    slow = running(Facts(clock_offset_seconds=-30.0), offset=-30.0)
    assert bad(checks(replace(GOOD, status=slow))) == [("clock-off", Result.WARNING)]


def test_a_health_check_wants_a_node_that_runs_and_does_its_work() -> None:
    home = Path("/home/ann/node")
    [found] = running_checks(None, home)
    assert (found.name, found.result) == ("node", Result.FAILED)
    assert str(home) in found.found
    assert found.fix
    assert healthy(running_checks(running(), home))
    full = running(Facts(disk_free_bytes=1))
    assert bad(running_checks(full, home)) == [("disk-full", Result.FAILED)]


def test_hostile_text_in_an_address_is_escaped() -> None:
    found = checks(replace(GOOD, bootstrap=(Dialled("/ip4/\x1b[2J", "a\nb"),)))
    assert all(each.found.isprintable() for each in found)


def test_a_new_home_is_examined_and_left_as_it_was(tmp_path: Path) -> None:
    home = Home(tmp_path / "not" / "there")
    facts = examine(home, ["/ip4/127.0.0.1/tcp/0"], [], None)
    assert (facts.home_problem, facts.home_mode, facts.key_mode) == ("", None, None)
    assert facts.p2pd is not None
    assert facts.p2pd_executable
    assert facts.packages["torch"]
    assert list(tmp_path.iterdir()) == []


def test_a_home_that_is_there_is_examined_and_left_as_it_was(tmp_path: Path) -> None:
    home = Home(tmp_path)
    tmp_path.chmod(0o750)
    home.key.write_text("secret")
    home.key.chmod(0o604)
    facts = examine(home, [], [], None)
    assert (facts.home_problem, facts.home_mode, facts.key_mode) == ("", 0o750, 0o604)
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_a_home_that_cannot_be_is_found_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "no folder" in examine(Home(tmp_path / "file" / "home"), [], [], None).home_problem
    assert examine(Home(Path("/proc/swarmnode")), [], [], None).home_mode is None


@contextmanager
def greeting(text: bytes) -> Iterator[socket.socket]:
    """A server that says this to whoever comes, and hangs up."""

    def serve(listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.sendall(text)
                connection.recv(64)

    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve, args=(listening,), daemon=True)
    thread.start()
    try:
        yield listening
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(10)


def test_ports_and_bootstrap_peers_are_tried() -> None:
    with greeting(GREETING) as listening, greeting(b"HTTP/1.1 400 Bad Request") as other:
        taken = f"/ip4/127.0.0.1/tcp/{listening.getsockname()[1]}"
        web = f"/ip4/127.0.0.1/tcp/{other.getsockname()[1]}"
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            closed = f"/ip4/127.0.0.1/tcp/{unused.getsockname()[1]}/p2p/12D3KooWX"
        facts = examine(
            Home(Path("/nowhere")),
            [taken, "/ip4/127.0.0.1/tcp/0", closed],
            [f"{taken}/p2p/12D3KooWX", closed, "hello", "/ip4/127.0.0.1/tcp/99999", web],
            None,
        )
    assert [bool(each.error) for each in facts.listen] == [True, False, False]
    assert [bool(each.error) for each in facts.bootstrap] == [False, True, True, True, True]
    assert "no libp2p peer" in facts.bootstrap[4].error
    assert "refused" in facts.bootstrap[1].error


def test_a_bootstrap_peer_that_says_nothing_delays_no_longer_than_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def silent(_address: object, timeout: float) -> socket.socket:
        raise TimeoutError(timeout)

    monkeypatch.setattr(socket, "create_connection", silent)
    facts = examine(Home(Path("/nowhere")), [], ["/ip4/192.0.2.7/tcp/1"], None, dial_seconds=0.01)
    assert facts.bootstrap == (Dialled("/ip4/192.0.2.7/tcp/1", "no answer within 0 s"),)
