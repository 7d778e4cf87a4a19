"""How many threads a policy host computes with, and what that leaves alone."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from swarmnode.children import THREAD_VARIABLES, policy_child
from swarmnode.config.policy import PolicySettings
from swarmnode.hosted_policy import HostedPolicy
from swarmnode.worker import computing_threads
from tests.unit.resume_support import order, saved


@pytest.mark.parametrize("threads", [1, 3])
def test_a_host_is_started_with_as_many_threads_as_are_asked_for(threads: int) -> None:
    child = policy_child({"OMP_NUM_THREADS": "7"}, "policy host", threads)
    child.start()
    try:
        assert child.process_id is not None
        environment = psutil.Process(child.process_id).environ()
    finally:
        child.close_now()
    assert {environment[name] for name in THREAD_VARIABLES} == {str(threads)}
    assert computing_threads(environment) == threads


def test_a_host_that_nobody_told_computes_with_one() -> None:
    assert computing_threads({}) == 1


def test_tiny_always_has_one_and_any_other_model_what_is_set() -> None:
    assert PolicySettings(model="tiny", threads=2).host_threads == 1
    assert PolicySettings(model="smollm2-135m", threads=2).host_threads == 2
    assert PolicySettings(model="smollm2-135m").host_threads == 1


def test_a_checkpoint_goes_on_under_another_number_of_threads(tmp_path: Path) -> None:
    path = saved(HostedPolicy(order()), tmp_path)
    policy = order()["policy"] | {"threads": 2}
    other = HostedPolicy(order() | {"policy": policy})
    assert other.restore(str(tmp_path))["restored"]["path"] == str(path)
