"""`make bench NAME=network`: what a swarm costs, in bytes and CPU seconds a node and round.

Each swarm is measured in a process and a private network namespace of its own: ours at 4, 8, 16 and
32 nodes; on py-libp2p, and half on it, at 4, 8 and 16; with two publishers a shard; rl-swarm's
layout at the first sizes; ours at 1000 in virtual time with the delay that was measured; and gossip
alone at rising rates, on either library and on both. Needs the right to make a network namespace
(root), some two and a half hours and 5 GB. `ARGUMENTS="libp2p:8 gossip-mixed:8"` measures these
alone and keeps the others' figures, `ARGUMENTS=libraries` those of py-libp2p and of gossip;
`ARGUMENTS=try` shows a small swarm of each kind of these and keeps nothing; `ARGUMENTS=page` only
makes the page of what docs/results/network.json holds.
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
LAYOUTS: tuple[Layout, ...] = (
    *("swarmnode", "libp2p", "mixed", "crowded", "rl-swarm", "simulated"),
    *("gossip-hivemind", "gossip-libp2p", "gossip-mixed"),
)
SIZES = (4, 8, 16, 32)
CALIBRATED_ON = ("swarmnode", 16)

Case = tuple[Layout, int]

LIBRARIES: tuple[Case, ...] = (
    *(("libp2p", size) for size in (4, 8, 16)),
    *(("mixed", size) for size in (4, 8, 16)),
    *(("gossip-hivemind", size) for size in (4, 8, 16)),
    *(("gossip-libp2p", size) for size in (4, 8, 16)),
    *(("gossip-mixed", size) for size in (4, 8, 16)),
)
TRIED: tuple[Case, ...] = (("libp2p", 3), ("mixed", 3), ("gossip-libp2p", 3), ("gossip-mixed", 3))

ALL: tuple[Case, ...] = (
    *(("swarmnode", size) for size in SIZES),
    ("crowded", 16),
    *(("rl-swarm", size) for size in SIZES),
    ("simulated", 1000),
    *LIBRARIES,
)


class Usage(Exception):
    """The command can't be understood, or comes too early; the text is one line."""


def cases(arguments: Sequence[str]) -> Sequence[Case]:
    """The swarms that LAYOUT:NODES name, all of them for none. Raises Usage."""
    if list(arguments) == ["libraries"]:
        return LIBRARIES
    found: list[Case] = []
    for argument in arguments:
        name, _, size = argument.partition(":")
        layout = next((each for each in LAYOUTS if each == name), None)
        if layout is None or not size.isdecimal() or int(size) < 2:
            kinds = ", ".join(LAYOUTS)
            raise Usage(f"expected {kinds} with :NODES, libraries, try or page; got {argument!r}")
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


def measure(case: Case, *, tried: bool = False) -> Row:
    """Measure one swarm; Raises NotAllowed, and Usage where its calibration is missing.

    One that is only `tried` has short rounds, and low rates.
    """
    layout, nodes = case
    if layout == "simulated":
        if CALIBRATED_ON not in (rows := read_rows()):
            raise Usage("simulated needs the figures of swarmnode:16")
        seconds = rows[CALIBRATED_ON].figures["fetch_p50"]
        return _alone(_simulated, nodes, seconds)
    return _alone(_in_private_network, layout, nodes, tried)


def _alone(work: Callable[..., Row], *arguments: object) -> Row:
    """In a process of its own, whose network, memory and imports end with it."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *arguments).result()


# What brings hivemind is imported where it is used: the two layouts must not meet in a process.


def _in_private_network(layout: Layout, nodes: int, tried: bool) -> Row:
    die_with_parent()
    enter_private_network()
    if layout == "rl-swarm":
        from tests.benchmarks import network_rl_swarm

        return network_rl_swarm.measure(nodes)
    if layout in ("gossip-hivemind", "gossip-libp2p", "gossip-mixed"):
        from tests.benchmarks import network_gossip

        rates = network_gossip.RATES[1:2] if tried else network_gossip.RATES
        return network_gossip.measure(layout, nodes, rates)
    from tests.benchmarks import network_swarm

    return network_swarm.measure(layout, nodes, tried=tried)


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
        if list(arguments) == ["try"]:
            for case in TRIED:
                print(json.dumps(as_json(measure(case, tried=True)), indent=2), flush=True)
            return 0
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
