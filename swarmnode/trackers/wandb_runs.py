"""Weights & Biases: files in the home, and sent only where WANDB_MODE says so.

Its habits are switched off where they tell of the machine: its name, its packages, the checkout,
the terminal's output and the system's load.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from swarmnode.trackers.run import Run

OFFLINE = "offline"


class WeightsAndBiases:
    """A run that goes on over restarts, by its identity."""

    def __init__(self, run: object, where: str) -> None:
        self._run = run
        self.where = where

    @classmethod
    def open(cls, run: Run) -> Self:
        """Begin the run or go on with it. Without WANDB_MODE it is offline."""
        folder = Path(run.folder)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ("CACHE", "DATA", "CONFIG", "ARTIFACT"):
            os.environ.setdefault(f"WANDB_{name}_DIR", str(folder / name.lower()))
        # What it reads on import is set by then.
        import wandb

        mode = os.environ.get("WANDB_MODE") or OFFLINE
        begun = wandb.init(
            project=run.project,
            id=run.identity,
            name=run.name,
            resume="allow",
            dir=str(folder),
            config=dict(run.settings),
            settings=wandb.Settings(
                mode=mode,
                silent=True,
                console="off",
                host="-",
                disable_git=True,
                disable_code=True,
                save_code=False,
                x_disable_stats=True,
                x_disable_meta=True,
                x_disable_machine_info=True,
                x_save_requirements=False,
            ),
        )
        # Its own step only grows, and a round may be done again.
        begun.define_metric("*", step_metric="round")
        sending = f"wandb sync --append {folder}/wandb/offline-run-*-{run.identity}"
        return cls(begun, sending if mode == OFFLINE else str(begun.url or mode))

    def log(self, round_number: int, ended: float, values: Mapping[str, float]) -> None:
        """One step with every figure; W&B takes the time itself."""
        self._run.log({"round": round_number, "ended": ended, **values})  # type: ignore[attr-defined]

    def flush(self) -> None:
        """Its own process writes as it comes."""

    def close(self) -> None:
        """Write and, online, send what is left."""
        self._run.finish()  # type: ignore[attr-defined]
