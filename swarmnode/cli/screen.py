"""What a simulation shows in the terminal: a line now and then, and a table at the end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console

from swarmnode.config.settings import Settings
from swarmnode.config.simulation import AttackName
from swarmnode.observe.status import StatusDocument
from swarmnode.observe.words import counted, size_of
from swarmnode.sim.attacks.words import announced, told
from swarmnode.sim.console import progress_line, real_line, results_table, sample_line
from swarmnode.sim.study import Arm
from swarmnode.sim.summary import Run, mean_reward, summarize
from swarmnode.types import RoundReport

LINE_EVERY_SECONDS = 2.0
REAL_LINE_EVERY_SECONDS = 10.0
TOLD_BYTES = 2**30
"""A policy that needs less memory than this is no burden worth a word."""


class Screen:
    """Progress of a study on one stream."""

    def __init__(self, stream: TextIO, compared: str = "mix") -> None:
        """`compared` is what the variants differ in: the mix, or the name of a setting."""
        self._stream = stream
        self._compared = compared
        self._started = time.monotonic()
        self._last_line = 0.0
        self._since: list[RoundReport] = []
        self._start: float | None = None

    def starting(self, settings: Settings, arms: int) -> None:
        """Say what is about to happen."""
        nodes = settings.simulation.nodes
        runs = "" if arms == 1 else f", {arms} runs"
        self._say(
            f"starting {counted(nodes, 'node')}{runs} "
            "(the first start teaches the models their basics)"
        )
        if attack := announced(settings):
            self._say(attack)

    def ready(self, arm: Arm, figures: Mapping[str, float]) -> None:
        """The swarm of an arm has joined."""
        self._since = []
        nodes = arm.settings.simulation.nodes
        models = list(dict.fromkeys(arm.settings.simulation.models[:nodes]))
        size = f"{int(figures['parameters']):,} parameters"
        verb = "is" if nodes == 1 else "are"
        memory = figures.get("memory_bytes", 0.0)
        needing = f", {size_of(memory)} at the peak of each" if memory >= TOLD_BYTES else ""
        self._say(
            f"{self._compared} {arm.variant}, seed {arm.seed}: {counted(nodes, 'node')} of "
            f"{size if len(models) == 1 else ' and '.join(models)} {verb} ready{needing}"
        )

    def round_ended(
        self, arm: Arm, reports: Sequence[RoundReport], answers: Mapping[str, str]
    ) -> None:
        """A round has ended; not every one gets a line."""
        self._since += reports
        if reports[0].round == 0:
            self._start = mean_reward(reports, "held_out")
        now = time.monotonic()
        number, rounds = reports[0].round, arm.settings.simulation.rounds
        told = reports[0].evaluation is not None or number == 1
        if told or now - self._last_line >= LINE_EVERY_SECONDS:
            elapsed = now - self._started
            self._say(progress_line(number, rounds, self._since, elapsed, start=self._start))
            self._since = []
            self._last_line = now
        if told and answers:
            self._say(sample_line(answers))

    def already_there(self, arm: Arm) -> None:
        """A run was found finished."""
        self._say(f"{self._compared} {arm.variant}, seed {arm.seed}: finished by an earlier call")

    def looked(self, statuses: Sequence[StatusDocument | None]) -> None:
        """What real nodes say of themselves; not every look gets a line."""
        now = time.monotonic()
        if now - self._last_line >= REAL_LINE_EVERY_SECONDS:
            self._say(real_line(statuses, now - self._started))
            self._last_line = now

    def finish(self, runs: Sequence[Run], report: Path, attack: AttackName) -> None:
        """The table of results, what was seen of an attack, and where the report is."""
        variants = summarize(runs)
        Console(file=self._stream).print(results_table(variants, self._compared))
        for variant in variants:
            if variant.attacked:
                self._say(f"{variant.name}, attack {attack}: {told(attack, variant.attacked)}")
        self._say(f"report: {report}")

    def note(self, line: str) -> None:
        """What happens beside the rounds."""
        self._say(line)

    def _say(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()
