"""The page of smollm2-135m's training: made of what was measured, and of nothing else."""

from __future__ import annotations

import json

from tests.benchmarks.learning import MEASURED, PAGE, command, render

START, END = "0" * 10, "1" * 5 + "0" * 5


def test_gains_are_paired_by_question_and_averaged_over_seeds() -> None:
    marks = {"sampled": [START, END], "greedy": [START, START]}
    lines = render({"0": marks, "1": marks}).splitlines()[2:]
    assert [line.split(" | ")[2:5] for line in lines[:3]] == [["0.0", "50.0", "+50.0"]] * 3
    assert lines[-1].startswith("| **greedy** | all 2 | 0.0 | 0.0 | 0.0 | 0.0 to 0.0")


def test_the_page_is_that_of_the_figures_and_of_the_command() -> None:
    page = PAGE.read_text("utf-8")
    assert render(json.loads(MEASURED.read_text("utf-8"))) in page
    words = command(0)
    for name in ("--model", "--rounds", "--mix", "--nodes"):
        assert f"{name} {words[words.index(name) + 1]}" in page
    for setting in (each for each in words if "=" in each and "every_rounds" not in each):
        assert setting in page
