"""The statistics of a study, against small cases counted by hand."""

from __future__ import annotations

import math

import pytest

from swarmnode.sim.intervals import Figure, estimate, pooled_mean
from swarmnode.sim.summary import Run, last_round, mean_reward, summarize
from swarmnode.types import RoundReport
from tests.unit.sim_support import report, swarm


def pair(node: int, before: str, after: str) -> list[RoundReport]:
    """A node with one task, evaluated at the start and after its only round."""
    return [
        report(node, 0, {}, held_out={"bf": before}),
        report(node, 1, {"bf": 0.5}, held_out={"bf": after}),
    ]


def test_every_task_weighs_the_same_however_often_it_was_asked() -> None:
    reports = [report(0, 1, {"bf": 1.0}), report(1, 1, {"bf": 1.0, "arc_1d": 0.0})]
    assert mean_reward(reports, "local") == 0.5
    (variant,) = summarize([Run("8/0", 0, reports)])
    assert variant.end["local"].mean == 0.5


def test_the_gain_is_the_last_evaluation_minus_the_first() -> None:
    run = Run("4/4", 0, [*pair(0, "0001", "0111"), *pair(1, "0000", "0011")])
    (variant,) = summarize([run])
    assert variant.start["held_out"].mean == 0.125
    assert variant.end["held_out"].mean == 0.625
    assert variant.held_out_gain.mean == 0.5


def test_an_evaluation_between_counts_for_neither_end() -> None:
    reports = [
        report(0, 0, {}, held_out={"bf": "00"}),
        report(0, 1, {"bf": 0.0}, held_out={"bf": "11"}),
        report(0, 2, {"bf": 0.0}, held_out={"bf": "01"}),
    ]
    (variant,) = summarize([Run("4/4", 0, reports)])
    assert variant.held_out_gain.mean == 0.5


def test_without_a_second_evaluation_no_gain_is_claimed() -> None:
    reports = [report(0, 0, {}, held_out={"bf": "01"}), report(0, 1, {"bf": 0.5})]
    (variant,) = summarize([Run("4/4", 0, reports)])
    assert variant.start["held_out"].mean == 0.5
    assert math.isnan(variant.held_out_gain.mean)
    assert math.isnan(variant.end["held_out"].mean)


def test_the_selection_effect_is_training_set_minus_local_at_the_end() -> None:
    reports = [
        report(0, number, {"bf": 0.2}, training_set={"bf": 0.2 if number < 20 else 0.7})
        for number in range(1, 21)
    ]
    (variant,) = summarize([Run("4/4", 0, reports)])
    # A tenth of twenty rounds is the last two: (0.2 + 0.7) / 2 - 0.2.
    assert variant.selection_effect.mean == pytest.approx(0.25)


def test_local_reward_is_summed_over_rounds_for_each_node() -> None:
    reports = [report(node, number, {"bf": 0.25}) for node in (0, 1) for number in (1, 2, 3)]
    (variant,) = summarize([Run("8/0", 0, reports)])
    assert variant.cumulative_local.mean == pytest.approx(0.75)


def test_over_seeds_the_interval_is_that_of_student() -> None:
    runs = [Run("4/4", seed, pair(0, "0000", after)) for seed, after in enumerate(("0001", "0111"))]
    (variant,) = summarize(runs)
    gain = variant.held_out_gain
    # Values 0.25 and 0.75: deviation 0.5 / sqrt 2, standard error 0.25, t of one degree 12.706.
    assert (gain.mean, gain.over) == (0.5, "seeds")
    assert gain.low == pytest.approx(0.5 - 12.706 * 0.25)
    assert gain.high == pytest.approx(0.5 + 12.706 * 0.25)


def test_beyond_the_table_student_is_near_to_normal() -> None:
    runs = [Figure(1, {"bf": ([float(value)], [1])}) for value in range(25)]
    found = estimate(runs)
    assert found.high - found.mean == pytest.approx(1.96 * 7.3598 / 5, rel=1e-4)


def test_over_the_nodes_of_one_seed_the_interval_is_a_bootstrap() -> None:
    reports = [
        each
        for node in range(8)
        for each in pair(node, "0" * 8, "1" * (node + 1) + "0" * (7 - node))
    ]
    (variant,) = summarize([Run("4/4", 0, reports)])
    gain = variant.held_out_gain
    assert gain.over == "nodes"
    assert gain.mean == pytest.approx(0.5625)
    # Gains 1/8 to 8/8: their deviation is 0.2864, that of a mean of eight 0.1013, times 1.96.
    assert gain.low == pytest.approx(0.5625 - 0.1985, abs=0.02)
    assert gain.high == pytest.approx(0.5625 + 0.1985, abs=0.02)
    assert summarize([Run("4/4", 0, reports)])[0].held_out_gain == gain


def test_nodes_that_agree_leave_an_interval_without_width() -> None:
    reports = [each for node in range(4) for each in pair(node, "01", "11")]
    (variant,) = summarize([Run("4/4", 0, reports)])
    assert variant.held_out_gain.low == variant.held_out_gain.high == 0.5


def test_a_draw_of_nodes_is_pooled_as_the_mean_is() -> None:
    """Node 0 saw both tasks, node 1 one of them: the mean of node means would be 0.75."""
    table = {"bf": ([1.0, 1.0], [1, 1]), "arc_1d": ([0.0, 0.0], [1, 0])}
    assert pooled_mean(table, [1, 1]) == 0.5
    assert pooled_mean(table, [0, 2]) == 1.0
    assert math.isnan(pooled_mean(table, [0, 0]))
    found = estimate([Figure(2, table)])
    assert (found.low, found.mean, found.high) == (0.5, 0.5, 1.0)


def test_one_node_gives_no_interval() -> None:
    (variant,) = summarize([Run("4/4", 0, pair(0, "00", "01"))])
    assert variant.held_out_gain.mean == 0.5
    assert math.isnan(variant.held_out_gain.low)
    assert math.isnan(variant.held_out_gain.high)


def test_a_task_that_one_seed_never_asked_is_left_to_the_others() -> None:
    runs = [
        Run("4/4", 0, [report(0, 1, {"bf": 0.5, "arc_1d": 0.25})]),
        Run("4/4", 1, [report(0, 1, {"bf": 0.5})]),
    ]
    (variant,) = summarize(runs)
    seen_once = variant.end_by_task["arc_1d"]["local"]
    assert seen_once.mean == 0.25
    assert math.isnan(seen_once.low)
    assert variant.end["local"].mean == pytest.approx((0.375 + 0.5) / 2)


def test_curves_are_as_long_as_the_rounds() -> None:
    (variant,) = summarize([swarm(rounds=20, every=10)])
    assert list(variant.curves["local"].rounds) == list(range(1, 21))
    assert list(variant.curves["training_set"].rounds) == list(range(1, 21))
    assert list(variant.curves["held_out"].rounds) == [0, 10, 20]
    assert list(variant.held_out_curves["bf"].rounds) == [0, 10, 20]
    for curve in variant.curves.values():
        assert len(curve.rounds) == len(curve.mean) == len(curve.low) == len(curve.high)


def test_a_band_reaches_from_the_lowest_to_the_highest_node_or_seed() -> None:
    (nodes,) = summarize([Run("4/4", 0, [*pair(0, "00", "01"), *pair(1, "00", "11")])])
    curve = nodes.curves["held_out"]
    assert (curve.low[-1], curve.mean[-1], curve.high[-1]) == (0.5, 0.75, 1.0)
    runs = [Run("4/4", seed, [*pair(0, "00", "01"), *pair(1, "00", "11")]) for seed in (0, 1)]
    (seeds,) = summarize(runs)
    curve = seeds.curves["held_out"]
    assert (curve.low[-1], curve.mean[-1], curve.high[-1]) == (0.75, 0.75, 0.75)


def test_a_task_missing_in_some_rounds_leaves_the_curve_whole() -> None:
    reports = [
        report(0, 1, {"bf": 0.5}),
        report(0, 2, {"arc_1d": 1.0}),
        report(0, 3, {"bf": 0.0, "arc_1d": 1.0}),
    ]
    (variant,) = summarize([Run("4/4", 0, reports)])
    assert list(variant.curves["local"].mean) == [0.5, 1.0, 0.5]
    assert set(variant.end_by_task) == {"bf", "arc_1d"}


def test_seeds_are_compared_over_the_rounds_that_all_have_reached() -> None:
    (variant,) = summarize([swarm(seed=0, rounds=20), swarm(seed=1, rounds=10)])
    assert variant.rounds == 10
    assert variant.curves["held_out"].rounds[-1] == 10


def test_a_run_without_a_whole_round_is_left_out() -> None:
    half = [report(0, 0, {}), report(1, 0, {}), report(0, 1, {"bf": 1.0})]
    assert last_round(half) == 0
    assert summarize([Run("4/4", 0, half)]) == []


def test_variants_keep_the_order_of_their_first_runs() -> None:
    runs = [swarm("8/0"), swarm("4/4"), swarm("8/0", seed=1)]
    found = [(variant.name, list(variant.seeds)) for variant in summarize(runs)]
    assert found == [("8/0", [0, 1]), ("4/4", [0])]


def test_drops_and_live_groups_are_counted_over_all_runs() -> None:
    (variant,) = summarize([swarm(seed=0), swarm(seed=1)])
    assert variant.dropped == {"missing": 6}
    assert variant.live_groups_trained == 3.0
