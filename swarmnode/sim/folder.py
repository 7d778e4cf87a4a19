"""What a simulation leaves on disk: one folder a run, a line of JSON per node and round.

    OUT/runs/4-4-seed0/rounds.jsonl    a RoundReport a line
    OUT/runs/4-4-seed0/done            written when the run is whole: the digest of its settings
    OUT/summary.json report.html curves.png

A run that is not whole is begun again; a whole one with the same settings is read, not run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from swarmnode.config.settings import Settings
from swarmnode.files import write_atomically
from swarmnode.reports import report_as_json, report_from_json
from swarmnode.types import RoundReport


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one run."""

    path: Path

    def begin(self) -> None:
        """Make the folder, or empty an unfinished one. Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "done").unlink(missing_ok=True)
        (self.path / "rounds.jsonl").write_text("", encoding="utf-8")

    def append(self, reports: Sequence[RoundReport]) -> None:
        """Add a round."""
        lines = "".join(json.dumps(report_as_json(report)) + "\n" for report in reports)
        with (self.path / "rounds.jsonl").open("a", encoding="utf-8") as file:
            file.write(lines)

    def finish(self, settings: Settings) -> None:
        """Mark the run as whole."""
        write_atomically(self.path / "done", settings_digest(settings))

    def finished(self, settings: Settings) -> bool:
        """Whether the run is whole and was made with these settings."""
        try:
            return (self.path / "done").read_text(encoding="utf-8") == settings_digest(settings)
        except OSError:
            return False

    def read(self) -> list[RoundReport]:
        """The rounds that are there; a torn last line is left out."""
        lines = self.path / "rounds.jsonl"
        return list(_parse_lines(lines.read_text(encoding="utf-8"))) if lines.exists() else []


def _parse_lines(text: str) -> Iterator[RoundReport]:
    for line in text.splitlines(keepends=True):
        if line.endswith("\n"):
            yield report_from_json(json.loads(line))


def settings_digest(settings: Settings) -> str:
    """Equal for settings that give equal rounds: where they are computed changes nothing."""
    told = settings.model_dump_json(exclude={"simulation": {"cluster"}})
    return hashlib.sha256(told.encode()).hexdigest()
