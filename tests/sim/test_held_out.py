"""No held-out question leaves a node or enters one: in a real swarm, and from a hostile peer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from swarmnode.clock import SystemClock
from swarmnode.config.settings import load_settings
from swarmnode.network.shelf import Shelf
from swarmnode.rewards.budget import ScorerBudget
from swarmnode.rewards.client import Scorer
from swarmnode.scored import NodeRewards
from swarmnode.selection.admission import Reason
from swarmnode.selection.pool import Pool
from swarmnode.sim.study import arms, run_study
from swarmnode.tasks import Catalogue
from swarmnode.types import Scored
from swarmproto import Bundle, decode_group, is_held_out
from tests.security.scorer_support import (
    PUBLIC_KEY,
    SWARM_ID,
    group_of,
    scorer_child,
    scorer_of,
)
from tests.sim.test_simulation import SMALL, Watching

Asked = tuple[str, str, str]
"""Task, level and question text."""


class Records:
    """What a swarm warm-starts on, publishes and admits, taken where it happens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.warm_started: set[Asked] = set()
        self.published: set[Asked] = set()
        self.admitted: set[Asked] = set()
        put, add, pairs_of = Shelf.put, Pool.add, Scorer.warm_start_pairs

        def recording_put(shelf: Shelf, bundle: Bundle, expires: float) -> bytes:
            records = map(decode_group, bundle.group_bytes)
            self.published |= {(each.task, each.level, each.question) for each in records}
            return put(shelf, bundle, expires)

        def recording_add(pool: Pool, scored: Scored) -> Sequence[Scored]:
            question = scored.group.question
            self.admitted.add((question.task, question.level, question.text))
            return add(pool, scored)

        async def recording_pairs(
            scorer: Scorer, task: str, level: str, seed: int, count: int
        ) -> Sequence[tuple[str, str]]:
            pairs = await pairs_of(scorer, task, level, seed, count)
            self.warm_started |= {(task, level, question) for question, _ in pairs}
            return pairs

        monkeypatch.setattr(Shelf, "put", recording_put)
        monkeypatch.setattr(Pool, "add", recording_add)
        monkeypatch.setattr(Scorer, "warm_start_pairs", recording_pairs)


def held_out_of(asked: Iterable[Asked]) -> list[Asked]:
    return [each for each in asked if is_held_out(*each)]


def test_a_swarm_warm_starts_on_publishes_and_admits_no_held_out_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = Records(monkeypatch)
    settings = load_settings(assignments=SMALL)
    _, whole = run_study(
        arms({"4/4": settings}, 1),
        tmp_path,
        environment=os.environ,
        cache=tmp_path / "cache",
        progress=Watching(),
    )
    assert whole
    # Enough that a swarm without the rule would show one in ten: missing all has p < 0.01.
    assert len(records.warm_started) >= 100
    assert len(records.published) >= 45
    assert len(records.admitted) >= 20
    assert records.admitted <= records.published
    assert held_out_of(records.warm_started | records.published) == []


def test_a_peers_held_out_or_reworded_question_is_refused_under_its_reason() -> None:
    stream = [Catalogue(SWARM_ID).question(PUBLIC_KEY, "bf", "easy", n) for n in range(100)]
    kept = next(each.question for each in stream if each.held_out)
    asked = next(each.question for each in stream if not each.held_out)
    reworded = replace(asked, text=f"{asked.text} ")
    groups = [group_of(question, [question.answer, "?"]) for question in (kept, reworded, asked)]

    async def ask() -> tuple[Sequence[Scored], Sequence[Reason]]:
        with scorer_child() as child:
            rewards = NodeRewards(
                scorer_of(child), SystemClock(), lambda: 0.0, ScorerBudget(1.0, 10.0)
            )
            return await rewards.score_external(groups, "")

    scored, reasons = asyncio.run(ask())
    assert reasons == [Reason.HELD_OUT, Reason.QUESTION_DIFFERS]
    assert [(each.group, each.scores, each.source) for each in scored] == [
        (groups[2], (1.0, 0.0), "external")
    ]
