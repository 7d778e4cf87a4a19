"""summary.json and the lines of the terminal."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from swarmnode.config.settings import Settings, load_settings
from swarmnode.sim.console import duration, progress_line, results_table
from swarmnode.sim.report import compact, summary_as_json, write_report
from swarmnode.sim.summary import REWARDS, Run, summarize
from tests.unit.sim_support import report, swarm

BASELINES = {"bf": 0.1, "arc_1d": None}


def settings(**simulation: int) -> Settings:
    flags = {f"simulation.{name}": value for name, value in simulation.items()}
    return load_settings(flags={"tasks.names": ("bf", "arc_1d"), **flags})


def as_json(*runs: Run, complete: bool = True) -> dict[str, Any]:
    return summary_as_json(
        summarize(runs), runs, settings(), complete=complete, command="c", baselines=BASELINES
    )


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param([], id="nothing"),
        pytest.param([swarm(rounds=1, nodes=1)], id="one round of one node"),
        pytest.param([swarm("0/8", tasks=[f"task_{n}" for n in range(9)])], id="nine tasks"),
        pytest.param([swarm(rounds=5, every=9)], id="short"),
        pytest.param(
            [swarm(name, seed=seed) for name in ("8/0", "6/2", "4/4", "2/6") for seed in (0, 1)],
            id="four variants, two seeds",
        ),
        pytest.param([Run("4/4", 0, [report(0, 1, {})])], id="nothing observed"),
    ],
)
def test_whatever_the_study_three_files_come_of_it(runs: list[Run], tmp_path: Path) -> None:
    path = write_report(
        tmp_path, runs, settings(), complete=False, command="swarmnode", baselines=BASELINES
    )
    assert path == tmp_path / "report.html"
    assert {each.name for each in tmp_path.iterdir()} == {
        "report.html",
        "summary.json",
        "curves.png",
    }
    json.loads((tmp_path / "summary.json").read_text(), parse_constant=pytest.fail)


def test_what_was_not_observed_is_null_and_the_rest_comes_back_as_it_was() -> None:
    summary = as_json(swarm(nodes=1))
    assert summary["variants"][0]["held_out_gain"]["low"] is None
    assert json.loads(compact(summary)) == summary


def test_a_curve_takes_one_line_and_texts_stay_as_they_are() -> None:
    text = compact({"curve": [1.0, 2.0, 3.0], "command": "a  [b\n  c]"})
    assert "[ 1.0, 2.0, 3.0 ]" in text
    assert json.loads(text)["command"] == "a  [b\n  c]"
    with pytest.raises(ValueError, match="not JSON compliant"):
        compact({"mean": math.nan})


def test_a_script_can_bootstrap_the_gain_from_the_file_alone() -> None:
    run = swarm(nodes=3, rounds=20, every=5)
    summary = as_json(run)
    rows = summary["evaluations"]
    assert [(row["node"], row["round"]) for row in rows] == [
        (node, number) for node in range(3) for number in (0, 20)
    ]

    def success(row: dict[str, Any]) -> float:
        held_out: dict[str, str] = row["held_out"]
        shares = [marks.count("1") / len(marks) for marks in held_out.values()]
        return sum(shares) / len(shares)

    gains = [
        success(last) - success(first) for first, last in zip(rows[::2], rows[1::2], strict=True)
    ]
    gain = summary["variants"][0]["held_out_gain"]
    assert sum(gains) / 3 == pytest.approx(gain["mean"], abs=1e-6)
    assert gain["over"] == "nodes"


def test_a_node_evaluated_once_has_one_line_of_marks() -> None:
    reports = [report(0, 0, {}, held_out={"bf": "01"}), report(0, 1, {"bf": 0.5})]
    assert len(as_json(Run("4/4", 0, reports))["evaluations"]) == 1


def test_every_variant_has_the_rewards_by_task_with_intervals() -> None:
    summary = as_json(swarm("8/0"), swarm("4/4"))
    assert summary["tasks"]["bf"] == {"level": "easy", "baseline": 0.1}
    assert summary["tasks"]["arc_1d"]["baseline"] is None
    for variant in summary["variants"]:
        assert set(variant["by_task"]) == {"bf", "arc_1d"}
        for ends in variant["by_task"].values():
            for end in ("start", "end"):
                assert set(ends[end]) == set(REWARDS)
                assert all(set(e) == {"mean", "low", "high", "over"} for e in ends[end].values())
        assert len(variant["curves"]["local"]["mean"]) == variant["rounds"] == 20


def test_a_study_that_was_stopped_says_so() -> None:
    assert as_json(swarm(), complete=False)["complete"] is False


def test_equal_studies_leave_equal_files(tmp_path: Path) -> None:
    contents = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_report(
            tmp_path / name,
            [swarm()],
            settings(),
            complete=True,
            command="swarmnode",
            baselines=BASELINES,
        )
        contents.append({each.name: each.read_bytes() for each in (tmp_path / name).iterdir()})
    assert contents[0] == contents[1]


def test_a_line_of_progress_has_the_rewards_and_the_live_groups() -> None:
    reports = [
        report(0, 37, {"bf": 0.25}, training_set={"bf": 0.5}, live=(2.0, 4.0)),
        report(
            1, 37, {"bf": 0.75}, training_set={"bf": 1.0}, live=(1.0, 3.0), held_out={"bf": "01"}
        ),
    ]
    line = progress_line(37, 300, reports, 3725, start=0.094)
    assert line == (
        "round  37/300  local 0.500  training set 0.750  held-out 0.500 (round 0: 0.094)  "
        "live 1.5 own + 3.5 from peers  1:02:05"
    )


def test_the_first_line_has_the_start_alone_and_later_ones_remember_it() -> None:
    start = report(0, 0, {}, held_out={"bf": "0001"})
    assert progress_line(0, 9, [start], 61) == "round 0/9  held-out 0.250  1:01"
    line = progress_line(1, 9, [start, report(0, 1, {"bf": 0.5}, held_out={"bf": "0011"})], 62)
    assert "local 0.500" in line
    assert "held-out 0.500 (round 0: 0.250)" in line


def test_durations_are_written_as_on_a_clock() -> None:
    assert (duration(0), duration(59.9), duration(3600)) == ("0:00", "0:59", "1:00:00")


def test_the_table_of_results_fits_into_eighty_columns() -> None:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(results_table(summarize([swarm("8/0"), swarm("4/4", nodes=1)])))
    text = captured.get()
    assert "8/0" in text
    assert "0.075 → 0.325" in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(("nodes", "words"), [(1, "Too few nodes"), (3, "Intervals over nodes")])
def test_the_table_says_what_its_intervals_are_over(nodes: int, words: str) -> None:
    assert words in str(results_table(summarize([swarm(nodes=nodes)])).caption)
