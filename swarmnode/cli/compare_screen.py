"""What `swarmnode compare` shows in the terminal. Texts of models are made safe as they enter."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from swarmnode.cli.compare_figures import how, notes, rail_name, verdict, where, who, worse
from swarmnode.cli.eval_screen import WIDTH
from swarmnode.cli.gains import figure
from swarmnode.observe.words import plain

if TYPE_CHECKING:
    from swarmnode.cli.compare_figures import Told
    from swarmnode.comparison import Comparison, Example, Part
    from swarmnode.pass_rates import Interval

TEXT_CHARACTERS = 300
"""Of a question or an answer; the rest is cut off."""


def show(told: Told) -> None:
    """Write all of it to stdout."""
    console = Console(file=sys.stdout, highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = WIDTH
    found = told.found
    for name, place in (("A", 0), ("B", 1)):
        console.print(Text(f"{name}  {who(told, place)}"))
        if path := where(told, place):
            console.print(Text(f"   {path}"), soft_wrap=True)
    console.print(Text(f"\n{verdict(found)}", style="bold"))
    console.print(_successes(told))
    console.print(_agreements(told))
    console.print(_lengths(found.mean))
    console.print(_rails(found))
    for line in _examples(found):
        console.print(Text(line), soft_wrap=True)
    for note in notes(told):
        console.print(Text(note, style="yellow"))
    console.print(Text(how(told), style="dim"))


def _table(*columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    table.add_column(columns[0])
    for name in columns[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _parts(told: Told) -> Iterator[tuple[str, str, Part]]:
    """Name and level of each row, and its figures; the mean last, where it is another one."""
    levels = dict(told.contest.pairs)
    for task, part in told.found.tasks.items():
        yield task, levels[task], part
    if len(levels) > 1:
        yield "mean over tasks", "", told.found.mean


def _successes(told: Told) -> Table:
    table = _table("success", "A", "B", "A - B", "win rate of A")
    for name, level, part in _parts(told):
        if not level:
            table.add_section()
        table.add_row(
            Text(f"{name}\n{level}"),
            figure(part.success.a.mean),
            figure(part.success.b.mean),
            _difference(part.success.difference),
            f"{figure(part.win_rate.mean)}\n{_ends(part.win_rate, '.3f')}",
        )
    return table


def _agreements(told: Told) -> Table:
    """Shares of pairs of answers; wins are A's, and two answers that are alike are a tie."""
    table = _table("answers, %", "both right", "only A", "only B", "neither", "ties")
    for name, level, part in _parts(told):
        if not level:
            table.add_section()
        each = part.agreement
        shares = (each.both, each.only_a, each.only_b, each.neither, each.ties)
        table.add_row(Text(name), *(f"{100 * share:.1f}" for share in shares))
    return table


def _difference(found: Interval, form: str = "+.3f") -> Text:
    sure = not math.isnan(found.low) and (found.low > 0 or found.high < 0)
    style = ("green" if found.mean > 0 else "red") if sure else ""
    return Text(f"{found.mean:{form}}\n{_ends(found, form)}", style=style)


def _ends(found: Interval, form: str) -> str:
    return "" if math.isnan(found.low) else f"{found.low:{form}} to {found.high:{form}}"


def _lengths(mean: Part) -> Table:
    table = _table("mean over tasks", "A", "B", "A - B")
    table.add_row(
        "greedy answers right",
        figure(mean.greedy.a.mean),
        figure(mean.greedy.b.mean),
        _difference(mean.greedy.difference),
    )
    for name, each in (("tokens an answer", mean.tokens), ("characters", mean.characters)):
        # Longer is neither better nor worse: no colour.
        gap = Text(_difference(each.difference, "+.1f").plain)
        table.add_row(name, f"{each.a.mean:.1f}", f"{each.b.mean:.1f}", gap)
    return table


def _rails(found: Comparison) -> Table:
    table = _table("guard-rails", "A", "B", "against the other")
    for name, rail in found.rails.items():
        said = worse(rail)
        values = ("-" if value is None else f"{value:.3f}" for value in (rail.a, rail.b))
        table.add_row(Text(rail_name(name)), *values, Text(said, style="yellow"))
    return table


def _examples(found: Comparison) -> Iterator[str]:
    for title, some in (
        ("A is right, B is wrong:", found.better_a),
        ("B is right, A is wrong:", found.better_b),
    ):
        if some:
            yield title
            for example in some:
                yield from example_lines(example)
            yield ""


def example_lines(example: Example) -> Sequence[str]:
    """A question with its answers, safe to show."""
    return (
        f"  {plain(example.task)}: {plain(example.question, TEXT_CHARACTERS)}",
        f"    right answer: {plain(example.reference, TEXT_CHARACTERS)}",
        f"    A ({example.right_a} of {example.samples} right): "
        f"{plain(example.answer_a, TEXT_CHARACTERS)}",
        f"    B ({example.right_b} of {example.samples} right): "
        f"{plain(example.answer_b, TEXT_CHARACTERS)}",
    )
