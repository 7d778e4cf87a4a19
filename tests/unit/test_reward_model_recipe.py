"""Training a reward model: what it reads, what it minimises, what it says of what it learned."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from swarmnode.config.channels import RewardModel
from swarmnode.policy.weights import weights_digest
from swarmnode.reward_models.comparisons import (
    MOST_OF_A_PROMPT,
    Comparison,
    UnusableData,
    read_comparisons,
    split,
)
from swarmnode.reward_models.findings import Judged, correlation, findings, wilson
from swarmnode.reward_models.opening import open_judge
from swarmnode.reward_models.reading import Row
from swarmnode.reward_models.recipe import (
    Recipe,
    Trained,
    bradley_terry,
    examined,
    train_reward_model,
)
from tests.unit.judge_support import small_classifier, write_classifier
from tests.unit.model_support import write_model
from tests.unit.preference_support import KIND, RUDE, pairs, signals, write_lines


def trained(path: Path, share: float = 0.25, **changes: Any) -> Trained:
    learned, held = split(read_comparisons(path).every, share, 0)
    return train_reward_model(Recipe(**changes), learned, held, lambda *_told: None)


@pytest.mark.parametrize(("made", "count"), [(pairs, 240), (signals, 160)])
def test_the_recipe_learns_a_toy_preference_from_pairs_and_from_signals_without_counterparts(
    tmp_path: Path, made: Any, count: int
) -> None:
    result = trained(write_lines(tmp_path / "data.jsonl", made(count)))
    assert result.findings.accuracy.low > 0.9
    result.save(tmp_path / "model")
    judge = open_judge(
        RewardModel(name="kind", model=str(tmp_path / "model")), torch.device("cpu"), 1024
    )
    kind, rude = judge.judge([("new", f"paper {KIND}"), ("new", f"paper {RUDE}")]).scores
    assert kind > rude + 1.0


def test_the_same_seed_gives_the_same_weights_and_another_one_others(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "data.jsonl", pairs(24))
    digests = []
    for seed in (0, 0, 1):
        torch.rand(3)  # what was drawn before doesn't matter
        model = trained(path, epochs=1, seed=seed).model
        digests.append(weights_digest(dict(model.named_parameters())))
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("kind", ["chat", "bert"])
def test_any_base_is_trained_and_then_judges_as_it_was_examined(tmp_path: Path, kind: str) -> None:
    path = write_lines(tmp_path / "data.jsonl", pairs(16))
    base = tmp_path / "base"
    if kind == "chat":
        write_model(base)
    else:
        write_classifier(base, "bert")
    result = trained(path, epochs=1, base=str(base), learning_rate=1e-3)
    result.save(tmp_path / "model")
    judge = open_judge(
        RewardModel(name="any", model=str(tmp_path / "model")), torch.device("cpu"), 1024
    )
    _, held = split(read_comparisons(path).every, 0.25, 0)
    assert examined(judge, held) == result.findings


def test_the_loss_is_that_of_bradley_and_terry_with_an_opponent_of_strength_0() -> None:
    model = small_classifier("bert").eval()
    rows = [Row([1, 9, 8, 2], [0] * 4), Row([1, 7, 2], [0] * 3)]
    with torch.no_grad():
        scores = [float(model(torch.tensor([row.ids])).logits) for row in rows]
        for batch, margins in (
            ([(rows[0], rows[1])], [scores[0] - scores[1]]),
            ([(rows[1], None), (None, rows[0])], [scores[1], -scores[0]]),
        ):
            expected = sum(math.log1p(math.exp(-margin)) for margin in margins) / len(margins)
            assert float(bradley_terry(model, batch)) == pytest.approx(expected, abs=1e-5)


def lines(tmp_path: Path, *said: Any) -> Path:
    return write_lines(tmp_path / "data.jsonl", iter(said))


def signal(prompt: str, completion: str, value: Any) -> dict[str, Any]:
    return {"prompt": prompt, "completion": completion, "signal": value}


def test_signals_of_a_prompt_are_compared_and_lonely_ones_meet_an_opponent_of_strength_0(
    tmp_path: Path,
) -> None:
    path = lines(
        tmp_path,
        signal("p", "a", 3.5),
        signal("p", "b", 1),
        signal("q", "c", False),
        signal("r", "d", 1),
        signal("s", "e", 0.4),
        {"prompt": "t", "chosen": "f", "rejected": "f"},
        {"prompt": "t", "chosen": "f", "rejected": "g"},
    )
    found = read_comparisons(path)
    assert list(found.every) == [
        Comparison("t", "f", "g"),
        Comparison("p", "a", "b"),
        Comparison("q", None, "c"),
        Comparison("r", "d", None),
    ]
    assert found.left_out == 2


def test_one_prompts_many_signals_make_a_bounded_number_of_comparisons(tmp_path: Path) -> None:
    said = [signal("p", str(number), number) for number in range(40)]
    assert 0 < len(read_comparisons(lines(tmp_path, *said)).every) <= MOST_OF_A_PROMPT


@pytest.mark.parametrize(
    "said",
    [
        {"prompt": "p", "chosen": "a"},
        {"prompt": "p", "chosen": "a", "rejected": 3},
        {"prompt": "p", "completion": "a", "signal": "good"},
        {"prompt": "p", "completion": "a", "signal": math.nan},
        ["p", "a", "b"],
    ],
)
def test_a_line_of_another_form_is_named(tmp_path: Path, said: Any) -> None:
    good = {"prompt": "p", "chosen": "a", "rejected": "b"}
    with pytest.raises(UnusableData, match=r"data.jsonl line 2 has neither"):
        read_comparisons(lines(tmp_path, good, said))


def test_no_prompt_is_on_both_sides_of_the_split_and_too_few_are_refused() -> None:
    every = [Comparison(str(number % 10), "a", str(number)) for number in range(40)]
    learned, held = split(every, 0.3, 0)
    assert len({one.prompt for one in held}) == 3
    assert not {one.prompt for one in held} & {one.prompt for one in learned}
    assert len(learned) + len(held) == 40
    assert split(every, 0.3, 1)[1] != held
    with pytest.raises(UnusableData, match=r"3 different prompts .* too few"):
        split(every[:3], 0.3, 0)


def test_findings_tell_accuracy_and_a_liking_for_short_answers() -> None:
    judged = [
        Judged(Comparison(str(number), "long enough" * (number % 3 + 1), "no"), better, 0.0)
        for number, better in enumerate([-1.0] * 30 + [1.0] * 10)
    ]
    found = findings(judged)
    assert found.accuracy.mean == 0.25
    assert found.model_prefers_shorter == 0.75
    assert found.data_prefers_shorter == 0.0
    assert found.prompts == found.comparisons == 40
    even = [Judged(Comparison("p", "ab", "c"), 1.0, 1.0), Judged(Comparison("p", "x", None), 1, 0)]
    assert findings(even).accuracy.mean == 0.75
    assert json.dumps(findings(even).as_json(), allow_nan=False)


def test_a_reward_model_that_likes_short_answers_is_warned_of() -> None:
    short = [
        Judged(Comparison(str(one), "a" * (one % 9 + 1), "b" * 30), -float(one % 9), -40.0)
        for one in range(60)
    ]
    assert "it likes short answers" in findings(short).warning
    coin = [Judged(Comparison(str(one), "ab", "cd"), float(one % 2), 0.5) for one in range(40)]
    assert "better than a coin" in findings(coin).warning


def test_intervals_are_those_of_wilson_and_fisher() -> None:
    # Wilson's for 9 of 10, as statsmodels' proportion_confint gives it: 0.5958, 0.9821.
    found = wilson([1.0] * 9 + [0.0])
    assert (found.low, found.high) == pytest.approx((0.5958, 0.9821), abs=1e-4)
    assert wilson([1.0] * 60).low == pytest.approx(0.93983, abs=1e-4)
    made = [(0, 0), (1, 2), (2, 1), (3, 3), (4, 5), (5, 4)]
    told = correlation([(float(one), float(other)) for one, other in made])
    assert told.mean == pytest.approx(0.885714, abs=1e-5)
    assert told.high == pytest.approx(math.tanh(math.atanh(told.mean) + 1.96 / math.sqrt(3)))
    assert math.isnan(correlation([(1.0, 2.0)] * 5).mean)
