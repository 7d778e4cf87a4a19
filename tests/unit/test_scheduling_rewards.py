"""The three rewards of HDS: the article's, the corrected ones, why the published one is mute."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence

import pytest

from swarmnode.config.scheduling import Hds
from swarmnode.scheduling.rewards import (
    Rewards,
    curriculum_diversity,
    paper_diversity,
    paper_stability,
    relative_stability,
)
from swarmnode.scheduling.scheduler import Outcome, State, beginning

PRODUCTS = ((4.0, 1.0, -2.0), (1.0, 1.0, -0.5), (-2.0, -0.5, 9.0))


def outcome(shares: Sequence[float], norm: float = 1.0) -> Outcome:
    return Outcome(
        weights=tuple(shares),
        samples=(8.0, 8.0, 8.0),
        losses=(1.0, 1.0, 1.0),
        diversity=(27.0, 52.0, 77.0),
        gradient_products=PRODUCTS,
        layer_norms=(norm,),
    )


def at(step: int) -> State:
    state = beginning(3, total_steps=100)
    return State(**{**state.to_values(), "step": step})


def alone(name: str, **settings: object) -> Hds:
    weights = {f"{each}_weight": 0.0 for each in ("alignment", "diversity", "stability")}
    weights[f"{name}_weight"] = 1.0
    return Hds.model_validate({**weights, **settings})


def test_the_paper_is_followed_with_its_weights_and_cap() -> None:
    rewards = Rewards(Hds.model_validate({"variant": "paper"}), 3)
    rewards.take(at(49), outcome((0.2, 0.3, 0.5), norm=2.0))
    told = rewards.take(at(50), outcome((0.2, 0.3, 0.5), norm=2.0 + 1e-3))
    m = [(value - 2) / 1022 for value in (27.0, 52.0, 77.0)]
    alignment = (1.0 - 2.0, 1.0 - 0.5, -2.5)
    expected = [
        a + 10 * 0.5 / (each + 1e-6) + 10 * 5.0 for a, each in zip(alignment, m, strict=True)
    ]
    assert told.by_domain == pytest.approx(expected)
    assert told.scalar == pytest.approx(
        sum(share * value for share, value in zip((0.2, 0.3, 0.5), expected, strict=True))
    )
    assert told.metrics["scheduler/saturated/stability"] == 0.5
    assert told.metrics["scheduler/share/diversity"] > 0.5, "it drowns the others"


def test_standardised_alignment_averaged_with_equal_weights_tells_nothing_of_the_shares() -> None:
    rng = random.Random(0)
    mute = Rewards(alone("alignment", alignment="zscore", scalarisation="mean"), 3)
    telling = Rewards(alone("alignment", alignment="zscore"), 3)
    for _ in range(20):
        drawn = [rng.expovariate(1.0) for _ in range(3)]
        shares = [share / sum(drawn) for share in drawn]
        assert mute.take(at(1), outcome(shares)).scalar == pytest.approx(0.0, abs=1e-12)
    low, high = (telling.take(at(1), outcome(s)).scalar for s in ((0, 0, 1), (0, 1, 0)))
    assert high - low > 1.0


def test_the_articles_diversity_prefers_simple_texts_ever_more_and_the_curriculum_turns() -> None:
    for progress in (0.1, 0.9):
        assert paper_diversity(progress, 0.1) > paper_diversity(progress, 0.5)
    late = paper_diversity(0.9, 0.1) - paper_diversity(0.9, 0.5)
    assert late > paper_diversity(0.1, 0.1) - paper_diversity(0.1, 0.5)
    assert curriculum_diversity(0.1, 0.1) > curriculum_diversity(0.1, 0.5)
    assert curriculum_diversity(0.9, 0.1) < curriculum_diversity(0.9, 0.5)
    assert all(0 <= curriculum_diversity(t, m) <= 1 for t in (0, 0.5, 1) for m in (0, 0.5, 1))


def test_the_articles_stability_is_its_cap_at_usual_changes_and_the_relative_one_is_not() -> None:
    changes = (1e-4, 1e-3, 1e-2)
    assert [paper_stability(change, 5.0) for change in changes] == [5.0] * 3
    assert paper_stability(0.5, 5.0) == pytest.approx(2.0, rel=1e-4)
    relative = [relative_stability(change, 1e-3) for change in changes]
    assert relative == pytest.approx([math.exp(-0.1), math.exp(-1), math.exp(-10)])


def test_a_scale_of_losses_or_weights_changes_no_corrected_reward() -> None:
    def scalars(scale: float) -> list[float]:
        rewards = Rewards(Hds(), 3)
        norms = (1.0, 1.1, 1.15, 1.2)
        table = tuple(tuple(scale**2 * each for each in row) for row in PRODUCTS)
        given = [outcome((0.2, 0.3, 0.5), scale * norm) for norm in norms]
        return [
            rewards.take(
                at(i),
                Outcome(
                    one.weights,
                    one.samples,
                    one.losses,
                    gradient_products=table,
                    layer_norms=one.layer_norms,
                ),
            ).scalar
            for i, one in enumerate(given)
        ]

    assert scalars(100.0) == pytest.approx(scalars(1.0))


def test_shares_of_the_three_sum_to_one_and_what_is_not_measured_is_worth_nothing() -> None:
    rewards = Rewards(Hds(), 3)
    told = rewards.take(at(1), outcome((0.2, 0.3, 0.5)))
    parts = [told.metrics[f"scheduler/share/{n}"] for n in ("alignment", "diversity", "stability")]
    assert sum(parts) == pytest.approx(1.0)
    empty = Rewards(Hds(), 3).take(at(1), Outcome((1.0, 0.0, 0.0), (1.0,) * 3, (1.0,) * 3))
    assert empty.scalar == 0.0
    assert empty.metrics["scheduler/share/alignment"] == 0.0


def test_rewards_go_on_exactly_from_what_was_kept() -> None:
    first, again = Rewards(Hds(), 3), Rewards(Hds(), 3)
    for step in range(3):
        first.take(at(step), outcome((0.2, 0.3, 0.5), norm=1.0 + step / 10))
    again.load_state_dict(json.loads(json.dumps(first.state_dict())))
    follow = outcome((0.5, 0.3, 0.2), norm=1.7)
    assert again.take(at(3), follow) == first.take(at(3), follow)
