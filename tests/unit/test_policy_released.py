"""Memory between phases: given back to the machine, and nothing of what is computed changes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from swarmnode.hosted_policy import HostedPolicy
from swarmnode.policy import released
from swarmnode.policy.released import ReleasingEngine, release_memory
from tests.unit.resume_support import order, rounds

CPU = torch.device("cpu")


def resident() -> int:
    """Bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_freed_tensors_behind_which_others_live_are_given_back() -> None:
    # Short of what glibc maps apart, so that the last one, which lives, pins all of them.
    tensors = [torch.ones(20_000) for _ in range(1500)]
    last = torch.ones(20_000)
    held = resident()
    del tensors
    assert release_memory(CPU)
    assert held - resident() > 60 * 2**20
    assert last.sum() == 20_000


def test_a_policy_that_releases_samples_and_learns_the_same_and_releases_after_each_phase(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[torch.device] = []

    def released_for(device: torch.device) -> bool:
        calls.append(device)
        return release_memory(device)

    kept = HostedPolicy(order())
    made: dict[str, Any] = order()
    giving = HostedPolicy(made | {"policy": made["policy"] | {"release_memory": True}})
    assert isinstance(giving._policy.engine, ReleasingEngine)
    assert giving._policy.engine.name == kept._policy.engine.name
    monkeypatch.setattr(released, "release_memory", released_for)
    monkeypatch.setattr("swarmnode.hosted_policy.release_memory", released_for)
    expected = rounds(kept, range(2))
    assert not calls
    assert rounds(giving, range(2)) == expected
    assert calls == [CPU] * 4
