"""Advantages: within the group, against our own mean, over the union; and what is exactly zero."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from swarmnode.training.advantages import (
    advantages,
    group_advantages,
    live_groups,
    mean_and_deviation,
    reward_matrix,
)
from tests.unit.training_support import make_group

NAN = math.nan


def test_advantages_are_centred_and_divided_by_the_unbiased_deviation() -> None:
    rewards = torch.tensor([[1.0, 0.0, 0.0, 1.0, 0.0]])
    deviation = math.sqrt((2 * 0.36 + 3 * 0.16) / 4)
    expected = torch.tensor([[0.6, -0.4, -0.4, 0.6, -0.4]]) / (deviation + 1e-4)
    torch.testing.assert_close(group_advantages(rewards), expected)
    unscaled = group_advantages(rewards, "none")
    torch.testing.assert_close(unscaled, torch.tensor([[0.6, -0.4, -0.4, 0.6, -0.4]]))


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 0.7, 1.0])
@pytest.mark.parametrize("scaling", ["group", "none"])
@pytest.mark.parametrize("baseline", ["peer_group", "receiver_task_mean", "union"])
def test_an_all_equal_group_gets_exactly_zero(value: float, scaling: str, baseline: str) -> None:
    rewards = torch.tensor([[value] * 8, [1.0, 0.0] * 4], dtype=torch.float32)
    result = advantages(rewards, [True, False], ["a", "a"], baseline, scaling)  # type: ignore[arg-type]
    assert torch.equal(result[0], torch.zeros(8))
    assert result[1].abs().min() > 0.0
    assert live_groups(rewards).tolist() == [False, True]


def test_float_noise_between_equal_rewards_is_no_signal() -> None:
    rewards = torch.tensor([[0.1, 0.1, 0.1 + 5e-7, 0.1], [0.1, 0.1, 0.1 + 1e-5, 0.1]])
    assert live_groups(rewards).tolist() == [False, True]
    assert torch.equal(group_advantages(rewards)[0], torch.zeros(4))


def test_an_unscorable_completion_gets_zero_and_moves_no_baseline() -> None:
    with_gap = group_advantages(torch.tensor([[1.0, NAN, 0.0, 0.0]]))
    without = group_advantages(torch.tensor([[1.0, 0.0, 0.0]]))
    assert with_gap[0, 1] == 0.0
    torch.testing.assert_close(with_gap[0, [0, 2, 3]], without[0])


@pytest.mark.parametrize("row", [[NAN] * 4, [NAN, 1.0, NAN, NAN]])
def test_with_fewer_than_two_scores_a_group_is_dead_and_finite(row: list[float]) -> None:
    rewards = torch.tensor([row])
    assert not live_groups(rewards).item()
    assert torch.equal(group_advantages(rewards), torch.zeros(1, 4))


def test_groups_of_unlike_size_share_a_matrix_without_touching_each_other() -> None:
    generator = random.Random(0)
    small, large = make_group(generator, (1.0, 0.0)), make_group(generator, (1.0, 0.0, 0.0, 1.0))
    together = group_advantages(reward_matrix([small, large]))
    torch.testing.assert_close(together[0, :2], group_advantages(reward_matrix([small]))[0])
    torch.testing.assert_close(together[1], group_advantages(reward_matrix([large]))[0])
    assert reward_matrix([]).shape == (0, 1)


def test_a_truncated_completion_is_a_failure_whatever_was_reported() -> None:
    group = make_group(random.Random(1), (1.0, 1.0, 0.0))
    cut = dataclasses.replace(group, truncated=(False, True, False))
    assert reward_matrix([cut]).tolist() == [[1.0, 0.0, 0.0]]


def test_the_receivers_task_mean_is_that_of_its_own_completions_of_the_task() -> None:
    rewards = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]])
    result = advantages(
        rewards, [False, False, True], ["a", "a", "a"], "receiver_task_mean", "group"
    )
    _, deviation = mean_and_deviation(rewards[2:])
    torch.testing.assert_close(result[2:], (rewards[2:] - 1 / 8) / (deviation + 1e-4))
    torch.testing.assert_close(result[:1], group_advantages(rewards[:1]))


def test_without_own_completions_of_the_task_the_peers_group_is_its_own_baseline() -> None:
    rewards = torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]])
    result = advantages(rewards, [False, True], ["a", "b"], "receiver_task_mean", "group")
    torch.testing.assert_close(result, group_advantages(rewards))


def test_the_union_is_all_completions_of_the_task_from_everyone() -> None:
    rewards = torch.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    result = advantages(rewards, [False, True, True, True], ["a", "a", "a", "b"], "union", "group")
    mean, deviation = mean_and_deviation(rewards[:3].reshape(1, -1))
    torch.testing.assert_close(result[2:3], (rewards[2:3] - mean) / (deviation + 1e-4))
    assert torch.equal(result[1], torch.zeros(2))
    torch.testing.assert_close(result[[0, 3]], group_advantages(rewards[[0, 3]]))


@given(
    st.lists(
        st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0, NAN]), min_size=4, max_size=4),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(["peer_group", "receiver_task_mean", "union"]),
    st.randoms(use_true_random=False),
)
def test_advantages_are_finite_and_follow_their_group_wherever_it_stands(
    rows: list[list[float]], baseline: str, generator: random.Random
) -> None:
    external = [generator.random() < 0.5 for _ in rows]
    tasks = [generator.choice("ab") for _ in rows]
    rewards = torch.tensor(rows)
    result = advantages(rewards, external, tasks, baseline, "group")  # type: ignore[arg-type]
    assert bool(result.isfinite().all())
    order = list(range(len(rows)))
    generator.shuffle(order)
    moved = advantages(
        rewards[order],
        [external[index] for index in order],
        [tasks[index] for index in order],
        baseline,  # type: ignore[arg-type]
        "group",
    )
    torch.testing.assert_close(moved, result[order], rtol=1e-5, atol=1e-6)
    own = [index for index, foreign in enumerate(external) if not foreign]
    assert torch.equal(result[own], group_advantages(rewards[own]))
