"""Running a simulation or a study: variants times seeds, resumable, with one report.

A run that an earlier call has finished with the same settings is read instead of run. Ctrl-C ends
the running one and leaves the report of what was done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from swarmnode.clock import VirtualClock, VirtualLoop
from swarmnode.config.settings import Settings
from swarmnode.sim.building import Placing, unchanged
from swarmnode.sim.folder import RunFolder
from swarmnode.sim.machine import Machine
from swarmnode.sim.summary import Run, last_round
from swarmnode.sim.swarm import simulated_swarm
from swarmnode.types import RoundReport

CLUSTER_LOG = "cluster.log"
"""Ray's own words, in the folder of results."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One run of a study: a variant's name with the settings of one seed."""

    variant: str
    settings: Settings
    placing: Placing = unchanged
    """What is changed in what honest nodes are put into; the variant's name has to tell it."""

    @property
    def seed(self) -> int:
        """The arm's random seed."""
        return self.settings.simulation.seed

    def folder(self, out: Path) -> RunFolder:
        """Where the run is kept."""
        return RunFolder(out / "runs" / f"{self.variant.replace('/', '-')}-seed{self.seed}")


class Progress(Protocol):
    """What the study tells while it runs."""

    def ready(self, arm: Arm, figures: Mapping[str, float]) -> None:
        """The swarm of this arm has joined; the figures are those of its policies."""

    def round_ended(
        self, arm: Arm, reports: Sequence[RoundReport], answers: Mapping[str, str]
    ) -> None:
        """A round of all nodes has ended; round 0 is the evaluation at the start.

        answers: how the first node answered a question (swarmnode.observe.samples); may be empty.
        """

    def already_there(self, arm: Arm) -> None:
        """The arm was finished by an earlier call."""


def arms(variants: Mapping[str, Settings], seeds: int) -> list[Arm]:
    """Every variant under so many seeds, each from the seed of its settings on.

    Seed by seed, so that a study that is stopped has compared something.
    """
    return [
        Arm(name, _seeded(settings, settings.simulation.seed + number))
        for number in range(seeds)
        for name, settings in variants.items()
    ]


def _seeded(settings: Settings, seed: int) -> Settings:
    simulation = settings.simulation.model_copy(update={"seed": seed})
    return settings.model_copy(update={"simulation": simulation})


def run_study(
    study: Iterable[Arm],
    out: Path,
    *,
    environment: Mapping[str, str],
    cache: Path | None,
    progress: Progress,
    said: Callable[[str], None] = lambda line: None,
) -> tuple[list[Run], bool]:
    """Run what is not there yet; returns every run, and whether the study is whole.

    `said` is told, in a line, where a cluster's policy hosts are. The study is not whole after
    Ctrl-C. Raises ChildError, UnknownFilter, OSError.
    """
    runs: list[Run] = []
    machine: Machine | None = None
    try:
        for arm in study:
            folder = arm.folder(out)
            if folder.finished(arm.settings):
                progress.already_there(arm)
            else:
                if machine is not None and not machine.fits(arm.settings):
                    machine.close()
                    machine = None
                if machine is None:
                    machine = Machine(arm.settings, environment, out / CLUSTER_LOG, said)
                    machine.start()
                folder.begin()
                with asyncio.Runner(loop_factory=VirtualLoop) as runner:
                    runner.run(_run_arm(arm, folder, machine, cache, progress))
                folder.finish(arm.settings)
            runs.append(Run(arm.variant, arm.seed, folder.read()))
    except KeyboardInterrupt:
        begun = Run(arm.variant, arm.seed, arm.folder(out).read())
        told = any((run.variant, run.seed) == (arm.variant, arm.seed) for run in runs)
        if not told and last_round(begun.reports) >= 1:
            runs.append(begun)
        return runs, False
    finally:
        if machine is not None:
            machine.close()
    return runs, True


async def _run_arm(
    arm: Arm, folder: RunFolder, machine: Machine, cache: Path | None, progress: Progress
) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    clock = VirtualClock(loop)
    async with simulated_swarm(arm.settings, machine, clock, cache, arm.placing) as swarm:
        progress.ready(arm, swarm.figures)
        async for reports in swarm.rounds():
            folder.append(reports)
            progress.round_ended(arm, reports, swarm.answers)
