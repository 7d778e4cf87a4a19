"""The policy that both arms start from, and its groups to the questions of a run. Only wires.

The questions are those of `swarmnode run --solo --seed`, from its home: each task's from where its
stream began, in order. None of a stream is held out, and the scorer would refuse it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from swarmnode.children import policy_child, scoring_child
from swarmnode.cli.choosing import DEFAULT_NAME, swarm_of
from swarmnode.config.settings import Settings
from swarmnode.examining import starting_order
from swarmnode.home import Home
from swarmnode.outfit import seeded_identity
from swarmnode.paths import cache_folder
from swarmnode.policies import Making, base_pairs, hosted, policy_order
from swarmnode.policy.client import RemotePolicy
from swarmnode.rewards.client import Scorer
from swarmnode.types import Group, Question, Scored

QUESTIONS_PER_CALL = 8
_FARTHEST = 2**20
"""More indices of a stream than a run here can have spent."""


def write_start(settings: Settings, seed: int, folder: Path) -> None:
    """Write the base of `tiny` with the random start of this seed into an empty folder."""
    asyncio.run(_write_start(settings, seed, folder))


def sampled_groups(
    settings: Settings, seed: int, home: Home, questions: int, completions: int
) -> list[Scored]:
    """Groups of the settings' model, to the first `questions` of each task in the run of a home.

    Raises ValueError where the scorer refused one.
    """
    return asyncio.run(_sampled(settings, seed, home, questions, completions))


def asked_questions(settings: Settings, seed: int, home: Home, count: int) -> list[Question]:
    """The first `count` questions of each task in the run of a home."""

    async def drawn() -> list[Question]:
        async with _children(settings) as (scorer, _):
            return await _drawn(scorer, settings, seed, home, count)

    return asyncio.run(drawn())


def first_indices(seed: int, reserved: str, tasks: Sequence[str]) -> dict[str, int]:
    """Where each task's stream began, from the text of the run's `reserved.json`.

    A new home begins a stream at a random index, which follows from the run's seed and the order in
    which tasks were first asked; the file says how far each has got since. Raises ValueError where
    the two do not fit.
    """
    spent: dict[str, int] = json.loads(reserved.partition("\n")[2])["indices"]
    after = {name.split("/")[2]: end for name, end in spent.items()}
    rng = random.Random(f"{seed}/indices")
    begins = [rng.randrange(2**30) for _ in after]
    found = {}
    for task in tasks:
        fitting = [first for first in begins if 0 < after[task] - first < _FARTHEST]
        if len(fitting) != 1:
            raise ValueError(f"the stream of {task} began nowhere that seed {seed} gives")
        found[task] = fitting[0]
    return found


@asynccontextmanager
async def _children(settings: Settings) -> AsyncIterator[tuple[Scorer, RemotePolicy]]:
    """A scorer, and a policy that has still to be made."""
    scoring = scoring_child(settings, swarm_of(settings, DEFAULT_NAME).swarm_id)
    host = policy_child(os.environ, "policy host")
    try:
        for child in (scoring, host):
            child.start()
        yield Scorer(scoring, settings.rewards), hosted(host)
    finally:
        await host.close()
        await scoring.close()


async def _write_start(settings: Settings, seed: int, folder: Path) -> None:
    cache = cache_folder(os.environ) / "warm-starts"
    cache.mkdir(parents=True, exist_ok=True)
    making = Making(
        model="tiny", skills=(), seed=1, sampling_seed=0, shared_seed=seed, stream=1, cache=cache
    )
    async with _children(settings) as (scorer, policy):
        base = await base_pairs(settings, scorer, seed)
        await policy.create(
            replace(await policy_order(settings, scorer, making, base), rounds=None)
        )
        await policy.export(folder, "merged")


async def _drawn(
    scorer: Scorer, settings: Settings, seed: int, home: Home, count: int
) -> list[Question]:
    tasks = [task for task, _ in settings.tasks.pairs]
    begins = first_indices(seed, home.reserved.read_text("utf-8"), tasks)
    key = seeded_identity(seed, b"").public_key
    asked: list[Question] = []
    for task, level in settings.tasks.pairs:
        drawn, _ = await scorer.draw(key, task, level, begins[task], count)
        asked += drawn
    return asked


async def _sampled(
    settings: Settings, seed: int, home: Home, questions: int, completions: int
) -> list[Scored]:
    key = seeded_identity(seed, b"").public_key
    async with _children(settings) as (scorer, policy):
        await policy.create(await starting_order(settings, settings.tasks, b"", scorer, Path()))
        asked = await _drawn(scorer, settings, seed, home, questions)
        groups: list[Group] = []
        for start in range(0, len(asked), QUESTIONS_PER_CALL):
            some = asked[start : start + QUESTIONS_PER_CALL]
            sampled = await policy.generate(some, completions)
            # Whose stream a question is of tells the scorer how to make it again.
            groups += [replace(each, publisher=key) for each in sampled]
        verdicts = await scorer.score(groups)
        if refused := {str(each.rejection) for each in verdicts if each.rejection}:
            raise ValueError(f"questions of training were refused: {', '.join(sorted(refused))}")
        return [
            Scored(group, verdict.scores, "local", 0.0)
            for group, verdict in zip(groups, verdicts, strict=True)
        ]
