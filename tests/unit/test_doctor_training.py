"""The doctor's training step: a real policy host, with what works and with what breaks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from swarmnode.children import policy_child
from swarmnode.config.settings import Settings, load_settings
from swarmnode.doctor import Result, small, training_checks
from swarmnode.process import Child

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def host() -> Iterator[Child]:
    child = policy_child(dict(os.environ), "policy host")
    child.start()
    yield child
    child.close_now()


def test_a_machine_that_can_train_shows_it(host: Child) -> None:
    loaded, stepped = asyncio.run(training_checks(small(Settings()), host))
    assert (loaded.name, loaded.result) == ("model-load", Result.OK)
    assert "tiny with 1" in loaded.found
    assert " on cpu in float32" in loaded.found
    assert (stepped.name, stepped.result) == ("training-step", Result.OK)
    assert "gradient norm" in stepped.found


def test_a_model_that_can_t_be_had_is_found_with_a_fix(host: Child) -> None:
    settings = load_settings(assignments=["policy.model=./nowhere"])
    (loaded,) = asyncio.run(training_checks(settings, host))
    assert (loaded.name, loaded.result) == ("model-load", Result.FAILED)
    assert "docs/models.md" in loaded.fix


def test_a_step_that_teaches_nothing_is_a_failure(host: Child) -> None:
    settings = small(Settings())
    frozen = settings.training.model_copy(update={"normalization": "none"})
    broken = settings.model_copy(
        update={"training": frozen.model_copy(update={"local_advantage": "off"})}
    )
    stepped = asyncio.run(training_checks(broken, host))[-1]
    assert stepped.result is Result.FAILED
    assert stepped.fix


def test_a_host_that_dies_is_a_finding_and_no_exception() -> None:
    dead = Child("swarmnode.nothing", name="policy host")
    (found,) = asyncio.run(training_checks(small(Settings()), dead))
    assert (found.name, found.result) == ("model-load", Result.FAILED)
    assert "not running" in found.found
    dead.close_now()
