"""The command of a study of short runs: `make bench NAME=…` with development, try, page or nothing.

Writes docs/results/NAME.json, NAME.png and the blocks of NAME.md; what is whole in runs/NAME/ is
not run again, unless the code that made it has changed. `development` and `try` write the same
three into runs/NAME/ and touch no page.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from swarmnode.files import write_atomically
from tests.benchmarks.sharing_markdown import fill
from tests.benchmarks.short_runs import make_rows
from tests.benchmarks.short_tables import NOT_RUN
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
    code: Sequence[ModuleType]
    """What makes a row: a run under another text of these is another run."""
    render: Callable[[Rows], Mapping[str, str]]
    draw: Callable[[Rows], bytes]
    drawn: str
    """What the picture shows, for who can't see it."""

    @property
    def place(self) -> Path:
        """Where its runs are kept."""
        code = "".join(map(inspect.getsource, self.code))
        return Path("runs") / self.name / hashlib.sha256(code.encode()).hexdigest()[:12]

    def blocks(self, rows: Rows) -> Mapping[str, str]:
        """The page's blocks by their names; links to files only where these are."""
        picture = f"![{self.drawn}]({self.name}.png)" if rows else NOT_RUN
        told = f"Rows of every run: [{self.name}.json]({self.name}.json)." if rows else NOT_RUN
        return {**self.render(rows), "picture": picture, "rows": told}

    def run(self, arguments: Sequence[str]) -> int:
        """The command; returns its exit code."""
        rows_file = RESULTS / f"{self.name}.json"
        match list(arguments):
            case ["page"]:
                self._write(read_rows(rows_file), RESULTS)
                return 0
            case ["development" | "try" as part]:
                rounds = TRIED_ROUNDS if part == "try" else self.rounds
                return self._all(self.development_seeds, rounds, self.place / part)
            case []:
                return self._all(self.seeds, self.rounds, RESULTS)
        print(f"make bench NAME={self.name} takes ARGUMENTS=development, try, page or none")
        return 2

    def _all(self, seeds: Sequence[int], rounds: int, folder: Path) -> int:
        rows = self._made(seeds, rounds)
        if rows is None:
            return 130
        folder.mkdir(parents=True, exist_ok=True)
        write_rows(folder / f"{self.name}.json", rows)
        self._write(rows, folder)
        print("\n\n".join(self.render(rows).values()))
        print(f"written: {folder / self.name}.md, with its picture and its rows")
        return 0

    def _made(self, seeds: Sequence[int], rounds: int) -> list[Any] | None:
        """The rows of the runs, None when interrupted."""
        runs, seconds = self.runs_of(seeds, rounds), self.seconds_a_run * rounds / self.rounds
        rows = make_rows(runs, self.place, self.work, seconds)
        if rows is None:
            print("stopped; give the same command to go on")
        return rows

    def _write(self, rows: Rows, folder: Path) -> None:
        """The picture and the page, which is the committed one with other blocks."""
        page = (RESULTS / f"{self.name}.md").read_text("utf-8")
        if rows:
            (folder / f"{self.name}.png").write_bytes(self.draw(rows))
        filled = fill(page, self.blocks(rows), self.name)
        write_atomically(folder / f"{self.name}.md", filled)
