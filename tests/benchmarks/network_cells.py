"""Cells of the tables of the network benchmark. Pure text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.benchmarks.network_rows import Layout, Row
from tests.benchmarks.sharing_markdown import decimal, whole


def of_layout(rows: Sequence[Row], layout: Layout) -> list[Row]:
    """Those of one layout, the smallest first."""
    return sorted((row for row in rows if row.layout == layout), key=lambda row: row.nodes)


def kb(size: float) -> float:
    """KB are 1000 bytes."""
    return size / 1000


def kb_text(size: float) -> str:
    """The same as it stands in a table."""
    return decimal(kb(size), 1)


def times_of(figures: Mapping[str, float], name: str) -> list[str]:
    """Median and ninth decile in milliseconds."""
    return [whole(1e3 * figures[f"{name}_{at}"]) for at in ("p50", "p90")]
