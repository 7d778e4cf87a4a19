"""What `swarmnode eval` shows: how far it is, on stderr, and the table of figures."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from swarmnode.cli.gains import figure
from swarmnode.observe.words import counted, plain

if TYPE_CHECKING:
    from swarmnode.cli.checkpoints import Chosen
    from swarmnode.cli.exam_figures import Figures, Measured
    from swarmnode.examining import Exam
    from swarmnode.pass_rates import Interval
    from swarmnode.progress import Step

WIDTH = 80
"""Columns that the table may take where the terminal does not tell."""


class Progressing(Progress):
    """A bar for each policy that answers; nothing where stderr is no terminal."""

    def __init__(self) -> None:
        console = Console(file=sys.stderr)
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._bar = self.add_task("finding the questions", total=None)

    def making(self, step: Step | None = None) -> None:
        """A policy is being made; of what takes long the share that is done, in percent."""
        if step is None:
            self._begin("making the policy", None)
            return
        what = plain(step.what)
        if what != self.tasks[0].description:
            self._begin(what, 100 if step.total else None)
        if step.total:
            self.update(self._bar, completed=100 * step.done // step.total)

    def answering(self, which: str, questions: int) -> None:
        """The policy `which` is asked so many questions in all."""
        self._which = which
        self._begin(which, questions)

    def answered(self, task: str, questions: int) -> None:
        """So many more are done."""
        self.update(self._bar, advance=questions, description=f"{self._which}: {task}")

    def _begin(self, what: str, total: int | None) -> None:
        # A task that had a total keeps it for good.
        self.remove_task(self._bar)
        self._bar = self.add_task(what, total=total)


def show(figures: Figures, exam: Exam, chosen: Chosen | None) -> None:
    """Write the table to stdout."""
    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    console.print(Text(_who(exam, chosen)))
    console.print(_table(figures, exam.samples))
    console.print(Text(_how(exam, paired=chosen is not None), style="dim"))


def _who(exam: Exam, chosen: Chosen | None) -> str:
    model = plain(exam.settings.policy.model)
    if chosen is None:
        return f"{model}, as it is"
    return (
        f"{model}: {chosen.path.name} (round {chosen.origin.round}) beside the start of its run\n"
        f"{chosen.path}"
    )


def _how(exam: Exam, *, paired: bool) -> str:
    policy = exam.settings.policy
    below = "Below: the change and its 95 % interval, questions paired."
    return (
        f"{exam.questions} held-out questions a task; {counted(exam.samples, 'answer')} each, "
        f"sampled at temperature {policy.temperature:g}, and one greedy; at most "
        f"{policy.new_tokens} tokens an answer. pass@k: the chance that one of k answers is right. "
        + (below if paired else "Below: the 95 % interval over questions.")
    )


def _table(figures: Figures, samples: int) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    table.add_column("task")
    names = ["pass@1", *([f"pass@{samples}"] if samples > 1 else []), "greedy"]
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    rows = {f"{task}\n{figures.levels[task]}": each for task, each in figures.tasks.items()}
    for task, measured in rows.items():
        table.add_row(Text(task), *(_cell(measured[name]) for name in names))
    if len(rows) > 1:
        table.add_section()
        table.add_row(Text("mean over tasks"), *(_cell(figures.mean[name]) for name in names))
    return table


def _cell(measured: Measured) -> Text:
    if measured.now is None or measured.change is None:
        return Text(f"{figure(measured.start.mean)}\n{_ends(measured.start, '.3f')}")
    change = measured.change
    sure = not math.isnan(change.low) and (change.low > 0 or change.high < 0)
    text = Text(f"{figure(measured.start.mean)} → {figure(measured.now.mean)}\n")
    style = ("green" if change.mean > 0 else "red") if sure else ""
    return text.append(f"{change.mean:+.3f}\n{_ends(change, '+.3f')}", style=style)


def _ends(found: Interval, form: str) -> str:
    return "" if math.isnan(found.low) else f"{found.low:{form}} to {found.high:{form}}"
