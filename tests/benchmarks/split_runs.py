"""One run of the study of `split`: real processes, in a folder of their own, to the last round."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from swarmnode.config.settings import load_settings
from swarmnode.home import Home
from swarmnode.observe.status import StatusDocument
from swarmnode.reports import report_from_json
from swarmnode.sim.real import real_environment, run_real, start
from swarmnode.store.reading import stored_rounds
from swarmnode.types import RoundReport
from tests.benchmarks.short_runs import kept
from tests.benchmarks.split_protocol import WARM_ROUNDS, SplitRun
from tests.benchmarks.split_rows import row_of


def work(runs: Iterator[SplitRun], place: Path) -> None:
    """Make the rows of the runs, one after the other."""
    kept(runs, place, _row)


def _row(run: SplitRun, place: Path) -> Mapping[str, Any]:
    cache = (place / "cache").absolute()
    with TemporaryDirectory() as folder:
        reports = _alone(run, Path(folder), cache) if run.nodes == 1 else _swarm(run, folder, cache)
    return row_of(run, reports)


def _alone(run: SplitRun, folder: Path, cache: Path) -> Sequence[Sequence[RoundReport]]:
    home = Home(folder / "home")
    sets = [word for each in run.settings for word in ("--set", each)]
    rounds = str(run.rounds + WARM_ROUNDS)
    process = start(
        ["run", "--solo", "--seed", str(run.seed), "--rounds", rounds, *sets],
        home,
        real_environment(os.environ, cache),
    )
    try:
        failed = process.wait()
    finally:
        process.kill()
    if failed:
        raise RuntimeError((home.path / "output").read_text("utf-8", "replace"))
    reports = [report_from_json(each.report) for each in stored_rounds(home.database)]
    return [sorted(reports, key=lambda report: report.round)]


class _Nobody:
    """Watches nothing."""

    def looked(self, statuses: Sequence[StatusDocument | None]) -> None:
        """As Watching says."""


def _swarm(run: SplitRun, folder: str, cache: Path) -> Sequence[Sequence[RoundReport]]:
    swarm = (
        f"simulation.nodes={run.nodes}",
        f"simulation.rounds={run.rounds + WARM_ROUNDS}",
        f"simulation.seed={run.seed}",
    )
    settings = load_settings(assignments=[*run.settings, *swarm])
    environment = real_environment(os.environ, cache)
    reports, whole = run_real(settings, Path(folder), environment, _Nobody())
    if not whole:
        raise RuntimeError(f"{run.name} was not whole")
    return [[each for each in reports if each.node == node] for node in range(run.nodes)]
