"""Several reward channels: GDPO's order, batch deviations, floors, shares, and accuracy alone."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import scipy.stats
import torch

from swarmnode.config.training import Training
from swarmnode.observe.training_metrics import CHANNEL_METRICS
from swarmnode.training import Trainer, TrainingGroup
from swarmnode.training.advantages import EPSILON, advantages, group_advantages, reward_matrix
from swarmnode.training.channels import (
    NEAR_CONSTANT,
    SPREAD_MEMORY,
    ChannelSpread,
    channel_matrices,
    rank_correlation,
    round_advantages,
)
from swarmnode.training.plan import plan_round
from swarmnode.types import Source
from tests.unit.training_support import TinyLlama, make_group

NAN = float("nan")
TWO = {"accuracy": 1.0, "length": 0.5}
GDPO = Training(
    reward_aggregation="normalise_then_sum", advantage_scaling="batch", channel_deviation_floor=0.0
)


def group(
    accuracy: Sequence[float],
    length: Sequence[float],
    source: Source = "local",
    task: str = "counting",
) -> TrainingGroup:
    made = make_group(random.Random(len(accuracy)), accuracy, source, task)
    return replace(made, further_channels={"length": tuple(length)})


LIVE = [
    group((1.0, 0.0, 0.0, 1.0), (0.9, 0.1, 0.4, 0.2)),
    group((0.0, 0.0, 1.0, 0.0), (0.5, 0.6, 0.5, 0.7)),
]
DEAD = group((0.0, 0.0, 0.0, 0.0), (0.1, 0.9, 0.4, 0.5))


@pytest.mark.parametrize("baseline", ["peer_group", "receiver_task_mean", "union"])
@pytest.mark.parametrize("scaling", ["group", "none"])
def test_accuracy_alone_gives_bit_for_bit_what_it_gives_without_channels(
    baseline: Any, scaling: Any
) -> None:
    generator = random.Random(3)
    groups = [
        make_group(
            generator,
            [generator.choice((0.0, 1.0, 1.0 / 3.0, NAN)) for _ in range(generator.randint(1, 6))],
            source=generator.choice(("local", "external")),
            task=generator.choice("ab"),
        )
        for _ in range(40)
    ]
    settings = Training(external_baseline=baseline, advantage_scaling=scaling)
    worth = round_advantages(groups, settings)
    expected = advantages(
        reward_matrix(groups),
        [each.source == "external" for each in groups],
        [each.task for each in groups],
        baseline,
        scaling,
    )
    assert torch.equal(worth.values, expected)
    assert torch.equal(worth.credited, expected > 0.0)
    assert worth.metrics == {}


def test_gdpo_normalises_each_channel_in_its_group_then_sums_then_scales_by_the_batch() -> None:
    worth = round_advantages(LIVE, GDPO, TWO)
    accuracy, length = channel_matrices(LIVE, ["accuracy", "length"])
    summed = group_advantages(accuracy) + 0.5 * group_advantages(length)
    expected = summed / (summed.flatten().std() + EPSILON)
    torch.testing.assert_close(worth.values, expected)
    assert worth.values.std() == pytest.approx(1.0, abs=1e-3)


def test_the_batch_is_that_of_live_local_groups_whatever_peers_and_dead_groups_hold() -> None:
    peer = group((1.0, 0.0), (0.0, 1.0), "external")
    alone = round_advantages(LIVE, GDPO, TWO).values
    among = round_advantages([peer, *LIVE, DEAD], GDPO, TWO).values
    torch.testing.assert_close(among[1:3], alone)
    spreads = [round_advantages(given, GDPO, TWO).spread for given in (LIVE, [peer, *LIVE, DEAD])]
    assert spreads[0] == spreads[1]
    assert torch.equal(among[3], torch.zeros(4))
    accuracy, length = (group_advantages(torch.tensor([row])) for row in ((1.0, 0.0), (0.0, 1.0)))
    parts = [group_advantages(each) for each in channel_matrices(LIVE, ["accuracy", "length"])]
    deviation = (parts[0] + 0.5 * parts[1]).flatten().std()
    expected = (accuracy + 0.5 * length) / (deviation + EPSILON)
    torch.testing.assert_close(among[:1, :2], expected)


@pytest.mark.parametrize("aggregation", ["sum_then_normalise", "normalise_then_sum"])
def test_without_a_live_local_group_a_peers_group_is_its_own_batch(aggregation: Any) -> None:
    settings = Training(reward_aggregation=aggregation, advantage_scaling="batch")
    peer = group((1.0, 0.0, 0.0), (0.2, 0.1, 0.3), "external")
    values = round_advantages([peer, DEAD], settings, TWO).values[0, :3]
    assert values.std() == pytest.approx(1.0, abs=1e-2)


def test_the_batchs_deviation_scales_summed_rewards_too() -> None:
    settings = Training(advantage_scaling="batch")
    values = round_advantages([*LIVE, DEAD], settings, TWO).values[:2]
    accuracy, length = channel_matrices(LIVE, ["accuracy", "length"])
    total = accuracy + 0.5 * length
    expected = (total - total.mean(dim=1, keepdim=True)) / (total.flatten().std() + EPSILON)
    torch.testing.assert_close(values, expected)


def test_a_reward_that_is_missing_adds_nothing_and_moves_no_baseline() -> None:
    gap = [replace(LIVE[0], further_channels={"length": (0.9, NAN, 0.4, 0.2)}), LIVE[1]]
    worth = round_advantages(gap, GDPO, TWO)
    length = group_advantages(torch.tensor([[0.9, 0.4, 0.2]]))
    accuracy = group_advantages(torch.tensor([[1.0, 0.0, 0.0, 1.0]]))
    ratio = worth.values[0, 0] / worth.values[0, 1]
    assert ratio == pytest.approx(float((accuracy[0, 0] + 0.5 * length[0, 0]) / accuracy[0, 1]))
    assert bool(worth.values.isfinite().all())


def test_what_a_channel_cannot_judge_is_neither_rewarded_nor_punished_in_a_sum() -> None:
    # Log-odds below 0, as of a reward model that likes none of them: 0 would be the best of all.
    judged = replace(
        LIVE[0], rewards=(1.0, 0.0, 1.0, 0.0), further_channels={"length": (-5.0, -7.0, NAN, -3.0)}
    )
    worth = round_advantages([judged], Training(advantage_scaling="none"), TWO)
    filled = replace(judged, further_channels={"length": (-5.0, -7.0, -5.0, -3.0)})
    expected = round_advantages([filled], Training(advantage_scaling="none"), TWO)
    torch.testing.assert_close(worth.values, expected.values)
    silent = replace(judged, further_channels={"length": (NAN,) * 4})
    alone = round_advantages([silent], Training(advantage_scaling="none"), TWO).values
    torch.testing.assert_close(alone, torch.tensor([[0.5, -0.5, 0.5, -0.5]]))


def test_a_completion_without_accuracy_counts_in_no_channel() -> None:
    unscored = replace(LIVE[0], rewards=(1.0, NAN, 0.0, 1.0))
    for settings in (Training(), GDPO):
        worth = round_advantages([unscored, LIVE[1]], settings, TWO)
        assert worth.values[0, 1] == 0.0
        without = replace(
            unscored,
            rewards=(1.0, 0.0, 1.0),
            further_channels={"length": (0.9, 0.4, 0.2)},
            completions=unscored.completions[:3],
            truncated=(False,) * 3,
        )
        expected = round_advantages([without, LIVE[1]], settings, TWO).values
        torch.testing.assert_close(worth.values[0, [0, 2, 3]], expected[0, :3])


def test_a_channel_that_hardly_differs_is_floored_and_one_that_differs_is_not() -> None:
    nearly = group((1.0, 0.0, 0.0, 1.0), (0.5, 0.5, 0.5, 0.501))
    settings = GDPO.model_copy(update={"channel_deviation_floor": 0.1, "advantage_scaling": "none"})
    weights = {"accuracy": 0.0, "length": 1.0}
    blown_up = round_advantages(
        [nearly], GDPO.model_copy(update={"advantage_scaling": "none"}), weights
    )
    assert blown_up.values[0, 3] > 1.0
    floored = round_advantages([nearly], settings, weights)
    expected = 0.00075 / (NEAR_CONSTANT + EPSILON)
    assert floored.values[0, 3] == pytest.approx(expected, rel=1e-3)
    assert floored.metrics["channels/floored/length"] == 1.0
    assert floored.metrics["channels/floored/accuracy"] == 0.0
    free = round_advantages(LIVE, settings, TWO)
    exact = round_advantages(
        LIVE, settings.model_copy(update={"channel_deviation_floor": 0.0}), TWO
    )
    assert torch.equal(free.values, exact.values)


def test_the_floor_remembers_what_the_channel_was_in_earlier_rounds() -> None:
    settings = GDPO.model_copy(update={"channel_deviation_floor": 0.5, "advantage_scaling": "none"})
    weights = {"accuracy": 0.0, "length": 1.0}
    wide = [group((1.0, 0.0), (1.0, 0.0))] * 3
    narrow = [group((1.0, 0.0), (0.55, 0.45))]
    spread = round_advantages(wide, settings, weights).spread
    fresh = round_advantages(narrow, settings, weights).values[0, 0]
    later = round_advantages(narrow, settings, weights, spread)
    variance = (SPREAD_MEMORY * 0.5 + 0.005) / (SPREAD_MEMORY + 1.0)
    assert later.values[0, 0] == pytest.approx(0.05 / (0.5 * variance**0.5 + EPSILON), rel=1e-4)
    assert later.values[0, 0] < fresh
    again = ChannelSpread.from_values(later.spread.to_values())
    assert again == later.spread
    assert later.spread.after(["length"], torch.zeros(1, 0)) == later.spread


def test_the_shares_of_the_advantages_variance_add_up_and_follow_the_weights() -> None:
    for settings in (Training(), Training(advantage_scaling="batch"), GDPO):
        figures = round_advantages([*LIVE, DEAD], settings, TWO).metrics
        shares = [figures[f"channels/advantage_share/{name}"] for name in TWO]
        assert sum(shares) == pytest.approx(1.0)
        alone = round_advantages(LIVE, settings, {"accuracy": 1.0, "length": 0.0}).metrics
        assert alone["channels/advantage_share/accuracy"] == pytest.approx(1.0)
        more = round_advantages(LIVE, settings, {"accuracy": 1.0, "length": 4.0}).metrics
        assert more["channels/advantage_share/length"] > shares[1]
    # What reward models failed at is counted where they score.
    made = CHANNEL_METRICS.keys() - {"channels/failed", "channels/too_long"}
    assert set(figures) == {f"{figure}/{name}" for figure in made for name in TWO}
    assert figures["channels/mean/accuracy"] == pytest.approx(3 / 12)
    assert "channels/length_correlation/accuracy" in figures
    assert figures["channels/std/length"] == pytest.approx(
        float(torch.tensor([one.further_channels["length"] for one in (*LIVE, DEAD)]).std())
    )


def live_count(settings: Training, weights: Mapping[str, float]) -> tuple[float, float]:
    plan = plan_round([*LIVE, DEAD, replace(DEAD, source="external")], settings, weights)
    return plan.counts["groups/live_local"], plan.counts.get("groups/live_external", 0.0)


def test_a_group_in_which_only_another_channel_differs_is_trained_on_only_if_it_is_wanted() -> None:
    assert live_count(Training(), TWO) == (2.0, 0.0)
    assert live_count(Training(trained_groups="any_channel"), TWO) == (3.0, 0.0)
    assert live_count(Training(trained_groups="any_channel"), {"accuracy": 1.0}) == (2.0, 0.0)
    wanted = GDPO.model_copy(update={"trained_groups": "any_channel"})
    assert bool((round_advantages([*LIVE, DEAD], wanted, TWO).values[2] != 0.0).any())


@pytest.mark.parametrize("settings", [Training(), GDPO])
def test_a_peers_failure_is_never_a_positive_however_well_it_does_in_other_channels(
    settings: Training,
) -> None:
    peer = group((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), "external")
    heavy = {"accuracy": 1.0, "length": 5.0}
    worth = round_advantages([*LIVE, peer], settings, heavy)
    assert worth.values[2, 1] > 0.0
    plan = plan_round([*LIVE, peer], settings, heavy)
    assert not [row for row in plan.rows if row.external]
    fair = plan_round([*LIVE, peer], settings, {"accuracy": 5.0, "length": 1.0})
    (row,) = [row for row in fair.rows if row.external]
    assert [one.token_ids for one in row.completions] == [peer.completions[0]]


def test_a_trainer_that_is_restored_goes_on_with_the_channels_running_deviation() -> None:
    settings = GDPO.model_copy(update={"channel_deviation_floor": 1.0})
    model, twin = TinyLlama(0), TinyLlama(0)
    trainer, resumed = (Trainer(each, settings, 1.0, TWO) for each in (model, twin))
    trainer.step(LIVE)
    twin.llama.load_state_dict(model.llama.state_dict())
    resumed.load_state_dict(trainer.state_dict())
    narrow = [replace(LIVE[0], further_channels={"length": (0.5, 0.52, 0.5, 0.49)}), LIVE[1]]
    reports = [each.step(narrow).metrics for each in (trainer, resumed)]
    assert reports[0] == reports[1]
    assert reports[0]["channels/floored/length"] > 0.0
    assert torch.equal(model.vector(), twin.vector())
    assert resumed.state_dict()["channel_spread"] == trainer.state_dict()["channel_spread"]


def test_what_a_channel_pays_for_length_is_seen_within_groups_alone() -> None:
    nan = torch.nan
    lengths = torch.tensor([[1.0, 2.0, 3.0, nan], [11.0, 12.0, 12.0, 10.0]])
    short = torch.tensor([[0.9, 0.8, 0.1, nan], [5.0, 2.0, 2.0, 7.0]])
    assert rank_correlation(short, lengths) == pytest.approx(-1.0)
    assert rank_correlation(-short, lengths) == pytest.approx(1.0)
    # Longer questions that are paid better say nothing of lengths within their groups.
    by_question = torch.tensor([[1.0, 1.0, 1.0, nan], [2.0, 2.0, 2.0, 2.0]])
    assert rank_correlation(by_question, lengths) is None
    unknown = torch.tensor([[nan, nan, nan, nan], [5.0, nan, 2.0, 1.0]])
    expected = scipy.stats.spearmanr([5.0, 2.0, 1.0], [11.0, 12.0, 10.0]).statistic
    assert rank_correlation(unknown, lengths) == pytest.approx(expected)
