"""M4: tasks outside the allow-list are dropped before anything of theirs is made or scored.

Those of reasoning-gym that evaluate text are off by default, refused by name when asked for, and
ignored when a peer names them.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest
from reasoning_gym.factory import DATASETS

from swarmnode.cli.exits import Mistake
from swarmnode.cli.loading import check_tasks
from swarmnode.clock import VirtualClock
from swarmnode.config.settings import Settings
from swarmnode.config.tasks import Tasks
from swarmnode.scoring import Scoring
from swarmnode.selection.admission import Reason
from swarmnode.tasks import DEFAULT, ENABLED, LEVELS, REFUSED, Catalogue, Instance, RefusedTask
from swarmnode.types import Group, Scored
from swarmproto import AnnouncedGroup, decode_group, encode_group
from tests.security.scorer_support import PUBLIC_KEY
from tests.unit.collecting_support import FINGERPRINTS, Stranger, honestly, scene, simulate

EVALUATORS = {"eval", "exec", "parse_expr", "sympify", "literal_eval"}
OWN_VERIFIERS = {"basic_arithmetic", "binary_matrix", "propositional_logic"}
"""Tasks whose module evaluates text as well, of its own making or in a scorer that we replace."""


def evaluating() -> set[str]:
    """Datasets whose module has a call that evaluates text, wherever in it."""
    found = set()
    for task, (dataset, _) in DATASETS.items():
        tree = ast.parse(inspect.getsource(sys.modules[dataset.__module__]))
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        names = {each.id for each in calls if isinstance(each, ast.Name)}
        names |= {each.attr for each in calls if isinstance(each, ast.Attribute)}
        if names & EVALUATORS:
            found.add(task)
    return found


EVALUATING = sorted(evaluating() - OWN_VERIFIERS)
FOREIGN = [*EVALUATING, "gcd", "nonsense", "os.system", "basic_arithmetic.easy"]


def test_whatever_evaluates_text_is_refused_or_has_a_verifier_of_ours() -> None:
    assert len(EVALUATING) >= 11
    assert set(EVALUATING) <= set(REFUSED)
    assert set(LEVELS) >= OWN_VERIFIERS
    assert not evaluating() & ENABLED


def test_the_default_settings_ask_for_tasks_with_verifiers_of_ours_alone() -> None:
    assert {task for task, _ in Settings().tasks.pairs} <= set(LEVELS)


@pytest.mark.parametrize("task", sorted(REFUSED))
def test_a_refused_task_is_refused_by_name_wherever_it_is_asked_for(task: str) -> None:
    asked = Settings(tasks=Tasks(names=(f"{task}:{DEFAULT}",)))
    with pytest.raises(Mistake, match=f"'{task}' is refused: ") as mistake:
        check_tasks(asked)
    assert REFUSED[task] in str(mistake.value)
    with pytest.raises(RefusedTask, match=f"'{task}' is refused: "):
        Catalogue(bytes(32)).question(PUBLIC_KEY, task, DEFAULT, 0)


class Untouched:
    """Rewards that must not be asked."""

    async def score_external(
        self, groups: Sequence[Group], prefix: str = ""
    ) -> tuple[Sequence[Scored], Sequence[Reason]]:
        raise AssertionError(f"{groups[0].question.task} reached the scorer")


@pytest.mark.parametrize("task", FOREIGN)
def test_a_task_that_is_not_ours_is_dropped_before_it_is_fetched(task: str) -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, author = scene(clock, rewards=Untouched()), Stranger(1, clock)
        group = encode_group(replace(decode_group(author.group(5)), task=task, level=DEFAULT))
        bundle = author.bundle(group)
        here.transport.serving[author.address] = honestly(bundle)
        await here.look(author.announcement(bundle, [AnnouncedGroup(task, DEFAULT, 1, 2)]))
        assert here.collector.dropped == {Reason.NOTHING_WANTED: 1}
        assert here.transport.asked == []
        assert here.muted == []

    simulate(scenario)


@pytest.mark.parametrize("task", FOREIGN)
def test_a_task_that_is_announced_as_one_of_ours_is_dropped_before_it_is_scored(task: str) -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, author = scene(clock, rewards=Untouched()), Stranger(1, clock)
        (known,) = FINGERPRINTS
        group = encode_group(replace(decode_group(author.group(5)), task=task))
        bundle = author.bundle(group)
        here.transport.serving[author.address] = honestly(bundle)
        await here.look(author.announcement(bundle, [AnnouncedGroup(*known, 1, 2)]))
        assert here.collector.dropped == {Reason.BUNDLE_DIFFERS: 1}

    simulate(scenario)


class NeverMade(Catalogue):
    """A catalogue that tells when a question is made."""

    def question(self, public_key: bytes, task: str, level: str, index: int) -> Instance:
        instance = super().question(public_key, task, level, index)
        raise AssertionError(f"{instance.question.task} was made")


@pytest.mark.parametrize("task", [*sorted(REFUSED), "nonsense", "os.system", ""])
def test_the_scorer_itself_makes_and_scores_no_task_that_is_not_enabled(task: str) -> None:
    def never(*_: object) -> float:
        raise AssertionError("scored")

    catalogue = NeverMade(bytes(32))
    scoring = Scoring(catalogue, catalogue, never)
    for level in (DEFAULT, "easy", "paper", ""):
        item = (PUBLIC_KEY, task, level, 0, None, False, [("exit(3)", "stop")])
        assert scoring.score_group(*item) == ([0.0], "unknown_task")
