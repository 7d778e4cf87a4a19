"""Schedulers in a node: from scored groups to weights, refusals, and going on after a restart."""

from __future__ import annotations

import asyncio
import json
import math

import pytest

from swarmnode.cli.exits import Mistake
from swarmnode.cli.simulate import check
from swarmnode.config.scheduling import Scheduling
from swarmnode.config.settings import SettingsError, load_settings
from swarmnode.origin import kept, scheduler_of
from swarmnode.scheduling.kinds import WITHOUT_GRADIENTS
from swarmnode.scheduling.tasks import (
    TaskScheduler,
    advantage_sizes,
    outcome_of,
)
from swarmnode.types import Scored
from tests.unit.made import scored

TASKS = ("easy", "teaching", "hopeless")


def a_round() -> list[Scored]:
    return [
        scored((1.0, 1.0, 1.0, 1.0), task="easy", source="local"),
        scored((1.0, 0.0, 1.0, 0.0), task="teaching", source="local"),
        scored((0.0, 0.0, 0.0, 0.0), task="teaching", index=1, source="local"),
        scored((0.0, 0.0, 0.0, 0.0), task="hopeless", source="local"),
    ]


def test_a_round_tells_failures_and_what_is_learnable_with_dead_groups_as_nothing() -> None:
    told = outcome_of(a_round(), (*TASKS, "unasked"), (0.25,) * 4)
    assert told.losses == (0.0, 0.75, 1.0, None)
    assert told.learnability == (0.0, 0.5, 0.0, None)
    assert told.samples == (4.0, 8.0, 4.0, 0.0)


def test_the_mean_advantage_is_twice_the_deviation_of_a_coin() -> None:
    sizes = advantage_sizes(scored((1.0, 0.0, 0.0, 0.0)))
    assert sum(sizes) / 4 == pytest.approx(2 * math.sqrt(0.25 * 0.75))


@pytest.mark.parametrize("kind", ["sec", "dump", "odm"])
def test_a_bandit_asks_more_of_the_task_that_still_teaches(kind: str) -> None:
    settings = load_settings(assignments=[f"scheduling.kind={kind}"]).scheduling
    scheduler = TaskScheduler(settings, TASKS)
    for _ in range(30):
        asyncio.run(scheduler.weights())
        metrics = asyncio.run(scheduler.update(a_round()))
    weights = asyncio.run(scheduler.weights())
    assert max(weights, key=lambda task: weights[task]) == "teaching"
    assert math.fsum(weights.values()) == pytest.approx(1.0)
    assert min(weights.values()) >= settings.minimum_share - 1e-12
    assert metrics["scheduler/non_finite"] == 0
    assert metrics["scheduler/weight/teaching"] == pytest.approx(weights["teaching"], abs=0.1)


def test_uniform_is_the_default_and_static_follows_its_weights() -> None:
    assert asyncio.run(TaskScheduler(Scheduling(), TASKS).weights()) == pytest.approx(
        dict.fromkeys(TASKS, 1 / 3)
    )
    static = Scheduling(kind="static", static_weights=(6, 3, 1), minimum_share=0.0)
    assert asyncio.run(TaskScheduler(static, TASKS).weights()) == pytest.approx(
        {"easy": 0.6, "teaching": 0.3, "hopeless": 0.1}
    )


@pytest.mark.parametrize("kind", WITHOUT_GRADIENTS[2:])
def test_a_restarted_node_asks_as_if_it_had_not_been_killed(kind: str) -> None:
    settings = load_settings(assignments=[f"scheduling.kind={kind}"]).scheduling
    whole = TaskScheduler(settings, TASKS)
    for _ in range(5):
        asyncio.run(whole.weights())
        asyncio.run(whole.update(a_round()))
    again = TaskScheduler(settings, TASKS)
    assert again.load_state_dict(json.loads(json.dumps(whole.state_dict())))
    for _ in range(5):
        assert asyncio.run(again.weights()) == asyncio.run(whole.weights())
        asyncio.run(whole.update(a_round()[:2]))
        asyncio.run(again.update(a_round()[:2]))


def test_what_was_learned_is_kept_with_the_policy() -> None:
    saved = kept(
        3, load_settings(), b"k" * 32, None, TaskScheduler(Scheduling(), TASKS).state_dict()
    )
    learned = scheduler_of(json.loads(json.dumps(saved)))
    assert learned is not None
    assert TaskScheduler(Scheduling(), TASKS).load_state_dict(learned)
    assert scheduler_of(kept(3, load_settings(), b"k" * 32, None)) is scheduler_of(None) is None


def test_what_another_kind_or_other_tasks_learned_is_not_taken() -> None:
    saved = TaskScheduler(Scheduling(kind="sec"), TASKS).state_dict()
    assert not TaskScheduler(Scheduling(kind="dump"), TASKS).load_state_dict(saved)
    assert not TaskScheduler(Scheduling(kind="sec"), TASKS[:2]).load_state_dict(saved)


@pytest.mark.parametrize(
    ("assignments", "line"),
    [
        (["scheduling.static_weights=[1,-1]"], "must not be negative"),
        (["scheduling.kind=best"], r"scheduling.kind = 'best' .* 'uniform', 'static'"),
    ],
)
def test_a_mistake_in_the_settings_is_one_line(assignments: list[str], line: str) -> None:
    with pytest.raises(SettingsError, match=line):
        load_settings(assignments=assignments)


def test_a_node_has_no_static_weights_unless_they_are_given() -> None:
    with pytest.raises(Mistake, match="needs static_weights"):
        check(load_settings(assignments=["scheduling.kind=static"]))


def test_static_weights_for_another_number_of_tasks_are_refused() -> None:
    with pytest.raises(Mistake, match="2 shares for 6 tasks"):
        check(load_settings(assignments=["scheduling.static_weights=[1,2]"]))


def test_a_variant_changes_the_defaults_of_hds_and_settings_beside_it_win() -> None:
    settings = load_settings(
        assignments=["scheduling.hds.variant=paper", "scheduling.hds.discount=0.5"]
    )
    hds = settings.scheduling.hds
    assert (hds.diversity_weight, hds.alignment, hds.discount) == (10.0, "raw", 0.5)
    assert load_settings().scheduling.hds.alignment == "cosine"
