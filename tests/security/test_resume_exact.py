"""Half of the rounds, a new process and the other half equal all of them, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from swarmnode.hosted_policy import HostedPolicy
from tests.unit.resume_support import digests, order, rounds, saved

CHOSEN: dict[str, dict[str, Any]] = {
    "a falling rate and a reference": {
        "schedule": "cosine",
        "schedule_steps": 20,
        "warmup_steps": 3,
        "kl_weight": 0.2,
        "entropy_weight": 0.01,
    },
    "tokens drawn by step": {
        "covariance": "clip",
        "covariance_low": -9.0,
        "covariance_share": 0.3,
        "external_advantage": "shaped",
    },
    "sequences within a limit of memory": {
        "ratio_level": "sequence",
        "clip_low": 3e-4,
        "clip_high": 4e-4,
        "normalization": "sequences",
        "activation_mib": 1,
        "micro_batch_tokens": 40,
        "external_advantage": "both",
    },
}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Sums of several threads may differ in their last bit from those of one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", CHOSEN)
def test_resuming_is_exact_with_all_that_a_step_depends_on(name: str, tmp_path: Path) -> None:
    settings = CHOSEN[name]
    whole = HostedPolicy(order(**settings))
    rounds(whole, range(3))
    saved(whole, tmp_path / "half")
    second = rounds(whole, range(3, 6))
    end = saved(whole, tmp_path / "whole")

    resumed = HostedPolicy(order(seed=99, **settings))
    assert resumed.restore(str(tmp_path / "half"))["restored"]["version"] > 0
    assert rounds(resumed, range(3, 6)) == second
    again = saved(resumed, tmp_path / "resumed")
    assert (again.name, digests(again)) == (end.name, digests(end))
