"""A node with generators and a trainer that only take time: the real loops in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from swarmnode.clock import VirtualClock
from swarmnode.config.policy import PolicySettings
from swarmnode.config.rounds import Rounds
from swarmnode.config.selection import Selection
from swarmnode.process import ChildError, ChildGone
from swarmnode.round import Parts
from swarmnode.selection.bounds import ExternalBounds
from swarmnode.selection.filters import NonzeroAdvantage, draw_peers_first
from swarmnode.selection.pool import Pool
from swarmnode.split.generators import Generator
from swarmnode.split.loops import Split
from swarmnode.types import Group, PolicyInfo, Question, RoundReport, Scored, Trained
from tests.unit.learning_parts import Learner, learning_parts
from tests.unit.made import group


@dataclass
class Process:
    """A child that can die."""

    process_id: int | None = 1
    starts: int = 1

    @property
    def alive(self) -> bool:
        return self.process_id is not None

    def start(self) -> None:
        self.process_id, self.starts = 1, self.starts + 1

    async def begin(self) -> None:
        self.start()


@dataclass
class Machine(Learner):
    """All that takes time, and all that is remembered."""

    clock: VirtualClock
    round_seconds: float
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    steps: int = 0
    dies_in_step: int = 0
    """The optimizer step in which the trainer is lost, once."""
    available: int | None = None
    """The number of the weights that can be taken."""
    numbers: list[int] = field(default_factory=list)
    """Under which weights went out."""
    trained: Counter[int] = field(default_factory=Counter)
    """Groups by the index of their question."""
    asked: int = 0
    process: Process = field(default_factory=Process)

    @property
    def info(self) -> PolicyInfo:
        return PolicyInfo("machine", self.steps, b"")

    @property
    def lost(self) -> bool:
        return self.process.process_id is None

    async def takes(self, seconds: float) -> None:
        """So long, give or take a fifth."""
        await self.clock.sleep(seconds * self.rng.uniform(0.8, 1.2))

    async def publish_weights(
        self, version: int, generators: Sequence[int] = ()
    ) -> Mapping[str, Any]:
        if self.lost:
            raise ChildGone("the trainer is dead")
        self.available = version
        self.numbers.append(version)
        return {}

    async def weights(self) -> Mapping[str, float]:
        return {"basic_arithmetic": 1.0}

    async def lengths(self, groups: Sequence[Scored]) -> Sequence[Sequence[int]]:
        return []

    async def generate(self, questions: Sequence[Question], completions: int) -> Sequence[Group]:
        raise NotImplementedError

    async def train(self, groups: Sequence[Scored], watched: Sequence[Scored] = ()) -> Trained:
        self.trained.update(each.group.question.index for each in groups)
        await self.takes(self.round_seconds)
        self.steps += 1
        if self.steps == self.dies_in_step:
            self.dies_in_step, self.process.process_id = 0, None
            raise ChildGone("the trainer died")
        return Trained({})

    async def draw(self, weights: Mapping[str, float], count: int) -> Sequence[Question]:
        self.asked += count
        return [group(index=self.asked - number).question for number in range(count)]

    async def score(self, groups: Sequence[Group]) -> Sequence[Scored]:
        return [Scored(each, (1.0, 0.0), "local", self.clock.now()) for each in groups]

    def put(self, groups: Sequence[Scored]) -> None: ...


class Sampler:
    """A generator's policy."""

    def __init__(self, machine: Machine, group_seconds: float) -> None:
        self.machine = machine
        self.group_seconds = group_seconds
        self.process = Process()
        self.info = PolicyInfo("machine", 0, b"")
        self.has_weights = True
        self.created = 0
        self.sampled = 0

    async def create(self, _order: object) -> None:
        self.created += 1

    async def take_weights(self) -> bool:
        assert self.machine.available is not None
        self.info = PolicyInfo("machine", self.machine.available, b"")
        return True

    async def generate(self, questions: Sequence[Question], completions: int) -> Sequence[Group]:
        info = self.info
        await self.machine.takes(self.group_seconds * len(questions))
        if self.process.process_id is None:
            raise ChildGone("the generator died")
        self.sampled += len(questions)
        return [replace(group(), question=question, policy=info) for question in questions]


def parts_of(machine: Machine, rounds: Rounds) -> Parts:
    """The parts of its node."""
    selection = Selection()
    bounds = ExternalBounds(selection, use="off", share=0.0, positive=True, longest=20)
    pool = Pool(capacity=0, age_seconds=1.0)
    parts = learning_parts(machine, rounds, pool, NonzeroAdvantage(draw_peers_first), bounds)
    return replace(parts, questions=machine, rewards=machine, outgoing=machine, clock=machine.clock)


def split_over(
    machine: Machine, samplers: Sequence[Sampler], settings: PolicySettings, rounds: Rounds
) -> Split:
    """Both loops over these."""

    async def order() -> Any:
        return None

    made = [
        Generator(f"generator-{place}", place, one.process, one, order, machine.clock)  # type: ignore[arg-type]
        for place, one in enumerate(samplers, 1)
    ]
    return Split(
        parts_of(machine, rounds),
        machine,
        made,
        settings,
        versions_per_round=1,
        last_round=None,
        clock=machine.clock,
    )


async def lived(
    split: Split,
    machine: Machine,
    rounds: int,
    between: Callable[[int], None] = lambda _number: None,
    checkpoint: int = 0,
) -> list[RoundReport]:
    """Go through rounds as a daemon does; a lost trainer comes back with `checkpoint` steps."""
    await split.begin(0, None, None)
    reports: list[RoundReport] = []
    async with asyncio.TaskGroup() as tasks:
        generating = split.generating(tasks)
        while len(reports) < rounds:
            between(len(reports))
            try:
                reports.append(await split.round(len(reports) + 1))
            except ChildError:
                await machine.clock.sleep(10.0)
                machine.process.start()
                machine.steps = checkpoint
                await split.went_back(forget=False)
        for task in generating:
            task.cancel()
    return reports
