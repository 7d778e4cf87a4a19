"""The policy that both arms start from, and its groups to questions of training. Only wires.

The questions are the first of each task in the stream that `swarmnode run --solo --seed` asks with
the same seed; none of a stream is held out, and the scorer would refuse it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from swarmnode.children import policy_child, scoring_child
from swarmnode.cli.choosing import DEFAULT_NAME, swarm_of
from swarmnode.config.settings import Settings
from swarmnode.examining import hosted, starting_order
from swarmnode.outfit import seeded_identity
from swarmnode.paths import cache_folder
from swarmnode.policies import Making, base_pairs, policy_order
from swarmnode.policy.client import RemotePolicy
from swarmnode.rewards.client import Scorer
from swarmnode.types import Group, Question, Scored

QUESTIONS_PER_CALL = 8


def write_start(settings: Settings, seed: int, folder: Path) -> None:
    """Write the base of `tiny` with the random start of this seed into an empty folder."""
    asyncio.run(_write_start(settings, seed, folder))


def sampled_groups(settings: Settings, seed: int, questions: int, completions: int) -> list[Scored]:
    """Groups of the settings' model, to the first `questions` of each task in a seed's stream.

    Raises ValueError where the scorer refused one.
    """
    return asyncio.run(_sampled(settings, seed, questions, completions))


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


async def _sampled(settings: Settings, seed: int, questions: int, completions: int) -> list[Scored]:
    public_key = seeded_identity(seed, b"").public_key
    async with _children(settings) as (scorer, policy):
        await policy.create(await starting_order(settings, settings.tasks, b"", scorer, Path()))
        asked: list[Question] = []
        for task, level in settings.tasks.pairs:
            drawn, _ = await scorer.draw(public_key, task, level, 0, questions)
            asked += drawn
        groups: list[Group] = []
        for start in range(0, len(asked), QUESTIONS_PER_CALL):
            some = asked[start : start + QUESTIONS_PER_CALL]
            sampled = await policy.generate(some, completions)
            # Whose stream a question is of tells the scorer how to make it again.
            groups += [replace(each, publisher=public_key) for each in sampled]
        verdicts = await scorer.score(groups)
        if refused := {str(each.rejection) for each in verdicts if each.rejection}:
            raise ValueError(f"questions of training were refused: {', '.join(sorted(refused))}")
        return [
            Scored(group, verdict.scores, "local", 0.0)
            for group, verdict in zip(groups, verdicts, strict=True)
        ]
