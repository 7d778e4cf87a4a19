"""How far a node's start is, on stderr: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from swarmnode.observe.words import plain
from swarmnode.progress import Step

LINE_EVERY_SECONDS = 10.0
"""Where no bar can be shown; what ends sooner gets one line."""


class _Stderr:
    """Whatever stderr is at the moment: while a bar is shown, lines go above it."""

    def write(self, text: str) -> int:
        """Write it there."""
        return sys.stderr.write(text)

    def flush(self) -> None:
        """Flush that."""
        sys.stderr.flush()


class StartScreen:
    """Shows steps until it is told that there are no more."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr)
        self._bar: Progress | None = None
        self._what = ""
        self._said = 0.0
        self.log = cast("TextIO", _Stderr())
        """Where to write meanwhile."""

    def show(self, step: Step | None) -> None:
        """Show where the start is; None ends it."""
        if step is None:
            if self._bar is not None:
                self._bar.stop()
                self._bar = None
        elif self._console.is_terminal:
            self._show_bar(step)
        else:
            self._say(step)

    def _show_bar(self, step: Step) -> None:
        if self._bar is None:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TaskProgressColumn(),
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
                redirect_stdout=False,
            )
            self._task = self._bar.add_task(plain(step.what), total=None)
            self._bar.start()
        if step.what != self._what:
            self._what = step.what
            self._bar.reset(self._task, description=plain(step.what))
        self._bar.update(self._task, completed=step.done, total=step.total or None)

    def _say(self, step: Step) -> None:
        now = time.monotonic()
        if step.what == self._what and now - self._said < LINE_EVERY_SECONDS:
            return
        self._what, self._said = step.what, now
        sys.stderr.write(f"starting: {plain(step.in_words)}\n")
        sys.stderr.flush()
