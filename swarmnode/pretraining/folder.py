"""What a pre-training run leaves on disk, and how it goes on from there.

    OUT/settings.json          the settings, and the digest that another call is held against
    OUT/rows.jsonl             a line for every step, and one for the validation before the first
    OUT/checkpoints/step-N     all that the following steps depend on
    OUT/model                  the model, as transformers loads it
    OUT/summary.json report.html curves.png

Rows beyond the last checkpoint are dropped when a run goes on: those steps are made again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from swarmnode.config.settings import Settings
from swarmnode.files import write_atomically
from swarmnode.policy.checkpoint import newest_checkpoint
from swarmnode.pretraining.trainer import Step

CHECKPOINTS, MODEL = "checkpoints", "model"


class OtherSettings(Exception):
    """The folder holds a run with other settings; the text is one line for the user."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of rows.jsonl."""

    step: int
    """0 is the validation before the first step, which has nothing else."""
    shares: Sequence[float]
    """Those of the scheduler, by domain."""
    sequences: Sequence[int]
    """Read in this step, by domain."""
    losses: Sequence[float | None]
    """Of these sequences, nats a token; None for a domain without any."""
    learning_rate: float
    metrics: Mapping[str, float]
    """The scheduler's (docs/metrics.md)."""
    seconds: Mapping[str, float]
    """By part of the step."""
    validation: Sequence[float] | None
    """Nats a token, by domain; None where there was none."""


def row_of(step: Step, validation: Sequence[float] | None) -> Row:
    """The line of a step."""
    return Row(
        step=step.number,
        shares=step.shares,
        sequences=step.sequences,
        losses=step.losses,
        learning_rate=step.learning_rate,
        metrics=step.metrics,
        seconds=step.seconds,
        validation=validation,
    )


def first_row(validation: Sequence[float]) -> Row:
    """The line before the first step."""
    return Row(0, (), (), (), 0.0, {}, {}, validation)


class RunFolder:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def checkpoints(self) -> Path:
        """Where they are."""
        return self.path / CHECKPOINTS

    @property
    def model(self) -> Path:
        """Where the model is left."""
        return self.path / MODEL

    def begin(self, settings: Settings, corpus: str) -> Path | None:
        """Make the folder ready; returns the checkpoint to go on from, if there is one.

        `corpus` names the texts. Raises OtherSettings, CheckpointError, OSError.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        digest = _digest(settings, corpus)
        held = self._held_digest()
        if held is not None and held != digest:
            raise OtherSettings(
                f"{self.path} holds a run with other settings or texts; choose another folder with"
                " --out, or delete that one"
            )
        document = {"digest": digest, "settings": settings.model_dump(mode="json")}
        write_atomically(self.path / "settings.json", json.dumps(document, indent=1) + "\n")
        return newest_checkpoint(self.checkpoints).path

    def keep_rows(self, steps: int | None) -> list[Row]:
        """Drop the rows beyond these steps, or all; returns those that are kept."""
        rows = [] if steps is None else [row for row in self.rows() if row.step <= steps]
        write_atomically(self.path / "rows.jsonl", "".join(map(_line, rows)))
        return rows

    def append(self, row: Row) -> None:
        """Add a line."""
        with (self.path / "rows.jsonl").open("a", encoding="utf-8") as file:
            file.write(_line(row))

    def rows(self) -> list[Row]:
        """All lines; a torn last one is left out."""
        try:
            text = (self.path / "rows.jsonl").read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        whole = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [Row(**json.loads(line)) for line in whole]

    def _held_digest(self) -> str | None:
        try:
            document: dict[str, Any] = json.loads(
                (self.path / "settings.json").read_text(encoding="utf-8")
            )
        except (OSError, ValueError):
            return None
        return str(document.get("digest"))


def _line(row: Row) -> str:
    return json.dumps(asdict(row), allow_nan=True) + "\n"


def _digest(settings: Settings, corpus: str) -> str:
    """Of what shapes the run."""
    shaping = settings.model_dump(mode="json", include={"pretraining", "scheduling"})
    return hashlib.sha256(json.dumps([shaping, corpus], sort_keys=True).encode()).hexdigest()
