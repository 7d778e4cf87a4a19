"""The study "GRPO against DPO" from end to end, short: both trainings and the real judgement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swarmnode.home import Home
from tests.benchmarks.dpo_baseline import SeedFolder
from tests.benchmarks.dpo_protocol import TASKS, TRY_ROUNDS, runs_of, settings_for
from tests.benchmarks.dpo_sampling import asked_questions

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
]


def test_both_arms_of_a_seed_have_one_start_one_budget_and_the_same_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWARMNODE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path / "no-home"))
    (run,) = runs_of("try")
    row = SeedFolder(run, tmp_path).row()
    (grpo,), (dpo,) = row["grpo"].values(), row["dpo"].values()
    assert 0 < grpo["steps"] == dpo["steps"] <= TRY_ROUNDS
    assert dpo["margin"] > 0
    learned = row["judged"]
    assert learned["steps"] > 0
    assert 0.0 <= learned["accuracy"] <= 1.0
    assert learned["against_dpo"]["a"]["checkpoint"]
    judged = row["grpo_against_dpo"]
    assert judged["same_tokenizer"]
    assert list(judged["tasks"]) == list(TASKS)
    manner = ("temperature", "max_new_tokens", "examples")
    assert [judged["a"][each] for each in manner] == [judged["b"][each] for each in manner]
    starts = [each["against_start"]["mean"]["success"]["b"] for each in (grpo, dpo)]
    assert starts[0] == starts[1]
    # A run takes its tasks by chance: twice as many of each hold all that it asked.
    home = Home(tmp_path / "try" / f"seed-{run.seed}" / f"grpo-{next(iter(run.rates['grpo'])):g}")
    settings = settings_for("tiny")
    known = {each.text for each in asked_questions(settings, run.seed, home, 2 * run.questions)}
    lines = (home.log / "daemon.jsonl").read_text("utf-8").splitlines()
    asked = {entry["question"] for line in lines if "question" in (entry := json.loads(line))}
    assert len(asked) >= TRY_ROUNDS - 1
    assert asked <= known
