"""M9: whatever a seed lets go wrong, no group is trained on twice, nobody honest is muted, and a
swarm whose faults have ended is one again.

`python -m pytest -m real -k for_every_seed` takes 200 seeds; a failure names its seed, which is
enough to have it again: `python -m tests.security.test_fault_seeds SEED`.
"""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from swarmnode.selection.remembered import Remembered
from tests.security.fault_support import CALM_ROUNDS, ROUNDS, Swarm, faulty_swarm

SEEDS = 200
IN_THE_SUITE = 6


def check(seed: int) -> Swarm:
    """Raises AssertionError that names the seed."""
    swarm = faulty_swarm(seed)
    for node in swarm.nodes:
        where = f"seed {seed}, node {node.number}"
        twice = [each for each, times in node.trained.items() if times > 1]
        assert not twice, f"{where}: trained twice on {twice}"
        assert node.muted == [], f"{where}: muted {node.muted}"
        if node.skew_seconds:
            continue
        for other in swarm.nodes:
            if other is node or other.skew_seconds:
                continue
            last = node.last.get(other.identity.public_key, -1)
            assert last >= ROUNDS + 1, f"{where}: nothing of node {other.number} since {last}"
    return swarm


def check_all(seeds: int) -> Counter[str]:
    """What went wrong, and what was dropped of it, over the first seeds."""
    counts: Counter[str] = Counter()
    for seed in range(seeds):
        swarm = check(seed)
        counts += swarm.faults.counts
        for node in swarm.nodes:
            counts += Counter({f"dropped/{why}": n for why, n in node.collector.dropped.items()})
    return counts


def test_invariants_hold_under_the_faults_of_a_few_seeds_and_these_are_of_every_kind() -> None:
    counts = check_all(IN_THE_SUITE)
    kinds = ("lost", "repeated", "unanswered", "cut short", "partitions", "restarts")
    assert all(counts[kind] > 0 for kind in kinds), counts
    assert counts["dropped/expired"] + counts["dropped/from_the_future"] > 0


def test_a_node_that_forgets_what_it_accepted_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Remembered, "of_an_earlier_life", lambda *_: False)
    with pytest.raises(AssertionError, match="trained twice"):
        check_all(IN_THE_SUITE)


@pytest.mark.real
@pytest.mark.timeout(3600)
def test_invariants_hold_for_every_seed() -> None:
    counts = check_all(SEEDS)
    print(f"{SEEDS} seeds of {ROUNDS} rounds and {CALM_ROUNDS} without faults: {dict(counts)}")


if __name__ == "__main__":
    check(int(sys.argv[1]))
