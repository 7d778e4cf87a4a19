"""`make bench NAME=network`: what a swarm costs, in bytes and CPU seconds a node and round.

Each swarm is measured in a process and a private network namespace of its own: ours at 4, 8, 16 and
32 nodes, ours with two publishers a shard, rl-swarm's layout at the same sizes, and ours at 1000 in
virtual time with the delay that was measured. Needs the right to make a network namespace (root),
some 65 minutes and 5 GB. `ARGUMENTS="swarmnode:32 rl-swarm:32"` measures these alone and keeps the
others' figures; `ARGUMENTS=page` only makes the page of what docs/results/network.json holds.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from swarmnode.files import write_atomically
from swarmnode.process import die_with_parent
from tests.benchmarks.network_namespace import NotAllowed, enter_private_network
from tests.benchmarks.network_page import fill, render
from tests.benchmarks.network_rows import Layout, Row, as_json, from_json

RESULTS = Path("docs") / "results"
ROWS = RESULTS / "network.json"
PAGE = RESULTS / "network.md"
LAYOUTS: tuple[Layout, ...] = ("swarmnode", "crowded", "rl-swarm", "simulated")
SIZES = (4, 8, 16, 32)
CALIBRATED_ON = ("swarmnode", 16)

Case = tuple[Layout, int]

ALL: tuple[Case, ...] = (
    *(("swarmnode", size) for size in SIZES),
    ("crowded", 16),
    *(("rl-swarm", size) for size in SIZES),
    ("simulated", 1000),
)


class Usage(Exception):
    """The command can't be understood, or comes too early; the text is one line."""


def cases(arguments: Sequence[str]) -> Sequence[Case]:
    """The swarms that LAYOUT:NODES name, all of them for none. Raises Usage."""
    found: list[Case] = []
    for argument in arguments:
        name, _, size = argument.partition(":")
        layout = next((each for each in LAYOUTS if each == name), None)
        if layout is None or not size.isdecimal() or int(size) < 2:
            raise Usage(f"expected {', '.join(LAYOUTS)} with :NODES, or page; got {argument!r}")
        found.append((layout, int(size)))
    return found or ALL


def read_rows() -> dict[Case, Row]:
    """What was measured so far."""
    if not ROWS.exists():
        return {}
    rows = [from_json(values) for values in json.loads(ROWS.read_text("utf-8"))]
    return {(row.layout, row.nodes): row for row in rows}


def write_row(row: Row) -> None:
    """Put a row in the place of an older one of its kind."""
    rows = {**read_rows(), (row.layout, row.nodes): row}
    order = sorted(rows, key=lambda case: (LAYOUTS.index(case[0]), case[1]))
    text = ",\n".join(json.dumps(as_json(rows[case]), allow_nan=False) for case in order)
    write_atomically(ROWS, f"[\n{text}\n]\n")


def measure(case: Case) -> Row:
    """Measure one swarm; Raises NotAllowed, and Usage where its calibration is missing."""
    layout, nodes = case
    if layout == "simulated":
        if CALIBRATED_ON not in (rows := read_rows()):
            raise Usage("simulated needs the figures of swarmnode:16")
        seconds = rows[CALIBRATED_ON].figures["fetch_p50"]
        return _alone(_simulated, nodes, seconds)
    return _alone(_in_private_network, layout, nodes)


def _alone(work: Callable[..., Row], *arguments: object) -> Row:
    """In a process of its own, whose network, memory and imports end with it."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *arguments).result()


# What brings hivemind is imported where it is used: the two layouts must not meet in a process.


def _in_private_network(layout: Layout, nodes: int) -> Row:
    die_with_parent()
    enter_private_network()
    if layout == "rl-swarm":
        from tests.benchmarks import network_rl_swarm

        return network_rl_swarm.measure(nodes)
    from tests.benchmarks import network_swarm

    return network_swarm.measure(nodes, crowded=layout == "crowded")


def _simulated(nodes: int, fetch_seconds: float) -> Row:
    from tests.benchmarks import network_simulated

    die_with_parent()
    return network_simulated.measure(nodes, fetch_seconds=fetch_seconds)


def make_page() -> None:
    """Write the tables of network.md."""
    rows = list(read_rows().values())
    write_atomically(PAGE, fill(PAGE.read_text("utf-8"), render(rows)))


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code: 2 for bad arguments, 3 without the right."""
    try:
        for case in [] if list(arguments) == ["page"] else cases(arguments):
            began = time.monotonic()
            print(f"{time.strftime('%H:%M:%S')}  {case[0]}, {case[1]} nodes", flush=True)
            write_row(measure(case))
            print(f"          measured in {time.monotonic() - began:.0f} s", flush=True)
            make_page()
    except Usage as error:
        print(error, file=sys.stderr)
        return 2
    except NotAllowed as error:
        print(error, file=sys.stderr)
        return 3
    make_page()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
