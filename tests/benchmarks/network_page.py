"""The generated part of docs/results/network.md: its tables, by name. Pure text.

A table stands between two lines of their own, `<!-- network:NAME -->` and `<!-- /network:NAME -->`;
the prose around them is written by people. What was not measured yet is shown as UNKNOWN, and a
swarm that was not measured is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tests.benchmarks.network_cells import kb, kb_text, of_layout, times_of
from tests.benchmarks.network_library_tables import gossip, libraries
from tests.benchmarks.network_rows import Row
from tests.benchmarks.sharing_markdown import UNKNOWN, decimal, table, whole

ANNOUNCE_AND_DISCOVER_KB = 150.0
FETCHED_SHARE = 1.2
OF_RL_SWARM = 0.2
TO_POOL_SECONDS = 2.0
COMPARED_AT = 16
QUIET_LOAD = 3.0
"""Load average on two cores from which wall times are not to be trusted."""

_BLOCK = re.compile(
    r"^<!-- network:(?P<name>\S+) -->$.*?^<!-- /network:(?P=name) -->$", re.MULTILINE | re.DOTALL
)
_MARKER = re.compile(r"^<!-- /?network:", re.MULTILINE)


def fill(page: str, blocks: Mapping[str, str]) -> str:
    """The page with every block replaced. ValueError unless it holds each of them exactly once."""
    found = [match["name"] for match in _BLOCK.finditer(page)]
    if sorted(found) != sorted(blocks) or len(_MARKER.findall(page)) != 2 * len(found):
        raise ValueError(f"the page has the blocks {found}, and should have {sorted(blocks)}")

    def filled(match: re.Match[str]) -> str:
        name = match["name"]
        return f"<!-- network:{name} -->\n\n{blocks[name]}\n\n<!-- /network:{name} -->"

    return _BLOCK.sub(filled, page)


def render(rows: Sequence[Row]) -> dict[str, str]:
    """Every table by its name."""
    return {name: block(rows) for name, block in BLOCKS.items()}


def targets(rows: Sequence[Row]) -> str:
    """What was asked for, what was measured, and whether that is enough."""
    ours = of_layout(rows, "swarmnode")
    measured = [kb(_announce_and_discover(row)) for row in ours]
    shares = [_fetched_share(row) for row in ours]
    lines = [
        _judged(
            "announce + discover, KB a node and round, at every N",
            f"≤ {whole(ANNOUNCE_AND_DISCOVER_KB)}",
            " / ".join(decimal(each, 0) for each in measured),
            max(measured) <= ANNOUNCE_AND_DISCOVER_KB if measured else None,
        ),
        _judged(
            "bytes of fetch responses against bytes trained on, at every N",
            f"≤ {FETCHED_SHARE}",
            " / ".join(decimal(each, 2) for each in shares),
            max(shares) <= FETCHED_SHARE if shares else None,
        ),
    ]
    share = _share_of_rl_swarm(rows, COMPARED_AT)
    lines.append(
        _judged(
            f"all bytes at N = {COMPARED_AT} against rl-swarm's layout",
            f"≤ {OF_RL_SWARM}",
            UNKNOWN if share is None else decimal(share, 2),
            None if share is None else share <= OF_RL_SWARM,
        )
    )
    for row in ours:
        if row.nodes == COMPARED_AT:
            p50 = row.figures["to_pool_p50"]
            lines.append(
                _judged(
                    f"discover call to scored group in the pool, p50 at N = {COMPARED_AT}, s",
                    f"< {decimal(TO_POOL_SECONDS, 0)}",
                    decimal(p50, 2) + _load_mark(row),
                    p50 < TO_POOL_SECONDS,
                )
            )
    return table(["", "bound", "measured", ""], lines)


def traffic(rows: Sequence[Row]) -> str:
    """Bytes by what was going on, each beyond the window before it."""
    lines = []
    for row in of_layout(rows, "swarmnode"):
        idle, announce, discover = (row.bytes_in(each) for each in ("idle", "announce", "discover"))
        lines.append(
            [
                str(row.nodes),
                *map(kb_text, (idle, announce - idle, discover - announce)),
                f"**{kb_text(discover)}**",
                kb_text(_fetch_wire(row)),
                f"**{kb_text(_everything(row))}**",
                kb_text(row.bytes_in("fetch")),
                whole(1e3 * row.python_in("fetch")),
                whole(1e3 * row.p2pd_in("fetch")),
                whole(row.figures["resident_mib"]),
            ]
        )
    head = ["N", "connected", "+ announce", "+ discover", "so far", "+ fetch", "all", "at work"]
    return table([*head, "Python ms", "p2pd ms", "MiB"], lines)


def compared(rows: Sequence[Row]) -> str:
    """rl-swarm's layout, and ours against it."""
    lines = []
    for row in of_layout(rows, "rl-swarm"):
        share = _share_of_rl_swarm(rows, row.nodes)
        lines.append(
            [
                str(row.nodes),
                kb_text(row.bytes_in("publish")),
                kb_text(row.bytes_in("read")),
                kb_text(row.bytes_in("publish") + row.bytes_in("read")),
                UNKNOWN if share is None else decimal(share, 2),
                whole(1e3 * (row.python_in("publish") + row.python_in("read"))),
                whole(1e3 * (row.p2pd_in("publish") + row.p2pd_in("read"))),
                f"{100 * row.figures['read_share']:.0f} %",
            ]
        )
    head = ["N", "publish", "read", "both", "ours / this", "Python ms", "p2pd ms", "batches read"]
    return table(head, lines)


def fetches(rows: Sequence[Row]) -> str:
    """What was fetched for what was trained on, and how long it took."""
    lines = []
    for row in of_layout(rows, "swarmnode"):
        figures = row.figures
        trained = figures["trained_bytes"]
        lines.append(
            [
                str(row.nodes),
                decimal(figures["trained_groups"], 2),
                kb_text(trained),
                decimal(figures["fetched_bytes"] / trained, 3),
                decimal(_fetch_wire(row) / trained, 3),
                whole(figures["failed_fetches"]),
                *times_of(figures, "fetch"),
                *times_of(figures, "to_pool"),
                whole(figures["restarts"]),
                decimal(figures["load"], 1),
            ]
        )
    head = ["N", "groups trained on", "KB of these", "responses / these", "wire / these"]
    head += ["failed", "fetch p50 ms", "p90", "to pool p50 ms", "p90", "restarts", "load"]
    return table(head, lines)


def crowded(rows: Sequence[Row]) -> str:
    """Two publishers a shard."""
    lines = [
        [
            str(row.nodes),
            f"{whole(row.figures['level_min'])} to {whole(row.figures['level_max'])}",
            kb_text(_announce_and_discover(row)),
            f"{decimal(row.figures['authors_heard'], 1)} of {row.nodes - 1}",
            whole(row.figures["looks/stores"]),
            whole(row.figures["looks/stores_unacknowledged"]),
        ]
        for row in of_layout(rows, "crowded")
    ]
    head = ["N", "bits of prefix", "KB so far", "authors heard of by a node"]
    return table([*head, "records stored", "unacknowledged"], lines)


def simulated(rows: Sequence[Row]) -> str:
    """Virtual time."""
    lines = []
    for row in of_layout(rows, "simulated"):
        figures = row.figures
        lines.append(
            [
                str(row.nodes),
                decimal(1e3 * figures["latency_seconds"], 1),
                decimal(figures["trained_groups"], 2),
                decimal(figures["fetched_bytes"] / figures["trained_bytes"], 3),
                kb_text(figures["fetched_bytes"]),
                *times_of(figures, "to_pool"),
                f"{100 * figures['publishers_read']:.0f} %",
                decimal(figures["requests_mean"], 1),
                decimal(figures["requests_busiest"], 1),
            ]
        )
    head = ["N", "one-way delay ms", "groups trained on", "responses / these", "KB fetched"]
    head += ["to pool p50 ms", "p90", "publishers read from", "requests served", "by the busiest"]
    return table(head, lines)


BLOCKS: Mapping[str, Callable[[Sequence[Row]], str]] = {
    "targets": targets,
    "traffic": traffic,
    "compared": compared,
    "fetches": fetches,
    "crowded": crowded,
    "simulated": simulated,
    "libraries": libraries,
    "gossip": gossip,
}


def _judged(what: str, bound: str, measured: str, met: bool | None) -> list[str]:
    verdict = "not measured" if met is None else "met" if met else "**not met**"
    return [what, bound, measured or UNKNOWN, verdict]


def _announce_and_discover(row: Row) -> float:
    """With what keeps the node connected, since no node announces without that."""
    return row.bytes_in("discover")


def _fetch_wire(row: Row) -> float:
    return row.figures["fetched_bytes"] * row.figures["wire_share"]


def _everything(row: Row) -> float:
    return _announce_and_discover(row) + _fetch_wire(row)


def _fetched_share(row: Row) -> float:
    return row.figures["fetched_bytes"] / row.figures["trained_bytes"]


def _share_of_rl_swarm(rows: Sequence[Row], nodes: int) -> float | None:
    ours = [row for row in of_layout(rows, "swarmnode") if row.nodes == nodes]
    theirs = [row for row in of_layout(rows, "rl-swarm") if row.nodes == nodes]
    if not (ours and theirs):
        return None
    both = theirs[0].bytes_in("publish") + theirs[0].bytes_in("read")
    return _everything(ours[0]) / both


def _load_mark(row: Row) -> str:
    load = row.figures["load"]
    return "" if load <= QUIET_LOAD else f" (at a load of {decimal(load, 0)} on 2 cores)"
