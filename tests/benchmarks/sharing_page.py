"""The generated part of docs/results/sharing.md: all blocks by name. Pure text.

The prose around the blocks is written by people; `fill` leaves it as it is. A study that is not
whole renders too.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.benchmarks import sharing_answers, sharing_tables
from tests.benchmarks.sharing_markdown import fill
from tests.benchmarks.sharing_runs import Runs, StudyProtocol
from tests.benchmarks.sharing_statistics import Row

__all__ = ["BLOCKS", "StudyProtocol", "fill", "render"]

BLOCKS = {
    "arms": sharing_tables.arms,
    "answer": sharing_tables.answer,
    "raw": sharing_tables.raw,
    "rates": sharing_tables.rates,
    "tasks": sharing_tables.tasks,
    "costs": sharing_tables.costs,
    "selection": sharing_tables.selection,
    "forgetting": sharing_tables.forgetting,
    "common": sharing_answers.common,
    "mixes": sharing_tables.mixes,
    "long": sharing_tables.long,
    "loophole": sharing_answers.loophole,
}


def render(rows: Sequence[Row], protocol: StudyProtocol) -> dict[str, str]:
    """Every block's Markdown by its name.

    ValueError for runs of an arm that the protocol does not know, and for two runs where one seed
    of an arm should be one.
    """
    if strange := sorted({row["arm"] for row in rows} - {*protocol.arms, *protocol.mixes}):
        raise ValueError(f"the protocol has no arm {', '.join(map(repr, strange))}")
    runs = Runs(rows, protocol)
    return {name: block(runs) for name, block in BLOCKS.items()}
