"""Studies of many runs of a few seconds each: what is missing is run, a run a core, and kept.

A run that was interrupted is run again from its start, which costs its seconds. Knows no study.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch

from swarmnode.files import write_atomically
from swarmnode.sim.machine import available_cores
from tests.benchmarks.studies import on_every_core


class Named(Protocol):
    """A run, told from all others of its study by its name."""

    @property
    def name(self) -> str:
        """Letters, digits, dots and dashes: a file's name."""
        ...


def row_file(run: Named, place: Path) -> Path:
    """Written when the run is whole."""
    return place / f"{run.name}.json"


def make_rows(
    runs: Sequence[Named],
    place: Path,
    work: Callable[[Iterator[Any], Path], None],
    seconds_a_run: float,
) -> list[Any] | None:
    """The rows of all runs, in their order; None when interrupted or when a core failed.

    `work` is one that `kept` does for a function of one run; `seconds_a_run` is what a run takes of
    one core, for the line that says how long it will be.
    """
    place.mkdir(parents=True, exist_ok=True)
    missing = [run for run in runs if not row_file(run, place).exists()]
    cores = max(1, min(available_cores(), len(missing)))
    minutes = len(missing) * seconds_a_run / cores / 60
    print(
        f"{len(runs) - len(missing)} of {len(runs)} runs are there; the others take about "
        f"{minutes:.0f} minutes on {cores} core{'s' * (cores > 1)}",
        flush=True,
    )
    if not on_every_core(work, missing, place):
        return None
    return [json.loads(row_file(run, place).read_text("utf-8")) for run in runs]


def kept(runs: Iterator[Any], place: Path, make: Callable[[Any, Path], Mapping[str, Any]]) -> None:
    """Make the row of every run and write it down; one thread."""
    torch.set_num_threads(1)
    for run in runs:
        started = time.monotonic()
        row = make(run, place)
        write_atomically(row_file(run, place), json.dumps(row, allow_nan=False))
        seconds = time.monotonic() - started
        print(f"{time.strftime('%H:%M:%S')}  {run.name}  {seconds:.0f} s", flush=True)
