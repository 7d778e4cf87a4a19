"""What the log says of a round."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swarmnode.observe.log import _ITEMS
from swarmnode.reports import (
    report_as_json,
    report_from_json,
    report_in_short,
    trained_in_short,
)
from swarmnode.types import RoundReport, TaskRewards, TrainedGroup


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


def test_the_log_tells_of_every_group_of_a_round_even_of_a_very_large_one() -> None:
    peers = [TrainedGroup(f"{n:016x}", "gcd", "gate", "totals") for n in range(64)]
    own = [TrainedGroup("own", task, "none", "own samples") for task in ("gcd", "bf", "gcd")]
    report = RoundReport(0, 7, 1.0, TaskRewards({}), TaskRewards({}), trained=[*own, *peers])
    lines = trained_in_short(report)
    assert lines[0][:2] == [
        "own none (own samples): 2 gcd, bf",
        "0000000000000000 gate (totals): gcd",
    ]
    told = [entry for line in lines for entry in line]
    assert len(told) == 1 + len(peers)
    assert all(any(entry.startswith(each.publisher) for entry in told) for each in peers)
    # What the log cuts of a list or of a text would be lost.
    assert all(len(line) <= _ITEMS for line in lines)
    assert report_from_json(report_as_json(report)).trained == report.trained
    assert trained_in_short(replace(report, trained=())) == []
