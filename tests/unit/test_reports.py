"""What the log says of a round."""

from __future__ import annotations

import pytest

from swarmnode.reports import report_in_short
from swarmnode.types import RoundReport, TaskRewards


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ({"gate": 2.0, "positive": 1.0, "full": 0.0}, "2 gate, 1 positive"),
        ({"gate": 0.0}, None),
        ({}, None),
    ],
)
def test_the_log_tells_how_many_groups_of_peers_got_which_correction(
    counts: dict[str, float], told: str | None
) -> None:
    mixed = {"mix/external_groups": 3.0, "mix/external_peers": 2.0}
    levels = {f"corrections/{level}": count for level, count in counts.items()}
    rewards = TaskRewards({"counting": 0.5})
    report = RoundReport(0, 7, 1.0, rewards, rewards, metrics={**mixed, **levels})
    assert report_in_short(report, 2.5, alone=False).get("corrections") == told
    assert "corrections" not in report_in_short(report, 2.5, alone=True)
