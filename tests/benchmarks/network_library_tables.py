"""Tables of what the libraries cost, and of gossip on either and on both. Pure text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.benchmarks.network_cells import kb, kb_text, of_layout, times_of
from tests.benchmarks.network_rows import GossipLayout, LibraryLayout, Row
from tests.benchmarks.sharing_markdown import decimal, table, whole

LIBRARY_NAMES: Mapping[LibraryLayout, str] = {
    "swarmnode": "hivemind",
    "libp2p": "py-libp2p",
    "mixed": "both",
}
GOSSIP_NAMES: Mapping[GossipLayout, str] = {
    "gossip-hivemind": "hivemind",
    "gossip-libp2p": "py-libp2p",
    "gossip-mixed": "both",
}


def libraries(rows: Sequence[Row]) -> str:
    """Ours on either library, and on both."""
    lines = []
    for layout, name in LIBRARY_NAMES.items():
        for row in of_layout(rows, layout):
            idle, announce = row.bytes_in("idle"), row.bytes_in("announce")
            lines.append(
                [
                    name,
                    str(row.nodes),
                    *map(kb_text, (idle, announce - idle, row.bytes_in("discover") - announce)),
                    kb_text(row.bytes_in("fetch")),
                    whole(1e3 * row.python_in("fetch")),
                    whole(1e3 * row.p2pd_in("fetch")),
                    whole(row.figures["resident_mib"]),
                    decimal(row.figures["trained_groups"], 2),
                    *times_of(row.figures, "to_pool"),
                    decimal(row.figures["load"], 1),
                ]
            )
    head = ["on", "N", "connected", "+ announce", "+ discover", "at work", "Python ms", "p2pd ms"]
    return table([*head, "MiB", "groups trained on", "to pool p50 ms", "p90", "load"], lines)


def gossip(rows: Sequence[Row]) -> str:
    """Announcements by gossip: what arrived, how late, at what cost."""
    lines = []
    for layout, name in GOSSIP_NAMES.items():
        for row in of_layout(rows, layout):
            rates = [key.removesuffix("/share") for key in row.figures if key.endswith("/share")]
            for rate in rates:
                of_rate = {
                    key.partition("/")[2]: value
                    for key, value in row.figures.items()
                    if key.startswith(f"{rate}/")
                }
                lines.append(
                    [
                        name,
                        str(row.nodes),
                        rate,
                        f"{100 * of_rate['share']:.1f} %",
                        *(decimal(of_rate[each], 2) for each in ("p50", "p99")),
                        decimal(1e3 * of_rate["cpu"], 1),
                        decimal(kb(of_rate["bytes"]), 1),
                        whole(1e3 * of_rate["late_p99"]),
                        decimal(row.figures["load"], 1),
                    ]
                )
    head = ["on", "N", "a second", "delivered", "p50 s", "p99 s", "CPU ms each", "KB each"]
    return table([*head, "loop late p99 ms", "load"], lines)
