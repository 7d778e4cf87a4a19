"""`simulate --cluster ray` on real Ray: the table of one process, whatever dies in the middle.

The cluster's two nodes are on this machine, on loopback (ray_nodes.py).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from swarmnode.cluster.cluster import ClusterError
from swarmnode.cluster.host import PlacedHost
from swarmnode.config.settings import load_settings
from swarmnode.sim import study
from swarmnode.sim.machine import Machine
from swarmnode.sim.study import Arm, arms, run_study
from swarmnode.types import RoundReport
from tests.real.ray_support import Nodes, environment, two_nodes
from tests.real.real_support import adopting, orphans, patience, until

__all__ = ["environment"]

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

SETTINGS = (
    "simulation.nodes=4",
    "simulation.rounds=4",
    "simulation.seed=7",
    'tasks.names=["basic_arithmetic", "gcd:default"]',
    "rounds.local_groups_per_round=2",
    "rounds.external_groups_per_round=2",
    "policy.warm_start.base_steps=100",
    "policy.warm_start.base_pairs_per_task=300",
    "policy.warm_start.steps=5",
    "policy.warm_start.pairs_per_task=50",
    "evaluation.questions_per_task=5",
    "evaluation.every_rounds=2",
    "selection.filter=uniform",
)


class Acting:
    """Progress that does something after a round."""

    def __init__(self, act: Callable[[int], None] = lambda number: None) -> None:
        self._act = act

    def ready(self, arm: Arm, figures: Mapping[str, float]) -> None: ...

    def round_ended(
        self, arm: Arm, reports: Sequence[RoundReport], answers: Mapping[str, str]
    ) -> None:
        self._act(reports[0].round)

    def already_there(self, arm: Arm) -> None: ...


@dataclass
class Simulated:
    """What a run left."""

    table: bytes
    told: Sequence[str]
    whole: bool


def simulate(
    out: Path,
    environment: Mapping[str, str],
    *assignments: str,
    cache: Path | None = None,
    act: Callable[[int], None] = lambda number: None,
) -> Simulated:
    """A run makes its warm start itself, unless another one's cache is given."""
    told: list[str] = []
    _, whole = run_study(
        arms({"2/2": load_settings(assignments=[*SETTINGS, *assignments])}, 1),
        out,
        environment=environment,
        cache=cache or out / "warm-starts",
        progress=Acting(act),
        said=told.append,
    )
    return Simulated(rounds_of(out), told, whole)


def joining(nodes: Nodes) -> str:
    return f"simulation.cluster=ray:{nodes.address}"


def rounds_of(out: Path) -> bytes:
    return (out / "runs" / "2-2-seed7" / "rounds.jsonl").read_bytes()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the warm start of one process."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> bytes:
    """The table of one process."""
    out = tmp_path_factory.mktemp("one")
    one = simulate(out, os.environ, "simulation.hosts=1", cache=cache)
    assert one.whole
    assert one.table.count(b"\n") == 20
    # Somebody has learned something: equal tables of nodes that never trained would say little.
    assert one.table.count(b'"grad_norm"') >= 4
    return one.table


@contextmanager
def remembered_machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Machine]]:
    machines: list[Machine] = []

    def remembered(*given: object) -> Machine:
        machines.append(Machine(*given))  # type: ignore[arg-type]
        return machines[-1]

    monkeypatch.setattr(study, "Machine", remembered)
    yield machines


def test_two_nodes_give_the_table_of_one_process(
    expected: bytes, environment: dict[str, str], tmp_path: Path
) -> None:
    with two_nodes(environment) as nodes:
        found = simulate(tmp_path, environment, joining(nodes))
    assert found.table == expected
    assert sorted(found.told) == sorted(
        f"1 policy host on {os.uname().nodename} ({node[:8]})" for node in nodes.ids
    )


def test_a_node_that_dies_costs_time_and_changes_nothing(
    expected: bytes, cache: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    with two_nodes(environment) as nodes:

        def act(number: int) -> None:
            if number == 2:
                nodes.kill(1)

        found = simulate(tmp_path, environment, joining(nodes), cache=cache, act=act)
    assert (found.whole, found.table == expected) == (True, True)
    left, gone = (node[:8] for node in nodes.ids)
    assert any("was lost on" in line and gone in line for line in found.told), found.told
    assert any("begins again on" in line and left in line for line in found.told), found.told


def test_a_host_that_is_killed_and_its_actor_are_made_anew(
    expected: bytes,
    cache: Path,
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with two_nodes(environment) as nodes, remembered_machines(monkeypatch) as machines:

        def act(number: int) -> None:
            if number not in (1, 3):
                return
            host = machines[0].hosts[0]
            assert isinstance(host, PlacedHost)
            assert host.process_id is not None
            child = psutil.Process(host.process_id)
            # The policy host first, Ray's own process above it then.
            (child if number == 1 else child.parent() or child).kill()

        found = simulate(tmp_path, environment, joining(nodes), cache=cache, act=act)
    assert found.table == expected
    assert sum("begins again on" in line for line in found.told) == 2, found.told


def test_a_cluster_that_is_lost_ends_the_run_and_another_one_finishes_it(
    expected: bytes, cache: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    with two_nodes(environment) as nodes:

        def act(number: int) -> None:
            if number == 2:
                nodes.process.stdin.close()  # type: ignore[union-attr]
                nodes.process.wait(60)

        # Ray's driver ends, or is found waiting for what is gone; in a minute or two, either way.
        with pytest.raises(ClusterError, match=r"^the Ray cluster at .* (was lost|did not answer)"):
            simulate(tmp_path, environment, joining(nodes), cache=cache, act=act)
    with two_nodes(environment) as nodes:
        found = simulate(tmp_path, environment, joining(nodes), cache=cache)
    assert found.table == expected


def command(out: Path) -> list[str]:
    """`swarmnode simulate --cluster ray` with the settings of the tests, for very long."""
    assignments = [*SETTINGS, "simulation.rounds=5000"]
    flags = [text for one in assignments for text in ("--set", one)]
    program = [sys.executable, "-m", "swarmnode", "simulate", "--cluster", "ray"]
    return [*program, "--out", str(out), *flags]


def table_begun(out: Path) -> bool:
    path = out / "runs" / "2-2-seed7" / "rounds.jsonl"
    return path.exists() and path.read_bytes().count(b"\n") >= 8


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_ray_of_its_own_listens_on_loopback_and_leaves_nothing(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    environment = {**os.environ, "SWARMNODE_HOME": str(tmp_path / "home")}
    with adopting() as known:
        process = subprocess.Popen(
            command(out), env=environment, stdout=subprocess.DEVNULL, start_new_session=True
        )
        until(lambda: table_begun(out) or process.poll() is not None, patience(240), "two rounds")
        assert process.poll() is None
        simulating = psutil.Process(process.pid)
        listening = [
            (each.name(), connection.laddr.ip)
            for each in (simulating, *simulating.children(recursive=True))
            for connection in each.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        process.send_signal(number)
        assert process.wait(patience(60)) == code
        until(lambda: not orphans(known), patience(60), "the end of all processes")
    assert {name for name, _ in listening} >= {"gcs_server", "raylet"}
    assert {address.removeprefix("::ffff:") for _, address in listening} == {"127.0.0.1"}
