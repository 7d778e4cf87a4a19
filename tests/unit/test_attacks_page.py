"""The attack lab's study: its protocol holds together, and its page is made of rows."""

from __future__ import annotations

import pickle
from pathlib import Path

from swarmnode.sim.attacks.measures import answer_figures, training_figures
from swarmnode.types import Completion, Evaluation, Question, RoundReport, TaskRewards
from tests.benchmarks.attacks_protocol import ARMS, ROUNDS, SEEDS, LabRun, all_runs, by_name, nobody
from tests.benchmarks.attacks_rows import Row, row_of
from tests.benchmarks.attacks_tables import BLOCKS, render
from tests.benchmarks.sharing_markdown import fill

PAGE = Path(__file__).parents[2] / "docs" / "results" / "attacks.md"


def test_every_arm_is_compared_with_one_that_is_run() -> None:
    assert len(by_name()) == len(ARMS)
    assert len(list(all_runs())) == len(ARMS) * len(SEEDS)
    for arm in ARMS:
        beside = by_name()[nobody(arm.beside).name]
        # As little else as possible: the victims have no twin without attackers.
        assert beside.tasks == arm.tasks
        pickle.dumps(LabRun(arm, SEEDS[0]).simulated)


def reports(right: int, mark: str = "") -> list[RoundReport]:
    question = Question("basic_arithmetic", "easy", 0, "?", "1")
    figures = answer_figures([question], [Completion(f"{mark}1", "stop", 5)])
    made = []
    for number in range(ROUNDS + 1):
        evaluated = number in (0, ROUNDS)
        marks = {"basic_arithmetic": ("1" * (right if number else 2)).ljust(10, "0")}
        made.append(
            RoundReport(
                node=0,
                round=number,
                clock_seconds=2.0 * number,
                local=TaskRewards({}),
                training_set=TaskRewards({}),
                evaluation=Evaluation(marks, marks) if evaluated else None,
                metrics={
                    **(figures if evaluated else {}),
                    **training_figures([], (), positive=True),
                    "mix/external_groups": 3.0,
                },
                dropped={"too_long": 1} if mark else {},
            )
        )
    return made


def rows() -> list[Row]:
    arm = by_name()["out-of-context_2_bare"]
    return [
        row_of(LabRun(each, seed), reports(right, mark))
        for each, right, mark in ((nobody("bare"), 6, ""), (arm, 1, "\n"))
        for seed in SEEDS[:2]
    ]


def test_a_row_tells_start_from_end() -> None:
    row = rows()[-1]
    assert row["held_out"] == {"start": 0.2, "end": 0.1}
    assert row["said"]["mark"]["end"] == 1.0
    assert row["honest_groups"] == 3.0
    assert row["round_seconds"] == 2.0
    assert row["dropped"] == {"too_long": ROUNDS + 1}


def test_the_page_shows_the_difference_to_the_same_swarm_without_attackers() -> None:
    page = fill(PAGE.read_text("utf-8"), render(rows()), "attacks")
    (line,) = [
        line for line in page.splitlines() if line.startswith("| `out-of-context` | 2 | bare")
    ]
    assert "| 20.0 → 10.0 | −50.0 (−50.0 to −50.0) | 3.00 |" in line
    assert "| 100.0 |" in line
    assert f"too_long {ROUNDS + 1}" in page
    assert "Over seeds 300, 301; 3 were planned." in page


def test_a_page_of_nothing_renders() -> None:
    assert set(render([])) == set(BLOCKS)
