"""Agents on a toy whose best mixture a grid knows; more arms in benchmarks/scheduling_toy.py."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

import pytest
import torch

from swarmnode.config.settings import load_settings
from swarmnode.scheduling.agent.build import Scheduled, build
from swarmnode.scheduling.fixed import Drawn, Static
from swarmnode.scheduling.scheduler import Scheduler
from tests.unit.scheduling_toy import STEPS, grid, train

WITHIN = 1.1
SOONER = "scheduling.hds.warmup_batches=1"
AS_PUBLISHED = (
    "scheduling.hds.alignment=zscore",
    "scheduling.hds.scalarisation=mean",
    "scheduling.hds.diversity_weight=0",
    "scheduling.hds.stability_weight=0",
)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """As in the policy host: threads only wait for one another in networks this small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@cache
def best() -> float:
    """The loss of the grid's best mixture."""
    return min(train(Static(mixture), 0).loss for mixture in grid())


def scheduler(seed: int, *assignments: str, kind: str = "hds") -> Scheduler:
    settings = load_settings(
        assignments=[
            f"scheduling.kind={kind}",
            "scheduling.minimum_share=0",
            SOONER,
            *assignments,
        ]
    )
    scheduled = Scheduled(
        domains=3, layers=1, model_parameters=800_000, total_steps=STEPS, seed=seed
    )
    return build(settings.scheduling, scheduled)


@pytest.mark.parametrize("seed", range(5))
def test_the_agent_comes_within_a_tenth_of_the_best_static_mixture(seed: int) -> None:
    assert train(scheduler(seed), seed).loss <= WITHIN * best()


@pytest.mark.parametrize("seed", range(5))
def test_a_frozen_agent_and_drawn_weights_do_not(seed: int) -> None:
    frozen = scheduler(seed, "scheduling.hds.updates_per_step=0")
    assert train(frozen, seed).loss > WITHIN * best()
    assert train(Drawn(3, random.Random(seed)), seed).loss > WITHIN * best()


def test_with_the_published_codes_reward_the_agent_cannot() -> None:
    assert train(scheduler(0, *AS_PUBLISHED), 0).loss > WITHIN * best()


def test_the_grid_tells_the_three_domains_apart() -> None:
    losses = {mixture: train(Static(mixture), 0).loss for mixture in grid(2)}
    helpful, harmful = losses[1.0, 0.0, 0.0], losses[0.0, 0.0, 1.0]
    assert helpful < WITHIN * best() < losses[0.5, 0.0, 0.5] < harmful
