"""A comparison as one HTML page, without scripts and without anything loaded from elsewhere. Pure.

Every text that is not ours is made visible and escaped where it enters.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from swarmnode import __version__
from swarmnode.cli.compare_figures import how, notes, rail_name, verdict, where, who, worse
from swarmnode.cli.gains import figure
from swarmnode.drawing import page_style
from swarmnode.observe.words import plain

if TYPE_CHECKING:
    from swarmnode.cli.compare_figures import Told
    from swarmnode.comparison import Against, Comparison, Example, Part
    from swarmnode.pass_rates import Interval

_HEAD = (
    *("task", "A", "B", "A - B", "win rate of A", "only A right", "only B right"),
    *("both right", "neither", "greedy, A - B", "tokens, A - B", "characters, A - B"),
)


def page(told: Told) -> str:
    """The whole page."""
    found = told.found
    warnings = "".join(f'<p class="warning">{_text(note)}</p>' for note in notes(told))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>swarmnode: {_text(verdict(found))}</title>
<style>
{page_style()}
</style>
</head>
<body>
<main>
<header>
<p class="kicker">swarmnode {_text(__version__)}, two policies compared</p>
<h1>{_text(verdict(found))}</h1>
<p><strong>A</strong> {_named(told, 0)}<br><strong>B</strong> {_named(told, 1)}</p>
{warnings}
</header>
<section><h2>Success on held-out questions</h2>
<div class="wide">{_parts(told)}</div>
<p class="note">{_text(how(told))}</p></section>
<section><h2>Guard-rails</h2>
{_rails(found)}
<p class="note">Figures over all sampled answers. The last column says which of the two would have
warned, had it answered like the other one in its first rounds.</p></section>
<section><h2>Questions that one answers better</h2>
{_examples("A is right, B is wrong", found.better_a)}
{_examples("B is right, A is wrong", found.better_b)}
</section>
</main>
</body>
</html>
"""


def _text(value: str) -> str:
    return html.escape(plain(value))


def _named(told: Told, place: int) -> str:
    path = where(told, place)
    return _text(who(told, place)) + (f" <code>{_text(path)}</code>" if path else "")


def _rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    top = "".join(f"<th>{_text(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>" for cells in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _parts(told: Told) -> str:
    levels = dict(told.contest.pairs)
    rows = [
        _part(f"{_text(task)}<small>{_text(levels[task])}</small>", part)
        for task, part in told.found.tasks.items()
    ]
    if len(rows) > 1:
        rows.append(_part("<strong>mean over tasks</strong>", told.found.mean))
    return _rows(_HEAD, rows)


def _part(name: str, part: Part) -> Sequence[str]:
    agreement = part.agreement
    shares = (agreement.only_a, agreement.only_b, agreement.both, agreement.neither)
    return (
        name,
        figure(part.success.a.mean),
        figure(part.success.b.mean),
        _with_ends(part.success.difference, "+.3f"),
        _with_ends(part.win_rate, ".3f"),
        *(f"{share:.1%}" for share in shares),
        _with_ends(part.greedy.difference, "+.3f"),
        _length(part.tokens),
        _length(part.characters),
    )


def _length(figures: Against) -> str:
    means = f"{figures.a.mean:.1f} and {figures.b.mean:.1f}: "
    return means + _with_ends(figures.difference, "+.1f")


def _with_ends(found: Interval, form: str) -> str:
    if math.isnan(found.low):
        return f"{found.mean:{form}}"
    return f"{found.mean:{form}}<small>{found.low:{form}} to {found.high:{form}}</small>"


def _rails(found: Comparison) -> str:
    rows = [
        (
            _text(rail_name(name)),
            *("-" if value is None else f"{value:.3f}" for value in (rail.a, rail.b)),
            _text(worse(rail)),
        )
        for name, rail in found.rails.items()
    ]
    return _rows(("figure", "A", "B", "against the other"), rows)


def _examples(title: str, some: Sequence[Example]) -> str:
    if not some:
        return ""
    return f"<h3>{_text(title)}</h3>" + "".join(map(_example, some))


def _example(example: Example) -> str:
    return (
        f"<p>{_text(example.task)}: {_text(example.question)}<br>"
        f"right answer: {_text(example.reference)}</p>"
        f"<pre>A ({example.right_a} of {example.samples} right): {_text(example.answer_a)}\n"
        f"B ({example.right_b} of {example.samples} right): {_text(example.answer_b)}</pre>"
    )
