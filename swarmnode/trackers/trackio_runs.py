"""trackio: a SQLite file in the home, or a server or Space that the environment names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from swarmnode.trackers.run import Run

ELSEWHERE = ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL")


class Trackio:
    """A run that goes on over restarts, by its name."""

    def __init__(self, run: object, where: str) -> None:
        self._run = run
        self.where = where

    @classmethod
    def open(cls, run: Run) -> Self:
        """Begin the run or go on with it."""
        folder = Path(run.folder)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.environ.setdefault("TRACKIO_DIR", str(folder))
        # What it reads on import is set by then.
        import trackio

        begun = trackio.init(
            project=run.project,
            name=run.name,
            resume="allow",
            config=dict(run.settings),
            embed=False,
            auto_log_cpu=False,
            auto_log_gpu=False,
        )
        elsewhere = next(filter(None, map(os.environ.get, ELSEWHERE)), "")
        show = f"TRACKIO_DIR={os.environ['TRACKIO_DIR']} trackio show --project {run.project}"
        return cls(begun, elsewhere or show)

    def log(self, round_number: int, ended: float, values: Mapping[str, float]) -> None:
        """One step with every figure; trackio takes the time itself."""
        self._run.log({"ended": ended, **values}, step=round_number)  # type: ignore[attr-defined]

    def flush(self) -> None:
        """A thread of its own writes, half a second later at most."""

    def close(self) -> None:
        """Write what is left."""
        self._run.finish()  # type: ignore[attr-defined]
