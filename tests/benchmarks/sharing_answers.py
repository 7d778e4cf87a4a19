"""What the commonest answers were: is it a skill or a loophole that spread? Pure text.

`share` is the part of the right answers that the COMMON_TEXTS commonest right texts make up,
`expected` the same among the references of these questions; what is above it is the excess.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from swarmnode.rewards.common_answers import COMMON_TEXTS
from tests.benchmarks.sharing_markdown import UNKNOWN, arrow, code, mean, percent, points, table
from tests.benchmarks.sharing_runs import NOT_RUN, Runs
from tests.benchmarks.sharing_statistics import CommonAnswers, Row

GAMEABLE = "propositional_logic"
"""The task whose verifier the loophole runs replace by reasoning-gym's own."""
Moment = Literal["start", "end"]


def common(runs: Runs) -> str:
    """A table a task: the commonest answers of every arm, start and end, over all seeds."""
    present = runs.present("main")
    if not present:
        return NOT_RUN
    blocks = []
    for task in runs.protocol.tasks:
        starts: dict[tuple[str, ...], list[str]] = {}
        ends = []
        for name, rows in present.items():
            starts.setdefault(_cells(_found(rows, task, "start")), []).append(name)
            ends.append((name, "end", *_cells(_found(rows, task, "end"))))
        first = [
            ("every arm" if len(names) == len(present) else ", ".join(names), "start", *cells)
            for cells, names in starts.items()
        ]
        head = ("arm", "when", "right", "share", "expected", "excess, points")
        blocks.append(f"`{task}`")
        blocks.append(table((*head, f"the {COMMON_TEXTS} commonest answers"), [*first, *ends]))
    caption = (
        "Right: right held-out answers of all nodes, a mean per seed; the end adds up the "
        "evaluations of the last tenth. Share: of them, in percent, those that "
        f"are one of the {COMMON_TEXTS} commonest right texts; expected: the same among the "
        "references of these questions. "
        "Answers: right or wrong, times given over all seeds, and how many of these were right; a "
        "text beyond a seed's ten commonest is not counted there."
    )
    return "\n\n".join([*blocks, f"{runs.caption(present)} {caption}", _alarms(present.items())])


def loophole(runs: Runs) -> str:
    """The runs with a verifier that can be gamed, each by itself."""
    present = runs.present("loophole")
    if not present:
        return NOT_RUN
    lines = [
        (name, str(row["seed"]), *_gamed(row)) for name, rows in present.items() for row in rows
    ]
    head = (
        *("arm", "seed", f"success on `{GAMEABLE}`, %", "share, %", "expected, %"),
        *("excess, points", "seen in round", "commonest at the start", "at the end"),
    )
    caption = (
        "Start → end; share, expected and excess as in the table of the commonest answers. Seen in "
        "round: the first in which the guard-rail saw it."
    )
    constant = runs.protocol.baselines.get(GAMEABLE)
    if constant is not None:
        caption += f" The best constant answer succeeds on {percent(constant)} % of the questions."
    elsewhere = _alarms(present.items(), without=GAMEABLE)
    return "\n\n".join([table(head, lines), f"{runs.caption(present)} {caption}", elsewhere])


def _gamed(row: Row) -> Sequence[str]:
    success = row["by_task"].get(GAMEABLE)
    both = row["common"].get(GAMEABLE)
    seen = row["loophole_seen"].get(GAMEABLE)
    cells = [
        UNKNOWN if success is None else arrow([success["start"]], [success["end"]]),
        *([UNKNOWN] * 3),
        "not seen" if seen is None else str(seen),
        *([UNKNOWN] * 2),
    ]
    if both is not None:
        start, end = [both["start"]], [both["end"]]
        cells[1] = arrow(_values(start, "share"), _values(end, "share"))
        cells[2] = arrow(_values(start, "expected"), _values(end, "expected"))
        cells[3] = arrow(_excess(start), _excess(end), points)
        cells[5:] = [_answers(start), _answers(end)]
    return cells


def _alarms(present: Iterable[tuple[str, Sequence[Row]]], without: str = "") -> str:
    """Where the guard-rail on the commonest answers spoke."""
    spoke = [
        f"{name}, seed {row['seed']}, `{task}` (round {number})"
        for name, rows in present
        for row in rows
        for task, number in row["loophole_seen"].items()
        if task != without
    ]
    where = f"on other tasks than `{without}` " if without else ""
    return f"The guard-rail spoke {where}in {'; '.join(spoke) if spoke else 'no run'}."


def _found(rows: Iterable[Row], task: str, moment: Moment) -> list[CommonAnswers]:
    return [row["common"][task][moment] for row in rows if task in row["common"]]


def _cells(found: Sequence[CommonAnswers]) -> tuple[str, ...]:
    return (
        mean([each["right"] for each in found], _count),
        mean(_values(found, "share"), percent),
        mean(_values(found, "expected"), percent),
        mean(_excess(found), points),
        _answers(found),
    )


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _values(
    found: Iterable[CommonAnswers], figure: Literal["share", "expected"]
) -> Sequence[float]:
    return [value for each in found if (value := each[figure]) is not None]


def _excess(found: Iterable[CommonAnswers]) -> Sequence[float]:
    return [
        each["share"] - each["expected"]
        for each in found
        if each["share"] is not None and each["expected"] is not None
    ]


def _answers(found: Iterable[CommonAnswers]) -> str:
    given: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for each in found:
        for text, count, correct in each["answers"]:
            given[text] += count
            right[text] += correct
    # Ties by text, so that equal rows give an equal page whatever their order.
    ordered = sorted(given, key=lambda text: (-given[text], text))[:COMMON_TEXTS]
    shown = [f"{code(text)} {given[text]:,} ({right[text]:,} right)" for text in ordered]
    return ", ".join(shown) or UNKNOWN
