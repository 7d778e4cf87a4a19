"""The command of a study of short runs: `make bench NAME=…` with development, try, page or nothing.

Writes docs/results/NAME.json, the tables of NAME.md and NAME.png; what is whole in runs/NAME/ is
not run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swarmnode.files import write_atomically
from tests.benchmarks.sharing_markdown import fill
from tests.benchmarks.short_runs import make_rows
from tests.benchmarks.study_rows import read_rows, write_rows

RESULTS = Path("docs") / "results"
TRIED_ROUNDS = 5

Rows = Sequence[Any]


@dataclass(frozen=True, slots=True)
class ShortStudy:
    """A study by its parts."""

    name: str
    runs_of: Callable[[Sequence[int], int], Sequence[Any]]
    """The runs under some seeds, of so many rounds each."""
    seeds: Sequence[int]
    development_seeds: Sequence[int]
    rounds: int
    seconds_a_run: float
    """Of one core."""
    work: Callable[[Iterator[Any], Path], None]
    """For `make_rows`."""
    render: Callable[[Rows], Mapping[str, str]]
    draw: Callable[[Rows], bytes]

    def run(self, arguments: Sequence[str]) -> int:
        """The command; returns its exit code."""
        rows_file = RESULTS / f"{self.name}.json"
        match list(arguments):
            case ["page"]:
                self._make_page(read_rows(rows_file))
                return 0
            case ["development"]:
                return self._show(self.development_seeds, self.rounds)
            case ["try"]:
                return self._show(self.development_seeds, TRIED_ROUNDS)
            case []:
                rows = self._made(self.seeds, self.rounds)
                if rows is None:
                    return 130
                write_rows(rows_file, rows)
                self._make_page(rows)
                return 0
        print(f"make bench NAME={self.name} takes ARGUMENTS=development, try, page or none")
        return 2

    def _show(self, seeds: Sequence[int], rounds: int) -> int:
        rows = self._made(seeds, rounds)
        if rows is None:
            return 130
        print("\n\n".join(self.render(rows).values()))
        return 0

    def _made(self, seeds: Sequence[int], rounds: int) -> list[Any] | None:
        """The rows of the runs, None when interrupted."""
        runs, seconds = self.runs_of(seeds, rounds), self.seconds_a_run * rounds / self.rounds
        rows = make_rows(runs, Path("runs") / self.name, self.work, seconds)
        if rows is None:
            print("stopped; give the same command to go on")
        return rows

    def _make_page(self, rows: Rows) -> None:
        page = RESULTS / f"{self.name}.md"
        write_atomically(page, fill(page.read_text("utf-8"), self.render(rows), self.name))
        (RESULTS / f"{self.name}.png").write_bytes(self.draw(rows))
