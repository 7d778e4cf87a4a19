"""Real nodes for tests: started, looked at, broken, and ended, with small models on loopback.

Every process of a test is a descendant of the test's own: `adopting` makes this process the parent
of whatever their deaths leave behind, so that an orphan is found without knowing its name. Limits
are those of the product on a quiet machine; `patience` stretches them by how busy it is.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from swarmnode.api.documents import PeersDocument
from swarmnode.api.status import ask
from swarmnode.config.settings import Settings, load_settings
from swarmnode.files import write_atomically
from swarmnode.home import Home
from swarmnode.keys import load_or_create_key, peer_id_of
from swarmnode.observe.status import StatusDocument
from swarmnode.paths import HOME_VARIABLE
from swarmnode.sim.real import RealNode, as_toml, real_environment, start
from swarmnode.types import RoundReport
from swarmproto import public_key_of

PR_SET_CHILD_SUBREAPER = 36
START_SECONDS = 90.0
"""From a start to the first round, with a warm start to be made, on a quiet machine."""
QUICK = (
    "simulation.rounds=1000000",
    'tasks.names=["basic_arithmetic", "fraction_simplification"]',
    "policy.warm_start.base_steps=20",
    "policy.warm_start.base_pairs_per_task=200",
    "policy.warm_start.steps=5",
    "policy.warm_start.pairs_per_task=50",
    "policy.max_new_tokens=8",
    "evaluation.questions_per_task=2",
    "evaluation.every_rounds=1000000",
    "selection.filter=uniform",
    "dashboard.enabled=false",
)
"""A policy that has learned next to nothing, and a filter that takes its groups all the same."""

Value = TypeVar("Value")


def quick_settings(*assignments: str) -> Settings:
    """Settings for tests; later assignments win."""
    return load_settings(assignments=[*QUICK, *assignments])


def skip_without_libp2p(libraries: Sequence[str]) -> None:
    """Skip what is to run on it where it is not installed; it is an extra."""
    if "libp2p" in libraries and importlib.util.find_spec("libp2p") is None:
        pytest.skip("the extra libp2p is not installed")


def slowness() -> float:
    """Wall time for each second of computing, here and now; 1.0 on a machine with a core to spare.

    Must be measured before a test's own processes compete.
    """
    wall, used = time.monotonic(), time.process_time()
    while time.process_time() - used < 0.3:
        sum(range(1000))
    return max(1.0, (time.monotonic() - wall) / (time.process_time() - used))


SLOWNESS = slowness()


def patience(seconds: float) -> float:
    """A limit in seconds; as it is on a quiet machine, longer on one that others keep busy."""
    return seconds if SLOWNESS < 1.3 else seconds * (1.0 + SLOWNESS)


def until(look: Callable[[], Value | None], seconds: float, what: str, every: float = 0.2) -> Value:
    """The first true value that `look` gives. Fails after `seconds`, with the last one."""
    deadline, seen = time.monotonic() + seconds, None
    while time.monotonic() < deadline:
        if seen := look():
            return seen
        time.sleep(every)
    raise AssertionError(f"{what}: not within {seconds:.0f} s (last: {seen!r})")


@contextmanager
def adopting() -> Iterator[Sequence[int]]:
    """Become the parent of every process that loses its own among our descendants (Linux).

    Gives the ids of the children that were there before.
    """
    if sys.platform != "linux":
        pytest.skip("only Linux gives orphans to an ancestor that asks for them")
    library = ctypes.CDLL(None)
    before = [child.pid for child in psutil.Process().children()]
    assert library.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield before
    finally:
        library.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def orphans(known: Sequence[int]) -> list[psutil.Process]:
    """Living children of this process other than `known`; the dead ones are reaped."""
    left = []
    for child in psutil.Process().children():
        if child.pid in known:
            continue
        with suppress(psutil.Error):
            if child.status() == psutil.STATUS_ZOMBIE:
                with suppress(ChildProcessError):
                    os.waitpid(child.pid, os.WNOHANG)
            else:
                left.append(child)
    return left


def everybody(node: RealNode) -> list[psutil.Process]:
    """A node's processes, the daemon first."""
    with suppress(psutil.Error):
        daemon = psutil.Process(node.process.pid)
        return [daemon, *daemon.children(recursive=True)]
    return []


def signal_all(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    """Those that are gone are left out."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def process_of(node: RealNode, name: str) -> int | None:
    """The process id of a part of the node (network, p2pd, policy, scorer), while it has one."""
    status = node.status()
    found = status.processes if status else ()
    return next((each.process_id for each in found if each.name == name), None)


def running(node: RealNode, least: int = 1) -> StatusDocument | None:
    """The status, if it has ended `least` rounds in all."""
    assert node.process.poll() is None, f"it exited with {node.process.returncode}: {said(node)}"
    status = node.status()
    fit = status and status.phase == "running" and status.round and status.round.number > least
    return status if fit else None


def connected(node: RealNode) -> StatusDocument | None:
    """The status, if the node is in its swarm."""
    status = running(node, 0)
    return status if status and status.network.state == "connected" else None


def wait_for_rounds(node: RealNode, more: int, seconds: float = START_SECONDS) -> StatusDocument:
    """Wait until it has ended `more` rounds beyond those that its store had; the status then."""
    least = max((report.round for report in node.reports()), default=0) + more
    what = f"round {least} of {node.home.path.name}"
    return until(lambda: running(node, least), patience(seconds), what)


def wait_connected(node: RealNode, seconds: float = START_SECONDS) -> StatusDocument:
    """Wait until it is in its swarm; the status then."""
    what = f"{node.home.path.name} is connected"
    return until(lambda: connected(node), patience(seconds), what)


def wait_for_others(node: RealNode, since: float = 0.0, seconds: float = 40.0) -> None:
    """Wait until a round that ended after `since` has trained on groups of peers."""
    what = f"{node.home.path.name} trains on groups of others"
    until(lambda: any(map(external, rounds_after(node, since))), patience(seconds), what)


def said(node: RealNode) -> str:
    """What it wrote to its terminal."""
    return (node.home.path / "output").read_text(encoding="utf-8", errors="replace")


def exceptions(node: RealNode) -> list[str]:
    """Lines of its log and terminal that tell of an exception."""
    texts = [said(node), *(path.read_text("utf-8", "replace") for path in node.home.log.iterdir())]
    marks = ("Traceback", "Error:", "Exception", "exception")
    return [line for text in texts for line in text.splitlines() if any(m in line for m in marks)]


def rounds_after(node: RealNode, moment: float) -> list[RoundReport]:
    """Its reports of rounds that ended after a moment in seconds since 1970."""
    return [report for report in node.reports() if report.clock_seconds > moment]


def external(report: RoundReport) -> int:
    """Groups of peers that the round trained on."""
    return int(report.metrics.get("mix/external_groups", 0.0))


def assert_no_round_lost(node: RealNode) -> None:
    """Numbers from 0 on, each once, without a gap."""
    numbers = [report.round for report in node.reports()]
    assert numbers == list(range(len(numbers)))


def peers_of(node: RealNode) -> PeersDocument:
    """What it knows of its peers."""
    return PeersDocument.model_validate(ask(node.home.status_socket, "peers"))


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def made_home(path: Path) -> tuple[Home, str]:
    """A home with a key, before anything runs in it, and its peer id."""
    home = Home(path)
    home.make()
    return home, peer_id_of(public_key_of(load_or_create_key(home.key)))


def address_of(port: int, peer: str) -> str:
    """On loopback."""
    return f"/ip4/127.0.0.1/tcp/{port}/p2p/{peer}"


@contextmanager
def silent_port() -> Iterator[int]:
    """A TCP port where everybody is let in and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()[1]


@dataclass
class Place:
    """A folder in which nodes are started; what was started ends with `ended`."""

    out: Path
    settings: Settings
    cache: Path
    nodes: list[RealNode] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        text = as_toml(self.settings.model_dump(mode="json"))
        write_atomically(self.out / "settings.toml", text)

    def run(self, name: str, *arguments: str, python: Path | None = None) -> RealNode:
        """Start `swarmnode run` in the home of that name, by another Python if one is given."""
        return self._started("run", name, arguments, python)

    def bootstrap(
        self, name: str = "bootstrap", *arguments: str, python: Path | None = None
    ) -> tuple[RealNode, str]:
        """Start a bootstrap peer, and wait for its address."""
        node = self._started("bootstrap", name, arguments, python)

        def address() -> str | None:
            assert node.process.poll() is None, said(node)
            status = node.status()
            return status.network.addresses[0] if status and status.network.addresses else None

        return node, until(address, patience(60), "the bootstrap peer's address")

    def _started(
        self, command: str, name: str, arguments: Sequence[str], python: Path | None
    ) -> RealNode:
        home = Home(self.out / name)
        environment = real_environment(os.environ, self.cache)
        with pytest.MonkeyPatch.context() as patch:
            if python is not None:
                patch.setattr(sys, "executable", str(python))
            process = start([command, *self._config, *arguments], home, environment)
        node = RealNode(len(self.nodes), home, process)
        self.nodes.append(node)
        return node

    def refused(self, home: Path) -> subprocess.CompletedProcess[str]:
        """What `swarmnode run` says that ends by itself."""
        return subprocess.run(
            [sys.executable, "-m", "swarmnode", "run", *self._config],
            env={**real_environment(os.environ, self.cache), HOME_VARIABLE: str(home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience(60),
        )

    @property
    def _config(self) -> list[str]:
        return ["--config", str(self.out / "settings.toml")]

    def ended(self) -> None:
        """End everything, in order where that works."""
        living = [node for node in self.nodes if node.process.poll() is None]
        for node in living:
            signal_all(everybody(node), signal.SIGCONT)
            node.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + patience(30)
        for node in living:
            with suppress(Exception):
                node.process.wait(max(0.1, deadline - time.monotonic()))
            node.process.kill()
            node.process.wait()


@contextmanager
def place(out: Path, *assignments: str) -> Iterator[Place]:
    """A Place with settings of its own; everything in it has ended afterwards."""
    made = Place(out, quick_settings(*assignments), out / "cache")
    try:
        yield made
    finally:
        made.ended()
