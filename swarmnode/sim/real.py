"""`simulate --real`: a bootstrap peer and N nodes as real processes, on a real network of loopback.

Every line above the transport is that of a simulation in memory: each node is `swarmnode run` with
a home of its own under OUT/nodes, and what its store kept of its rounds becomes the same report.
Real time, so the same seed does not give the same numbers.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from swarmnode.api.status import NotRunning, SocketError, ask
from swarmnode.config.settings import Settings
from swarmnode.files import write_atomically
from swarmnode.home import Home
from swarmnode.observe.status import StatusDocument, StatusError
from swarmnode.paths import CACHE_VARIABLE
from swarmnode.reports import report_from_json
from swarmnode.sim.swarm import skills_of
from swarmnode.store.reading import stored_rounds
from swarmnode.types import RoundReport

BOOTSTRAP_SECONDS = 60.0
LOOK_SECONDS = 2.0
END_SECONDS = 60.0


class RealSwarmError(Exception):
    """The swarm could not be brought up; one line."""


class Watching(Protocol):
    """What is told while the nodes run."""

    def looked(self, statuses: Sequence[StatusDocument | None]) -> None:
        """What each node says of itself; None for one that does not answer."""


@dataclass(frozen=True, slots=True)
class RealNode:
    """One process and its home."""

    number: int
    home: Home
    process: subprocess.Popen[bytes]

    def status(self) -> StatusDocument | None:
        """What it says of itself, or None."""
        try:
            return StatusDocument.from_json(ask(self.home.status_socket, "status"))
        except (NotRunning, SocketError, StatusError):
            return None

    def reports(self) -> list[RoundReport]:
        """Its rounds so far, in order."""
        found = [report_from_json(each.report) for each in stored_rounds(self.home.database)]
        return sorted(
            (replace(report, node=self.number) for report in found), key=lambda one: one.round
        )


def run_real(
    settings: Settings, out: Path, environment: Mapping[str, str], watching: Watching
) -> tuple[list[RoundReport], bool]:
    """Run the swarm; its reports, and whether every node has gone through all rounds.

    Raises RealSwarmError and OSError.
    """
    with real_swarm(settings, out, environment) as nodes:
        whole = True
        try:
            while any(node.process.poll() is None for node in nodes):
                time.sleep(LOOK_SECONDS)
                watching.looked([node.status() for node in nodes])
        except KeyboardInterrupt:
            whole = False
    reports = [report for node in nodes for report in node.reports()]
    last = settings.simulation.rounds
    ended = {report.node for report in reports if report.round == last}
    return reports, whole and len(ended) == len(nodes)


@contextmanager
def real_swarm(
    settings: Settings, out: Path, environment: Mapping[str, str]
) -> Iterator[Sequence[RealNode]]:
    """A bootstrap peer and the nodes, which end with the context at the latest."""
    out.mkdir(parents=True, exist_ok=True)
    # Nobody looks at so many pages.
    values = settings.model_dump(mode="json") | {"dashboard": {"enabled": False}}
    write_atomically(out / "settings.toml", as_toml(values))
    processes: list[subprocess.Popen[bytes]] = []
    try:
        home = Home(out / "bootstrap")
        bootstrap = start(["bootstrap", *_config(out)], home, environment)
        processes.append(bootstrap)
        address = _address(home, bootstrap)
        nodes: list[RealNode] = []
        for number in range(settings.simulation.nodes):
            home = Home(out / "nodes" / str(number))
            process = start(_node_arguments(settings, out, number, address), home, environment)
            processes.append(process)
            nodes.append(RealNode(number, home, process))
        yield nodes
    finally:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
            process.kill()
            process.wait()


def start(
    arguments: Sequence[str], home: Home, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start `swarmnode` with a home of its own, in a session of its own; it says things in OUTPUT.

    Ctrl-C in a terminal reaches the caller alone, which decides.
    """
    home.make()
    with (home.path / "output").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "swarmnode", *arguments],
            env={**environment, "SWARMNODE_HOME": str(home.path)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _config(out: Path) -> list[str]:
    return ["--config", str(out / "settings.toml")]


def _node_arguments(settings: Settings, out: Path, number: int, address: str) -> list[str]:
    models = settings.simulation.models
    return [
        "run",
        address,
        *_config(out),
        "--rounds",
        str(settings.simulation.rounds),
        "--model",
        models[number % len(models)],
        "--set",
        f"policy.skills={json.dumps(list(skills_of(settings, number)))}",
    ]


def _address(home: Home, bootstrap: subprocess.Popen[bytes]) -> str:
    """Where the bootstrap peer can be dialled."""
    deadline = time.monotonic() + BOOTSTRAP_SECONDS
    while time.monotonic() < deadline and bootstrap.poll() is None:
        with suppress(NotRunning, SocketError, StatusError):
            status = StatusDocument.from_json(ask(home.status_socket, "status"))
            if status.network.addresses:
                return status.network.addresses[0]
        time.sleep(0.2)
    said = (home.path / "output").read_text(encoding="utf-8", errors="replace").strip()
    raise RealSwarmError(f"the bootstrap peer does not answer; it said: {said[-500:] or 'nothing'}")


def as_toml(tree: Mapping[str, Any], prefix: str = "") -> str:
    """Settings as TOML that `load_settings` reads back; what is unset is left out."""
    plain = {name: value for name, value in tree.items() if not isinstance(value, dict)}
    lines = [f"{name} = {json.dumps(value)}" for name, value in plain.items() if value is not None]
    text = "\n".join(lines) + "\n" if lines else ""
    if prefix and text:
        text = f"[{prefix}]\n{text}\n"
    for name, value in tree.items():
        if isinstance(value, dict):
            text += as_toml(value, f"{prefix}.{name}" if prefix else name)
    return text


def real_environment(environment: Mapping[str, str], cache: Path) -> Mapping[str, str]:
    """So that all nodes take their warm starts from one place, and say at once what they say."""
    return {**environment, CACHE_VARIABLE: str(cache), "PYTHONUNBUFFERED": "1"}
