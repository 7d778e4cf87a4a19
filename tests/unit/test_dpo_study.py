"""The study "GRPO against DPO": its pairs, its protocol and its page; nothing is trained."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import typer.main

from swarmnode.cli import app
from swarmnode.config.settings import load_settings
from swarmnode.reward_models.comparisons import read_comparisons
from swarmnode.types import Completion, Group, PolicyInfo, Question, Scored
from tests.benchmarks.dpo_page import PAGE, RESULTS, best_rate, make_page, render
from tests.benchmarks.dpo_pairs import Pair, line_of, pairs_of
from tests.benchmarks.dpo_protocol import (
    COMPLETIONS,
    DEVELOPMENT_SEEDS,
    GROUPS,
    JUDGE,
    MAIN_SEEDS,
    PAIRS_PER_STEP,
    RATES,
    ROUNDS,
    SETTINGS,
    TASKS,
    SeedRun,
    compare_command,
    grpo_command,
    judge_command,
    paid_by,
    runs_of,
    settings_for,
)
from tests.benchmarks.dpo_sampling import first_indices
from tests.benchmarks.sharing_markdown import fill
from tests.benchmarks.study_rows import read_rows

RUN = SeedRun("main", 100, {"grpo": [1e-3], "dpo": [1e-4]})


def scored(answers: list[tuple[str, float]], cut: frozenset[str] = frozenset()) -> Scored:
    completions = tuple(
        Completion(text, "length" if text in cut else "stop", 1) for text, _ in answers
    )
    group = Group(Question("t", "easy", 0, "q?", "1"), completions, b"", PolicyInfo("", 0, b""))
    return Scored(group, tuple(score for _, score in answers), "local", 0.0)


def test_pairs_are_a_right_answer_and_a_wrong_one_each_pair_once() -> None:
    group = scored([("1", 1.0), ("1", 1.0), ("2", 0.0), ("2", 0.0), ("3", 0.5), ("01", 0.99)])
    pairs = pairs_of([group], 10, random.Random(0))
    assert set(pairs) == {Pair("q?", right, wrong) for right in ("1", "01") for wrong in ("2", "3")}
    assert len(pairs) == 4
    assert len(pairs_of([group, group], 3, random.Random(0))) == 6


def test_groups_without_both_kinds_of_whole_answers_give_none() -> None:
    some = [[("1", 1.0), ("1", 1.0)], [("2", 0.0), ("3", 0.0)]]
    assert pairs_of([scored(each) for each in some], 4, random.Random(0)) == []
    cut = scored([("1", 1.0), ("2", 0.0)], cut=frozenset({"2"}))
    assert pairs_of([cut], 4, random.Random(0)) == []


def test_both_methods_have_the_same_budget_and_as_many_rates() -> None:
    assert 2 * PAIRS_PER_STEP == GROUPS * COMPLETIONS
    assert RUN.questions * len(TASKS) == ROUNDS * GROUPS
    settings = settings_for("tiny")
    assert settings.rounds.local_groups_per_round == GROUPS
    assert settings.rounds.completions_per_group == COMPLETIONS
    assert len(RATES["grpo"]) == len(RATES["dpo"])


def test_seeds_that_choose_are_not_seeds_that_judge() -> None:
    assert not set(DEVELOPMENT_SEEDS) & set(MAIN_SEEDS)
    assert [run.seed for run in runs_of("development")] == list(DEVELOPMENT_SEEDS)
    (trial,) = runs_of("try")
    assert trial.seed in DEVELOPMENT_SEEDS


@pytest.mark.parametrize(
    "words",
    [
        grpo_command(Path("start"), RUN, 1e-3, Path("out")),
        grpo_command(Path("start"), RUN, 1e-3, Path("out"), Path("judge")),
        judge_command(Path("pairs.jsonl"), RUN, Path("judge")),
        compare_command(Path("a"), Path("b"), RUN),
    ],
    ids=["grpo", "grpo-judged", "judge", "compare"],
)
def test_the_commands_are_ones_that_the_program_has(words: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    while words[0] in getattr(command, "commands", {}):
        name, *words = words
        command = command.commands[name]
    command.make_context(name, words)


def test_a_judge_of_the_same_pairs_pays_alone(tmp_path: Path) -> None:
    settings = load_settings(assignments=[*SETTINGS, *paid_by(tmp_path / "judge")])
    assert settings.rewards.channels.weights == {"accuracy": 0.0, JUDGE: 1.0}
    (judge,) = settings.rewards.channels.models
    assert judge.model == str(tmp_path / "judge")
    assert settings.training.trained_groups == "any_channel"
    file = tmp_path / "pairs.jsonl"
    pair = Pair("q?\n", "1", "2\u2028")
    file.write_text(line_of(pair) * 2, encoding="utf-8")
    found = read_comparisons(file).every
    assert [(one.prompt, one.better, one.worse) for one in found] == [("q?\n", "1", "2\u2028")] * 2


def test_where_a_run_began_its_streams_follows_from_its_seed_and_its_home() -> None:
    rng = random.Random("5/indices")
    second, first = rng.randrange(2**30), rng.randrange(2**30)
    spent = {f"key/swarm/{TASKS[0]}/easy": first + 256, f"key/swarm/{TASKS[1]}/easy": second + 9}
    text = f"digest\n{json.dumps({'sequences': {}, 'indices': spent})}"
    assert first_indices(5, text, TASKS) == {TASKS[0]: first, TASKS[1]: second}
    with pytest.raises(ValueError, match="began nowhere that seed 6 gives"):
        first_indices(6, text, TASKS)


def compared(success: float) -> dict[str, Any]:
    interval = {"mean": success, "low": success - 0.1, "high": success + 0.1}
    figure = {"a": {"mean": 0.5 + success}, "b": {"mean": 0.5}, "difference": interval}
    rail = {"a": 0.1, "b": None, "verdict_a": "warn", "verdict_b": "normal"}
    figures = dict.fromkeys(("success", "greedy", "tokens", "characters"), figure)
    return {"mean": figures, "guard_rails": {"truncated": rail}}


def row(seed: int, gap: float) -> dict[str, Any]:
    figures = {"steps": 290, "pairs": 3000, "epochs": 3.1, "margin": 0.5, "tokens": 70_000}
    return {
        "stage": "main",
        "seed": seed,
        "grpo": {"0.001": {"steps": 290, "tokens": 60_000, "against_start": compared(gap)}},
        "dpo": {"0.0001": {**figures, "against_start": compared(0.0)}},
        "grpo_against_dpo": compared(gap),
        "judged": {
            "steps": 300,
            "accuracy": 0.7,
            "length_correlation": None,
            "against_dpo": compared(-0.2),
            "against_start": compared(-0.1),
        },
        "seconds": 200,
    }


@pytest.mark.parametrize(
    ("gaps", "words"),
    [
        ([0.05, 0.06, 0.04], "confirmed"),
        ([-0.05, -0.06, -0.04], "contradicted"),
        ([0.05, -0.06, 0.04], "not decided"),
    ],
)
def test_the_page_says_what_the_seeds_say(gaps: list[float], words: str) -> None:
    blocks = render([row(100 + place, gap) for place, gap in enumerate(gaps)])
    assert f"The claim is {words}" in blocks["methods"]
    page = fill(PAGE.read_text("utf-8"), blocks, "dpo")
    assert "| `truncated` | 0.100 | – | 3 | 0 |" in page
    assert "| GRPO by reward model - DPO | sampled answers right | 30.0 | 50.0 | −20.0 |" in page
    assert "| 100 | 300 | 70.0 | – |" in page
    assert "[dpo.json](dpo.json)" in page
    assert "Over the seeds 100, 101, 102." in page
    assert "Not run." not in page.split("## Result")[1]


def test_the_rate_that_development_chose_is_the_best_over_its_seeds() -> None:
    def at(*gaps: float) -> dict[str, Any]:
        rates = ("0.0002", "0.0006", "0.002")
        return {
            "grpo": {
                rate: {"against_start": compared(gap)}
                for rate, gap in zip(rates, gaps, strict=True)
            }
        }

    rows = [at(0.0, 0.1, 0.3), at(0.0, 0.3, 0.0)]
    assert best_rate(rows, "grpo", (2e-4, 6e-4, 2e-3)) == 6e-4
    assert best_rate([at(0.1, 0.1, 0.0)], "grpo", (2e-4, 6e-4, 2e-3)) == 2e-4


def test_the_page_says_what_was_tried_and_where_the_best_lies_at_the_edge(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "choices.json"
    monkeypatch.setattr("tests.benchmarks.dpo_page.CHOICES", place)
    assert render([])["rates"] == "Not run."
    tried = {method: {str(rate): 0.5 + rate for rate in rates} for method, rates in RATES.items()}
    chosen = {"grpo": 6e-4, "dpo": 2e-5}
    place.write_text(json.dumps({"chosen": chosen, "tried": tried}), encoding="utf-8")
    told = render([])["rates"]
    assert "| grpo | 6e-4 | 50.1 | taken |" in told
    assert "| dpo | 6e-5 | 50.0 |  |" in told
    assert told.endswith("At the edge of what was tried: grpo.")


def test_the_committed_page_is_that_of_the_committed_rows() -> None:
    page = PAGE.read_text("utf-8")
    assert fill(page, render(read_rows(RESULTS)), "dpo") == page


def test_a_page_is_written_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = tmp_path / "dpo.md"
    place.write_text(PAGE.read_text("utf-8"), encoding="utf-8")
    monkeypatch.setattr("tests.benchmarks.dpo_page.PAGE", place)
    make_page([row(100, 0.1), row(101, 0.1)])
    assert "confirmed" in place.read_text("utf-8")
