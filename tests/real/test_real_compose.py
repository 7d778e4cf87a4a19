"""docker/compose.yaml without a container engine: its commands by our program, in namespaces.

Each service is on a machine of its own with the address of the file; /shared is a folder, the
homes are the volumes. Prometheus is Debian's, with docker/prometheus.yml. What only an engine can
show (the image, capabilities, published ports) is not seen here.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from swarmnode.home import Home
from swarmnode.sim.real import RealNode
from tests.real.namespaces import python_in, switched
from tests.real.real_support import (
    everybody,
    exceptions,
    patience,
    until,
    wait_connected,
    wait_for_others,
)
from tests.unit.test_curves import DOCKER, panels, read, services

pytestmark = [pytest.mark.real, pytest.mark.timeout(1500)]

MEMBERS = ("bootstrap", "node-1", "node-2", "node-3")
SMALL = {
    "SWARMNODE_TASKS__NAMES": '["basic_arithmetic", "fraction_simplification"]',
    "SWARMNODE_POLICY__WARM_START__BASE_STEPS": "20",
    "SWARMNODE_POLICY__WARM_START__STEPS": "5",
    "SWARMNODE_POLICY__MAX_NEW_TOKENS": "8",
    "SWARMNODE_EVALUATION__QUESTIONS_PER_TASK": "2",
    "SWARMNODE_SELECTION__FILTER": "uniform",
}
"""Beside what the file says: a policy that is there in seconds."""
ASKING = (
    "import sys, urllib.request as u; "
    "print(u.urlopen(u.Request(sys.argv[1], headers=dict(each.split(': ') for each in "
    "sys.argv[2:]))).read().decode())"
)


class Composed:
    """The file's services, in a folder."""

    def __init__(self, folder: Path, machines: Mapping[str, str]) -> None:
        self.folder = folder
        self._machines = machines
        self.shared = folder / "shared"
        self.shared.mkdir()

    def here(self, text: str) -> str:
        """As in a container: its /shared, and what compose makes of a doubled dollar."""
        return text.replace("/shared", str(self.shared)).replace("$$", "$")

    def start(self, name: str, home: str) -> RealNode:
        """Run a service as compose would; its standard output goes into the home."""
        service = services()[name]
        words = [*service["entrypoint"], *service["command"]]
        machine = self._machines.get(name)
        python = python_in(machine, self.folder) if machine else sys.executable
        commands = self.folder / f"commands-of-{name}"
        commands.mkdir()
        program = commands / "swarmnode"
        program.write_text(f'#!/bin/sh\nexec {python} -m swarmnode "$@"\n')
        program.chmod(0o700)
        told = {key: self.here(str(value)) for key, value in service.get("environment", {}).items()}
        made = Home(self.folder / home)
        made.make()
        environment = {**os.environ, **SMALL, **told, "SWARMNODE_HOME": str(made.path)}
        environment["SWARMNODE_CACHE"] = str(self.folder / "cache")
        environment["PATH"] = f"{commands}:{os.environ['PATH']}"
        with (made.path / "output").open("ab") as output:
            process = subprocess.Popen(
                [self.here(word) for word in words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return RealNode(0, made, process)

    def ask(self, name: str, address: str, *headers: str) -> str:
        """A GET from a machine; "" where it is refused."""
        command = ["ip", "netns", "exec", self._machines[name], shutil.which("python3") or ""]
        done = subprocess.run(
            [*command, "-c", ASKING, address, *headers], capture_output=True, text=True
        )
        return done.stdout


@contextmanager
def ended(nodes: Sequence[RealNode]) -> Iterator[None]:
    """Whatever happens, none of them is left."""
    try:
        yield
    finally:
        for node in nodes:
            for process in everybody(node):
                process.kill()
            node.process.wait()


@contextmanager
def prometheus(composed: Composed, machine: str, addresses: Mapping[str, str]) -> Iterator[None]:
    """Debian's, with the file of docker/; names are addresses here."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("Prometheus is in Debian's prometheus (docs/contributing.md)")
    text = composed.here((DOCKER / "prometheus.yml").read_text("utf-8")).replace("15s", "2s")
    for name, address in addresses.items():
        text = text.replace(f'"{name}:', f'"{address}:')
    (composed.folder / "prometheus.yml").write_text(text)
    shutil.copy(DOCKER / "alerts.yml", composed.folder)
    command = ["ip", "netns", "exec", machine, program, "--config.file=prometheus.yml"]
    command += ["--storage.tsdb.path=tsdb", "--web.listen-address=127.0.0.1:9090"]
    with (composed.folder / "prometheus.log").open("wb") as output:
        running = subprocess.Popen(command, cwd=composed.folder, stdout=output, stderr=output)
    try:
        yield
    finally:
        running.terminate()
        running.wait(30)


def test_the_services_of_compose_become_a_swarm_that_prometheus_sees(tmp_path: Path) -> None:
    networks = {name: services()[name]["networks"]["swarm"] for name in MEMBERS}
    addresses = {name: each["ipv4_address"] for name, each in networks.items()}
    subnet = read("compose.yaml")["networks"]["swarm"]["ipam"]["config"][0]["subnet"]
    watcher = subnet.replace(".0/24", ".50")
    all_of_them = [*addresses.values(), watcher]
    with switched([f"{address}/24" for address in all_of_them]) as machines:
        composed = Composed(tmp_path, dict(zip([*MEMBERS, "watcher"], machines, strict=True)))
        prepare = composed.start("prepare", "bootstrap")
        assert prepare.process.wait(patience(60)) == 0, (prepare.home.path / "output").read_text()
        secret = (composed.shared / "metrics-secret").read_text().strip()
        assert len(secret) == 24
        members = [composed.start(name, name) for name in MEMBERS]
        with ended(members):
            nodes = members[1:]
            for node in nodes:
                wait_connected(node, 180)
            for node in nodes:
                wait_for_others(node, seconds=180)
            _the_metrics_are_prometheus_s_alone(composed, addresses, secret)
            with prometheus(composed, machines[-1], addresses):
                _prometheus_sees(composed)
            for node in members:
                node.process.send_signal(signal.SIGTERM)
            for node in members:
                assert node.process.wait(patience(60)) == 0
            assert [exceptions(node) for node in members] == [[], [], [], []]


def _the_metrics_are_prometheus_s_alone(
    composed: Composed, addresses: Mapping[str, str], secret: str
) -> None:
    for name in MEMBERS[1:]:
        address = f"http://{addresses[name]}:8471"
        shown = composed.ask("watcher", f"{address}/metrics", f"Authorization: Bearer {secret}")
        assert "swarmnode_collected_admitted_total" in shown
        assert "12D3KooW" not in shown
        assert composed.ask("watcher", f"{address}/metrics") == ""
        port = services()[name]["environment"]["SWARMNODE_DASHBOARD__PORT"]
        page = f"http://{addresses[name]}:{port}"
        # The secret of the metrics opens no page, on whichever port.
        for path in (f"{page}/{secret}/", f"{address}/{secret}/"):
            assert composed.ask("watcher", path, f"Authorization: Bearer {secret}") == ""


def _prometheus_sees(composed: Composed) -> None:
    def answered(expression: str) -> list[Any]:
        from urllib.parse import quote

        address = f"http://127.0.0.1:9090/api/v1/query?query={quote(expression)}"
        answer = json.loads(composed.ask("watcher", address) or "{}")
        result: list[Any] = answer.get("data", {}).get("result", [])
        return result

    def all_up() -> bool:
        found = answered('up{job="swarmnode"}')
        return len(found) == 3 and all(each["value"][1] == "1" for each in found)

    until(all_up, patience(60), "Prometheus reaches all three")
    time.sleep(8)  # two looks at the least, so that there are rates
    empty = {
        title: expression
        for title, expression, _ in panels()
        if not answered(expression.replace("$node", ".*"))
    }
    print("panels without a line:", sorted(empty))
    # A swarm that is well has no alarm; one of minutes has no learning scheduler.
    assert set(empty) <= {
        "Asked",
        "Guard-rails",
        "Health warnings",
        "Dropped, by reason",
        "Last checkpoint",
        "Clipped",
        "Entropy",
        "Gradient norm",
        "Peers' part of the push",
        "Length of answers",
    }
    rules = json.loads(composed.ask("watcher", "http://127.0.0.1:9090/api/v1/rules"))
    found = [each for group in rules["data"]["groups"] for each in group["rules"]]
    assert {each["health"] for each in found} <= {"ok", "unknown"}, found
    assert not [each["name"] for each in found if each["state"] == "firing"]
