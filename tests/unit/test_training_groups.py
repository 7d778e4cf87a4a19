"""Training groups: their channels, and the completions that a guard-rail keeps out."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from swarmnode.config.training import Training
from swarmnode.training.plan import plan_round
from tests.unit.training_support import make_group


def test_accuracy_is_always_a_channel_and_the_first() -> None:
    group = make_group(random.Random(0), (1.0, 0.0))
    assert dict(group.channels) == {"accuracy": (1.0, 0.0)}
    with_length = replace(group, further_channels={"length": (0.5, 0.25)})
    assert list(with_length.channels.items()) == [
        ("accuracy", (1.0, 0.0)),
        ("length", (0.5, 0.25)),
    ]


def test_a_channel_of_another_length_and_a_second_accuracy_are_refused() -> None:
    group = make_group(random.Random(0), (1.0, 0.0))
    with pytest.raises(ValueError, match="2 completions need as many"):
        replace(group, further_channels={"length": (0.5,)})
    with pytest.raises(ValueError, match="accuracy channel is `rewards`"):
        replace(group, further_channels={"accuracy": (0.5, 0.5)})


def test_an_excluded_completion_leaves_the_loss_and_stays_in_the_baseline() -> None:
    group = make_group(random.Random(0), (1.0, 0.0, 0.0, 0.0))
    whole = plan_round([group], Training())
    less = plan_round([replace(group, excluded=frozenset({0, 2}))], Training())
    kept = [whole.rows[0].completions[position] for position in (1, 3)]
    assert list(less.rows[0].completions) == kept
    assert less.counts["completions/excluded_local"] == 2
    alone = plan_round([make_group(random.Random(0), (1.0, 0.0))], Training())
    assert alone.rows[0].completions[1].advantage != kept[0].advantage


def test_every_completions_advantage_is_told_whether_or_not_it_is_trained_on() -> None:
    rng = random.Random(0)
    live, wider = make_group(rng, (1.0, 0.0)), make_group(rng, (1.0, 0.0, 0.0))
    peer = replace(make_group(rng, (1.0, 0.0)), source="external")
    dead = make_group(rng, (0.0, 0.0))
    plan = plan_round([peer, live, dead, wider], Training())
    assert list(map(len, plan.advantages)) == [2, 2, 2, 3]
    assert plan.advantages[2] == (0.0, 0.0)
    trained = {row.group: [one.advantage for one in row.completions] for row in plan.rows}
    assert list(plan.advantages[1]) == trained[1]
    # Of a peer's group successes alone are trained on.
    assert trained[0] == [plan.advantages[0][0]]
    off = plan_round([peer, live], Training(external_advantage="off"))
    assert list(map(len, off.advantages)) == [0, 2]
