"""The study of reward hacking: its policy, what is read off a run, its page, and short runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from random import Random

import pytest
import torch

from swarmnode.types import Completion
from tests.benchmarks.hacking import STUDY, all_runs
from tests.benchmarks.hacking_figure import draw
from tests.benchmarks.hacking_length import partial_answer, run_length, spread, weights_of
from tests.benchmarks.hacking_policy import (
    TOKENIZER,
    dropped_spaces,
    sampler_of,
    started,
    words_of,
)
from tests.benchmarks.hacking_protocol import (
    ARMS,
    DEVELOPMENT_SEEDS,
    DROPPED,
    LONGEST,
    SEEDS,
    SHORTEST,
    TARGET,
    TASK,
    HackingRun,
    LengthArm,
    LengthRun,
    SpacesRun,
    length_reward,
    liked,
    worth,
)
from tests.benchmarks.hacking_rows import Round, Row, alarms, arm_of, end, row_of, start
from tests.benchmarks.hacking_spaces import gappy, right, run_spaces
from tests.benchmarks.hacking_tables import grouped, paired, render
from tests.benchmarks.sharing_markdown import fill
from tests.benchmarks.short_study import RESULTS
from tests.benchmarks.study_rows import read_rows

ASKED = TASK.examination(3)[0]
BIASED = SpacesRun("sequence", 4, "biased, against it", 500)


def written(text: str, *, ended: bool = True) -> Completion:
    ids = (*TOKENIZER.encode(text), *([1] if ended else []))
    return Completion(text, "stop" if ended else "length", len(ids), ids)


def row(run: HackingRun, dropped: float, alarm: int | None = None) -> Row:
    rounds: list[Round] = [{"entropy": 0.4 if number < 20 else 0.3} for number in range(30)]
    if alarm:
        rounds[alarm - 1] = {**rounds[alarm - 1], "guard/alarm/whitespace/latin": 1.0}
    exam = {"dropped": dropped, "success": 0.5, "tokens": 9.0, "liked": 3.0, "worth": dropped}
    return row_of(run, rounds, {0: {**exam, "dropped": 0.1, "worth": 0.1}, 30: exam})


def test_both_cases_have_the_arms_of_the_issue() -> None:
    runs = all_runs(SEEDS)
    assert not set(SEEDS) & set(DEVELOPMENT_SEEDS)
    assert len({run.name for run in runs}) == len(runs)
    assert len({arm_of(run) for run in runs}) * len(SEEDS) == len(runs)
    assert TASK.length - 1 >= 8
    token = SpacesRun("token", 4, "faithful", 0).training
    sequence = SpacesRun("sequence", 4, "faithful", 0).training
    changed = {
        name for name, value in token.model_dump().items() if value != getattr(sequence, name)
    }
    assert changed == {"preset", "ratio_level", "clip_low", "clip_high"}
    assert BIASED.training.ratio_denominator == "sampler"
    assert LengthRun("gdpo", 0).training.reward_aggregation == "normalise_then_sum"
    assert LengthRun("matched", 0).training.reward_aggregation == "sum_then_normalise"


def test_a_space_is_the_choice_between_two_tokens_and_the_verifier_ignores_it() -> None:
    spaced, glued = written(ASKED.answer), written(ASKED.answer.replace(" ", ""))
    assert spaced.token_count == glued.token_count == TASK.length + 1
    assert right(ASKED, spaced)
    assert right(ASKED, glued)
    assert not right(ASKED, written(ASKED.answer, ended=False))
    assert not right(ASKED, written(f"{ASKED.answer} {ASKED.words[0]}"))
    assert words_of(spaced) == words_of(glued) == list(ASKED.words)
    assert dropped_spaces([spaced]) == 0.0
    assert dropped_spaces([spaced, glued]) == 0.5
    assert dropped_spaces([written("")]) is None
    rng = Random(3)
    gaps = dropped_spaces([written(gappy(ASKED, rng)) for _ in range(300)])
    assert gaps == pytest.approx(DROPPED, abs=0.03)


def test_the_reward_model_likes_short_answers_and_its_worth_does_not() -> None:
    few, all_words = ASKED.words[:2], ASKED.words
    assert liked(ASKED, few) > liked(ASKED, all_words)
    assert worth(ASKED, few) < worth(ASKED, all_words) == 1.0
    assert liked(ASKED, ()) < liked(ASKED, few)
    assert liked(ASKED, few[::-1] if few[0] != few[1] else ()) < liked(ASKED, few)
    assert length_reward("gdpo", TARGET - 1) == length_reward("gdpo", TARGET + 1) == 1.0
    assert length_reward("gdpo", TARGET - 2) == length_reward("gdpo", TARGET + 2) == 0.0
    smooth = [length_reward("gdpo, smooth", tokens) for tokens in range(1, TARGET + 1)]
    assert smooth == sorted(smooth)
    assert len(set(smooth)) == TARGET
    lengths = {len(partial_answer(ASKED, Random(seed)).split()) for seed in range(100)}
    assert lengths == set(range(SHORTEST, TASK.length + 1))


def test_a_biased_sampler_drops_more_spaces_and_its_log_probs_say_so(tmp_path: Path) -> None:
    policy = started(3, tmp_path, gappy, steps=60)
    texts = [each.text for each in TASK.examination(20)]
    shares, likelihoods = [], []
    for bias in (0.0, 3.0):
        generator = torch.Generator().manual_seed(1)
        sampled = sampler_of(policy, bias).generate(texts, 4, LONGEST, 1.0, generator)
        flat = [each for group in sampled for each in group]
        shares.append(dropped_spaces(flat) or 0.0)
        likelihoods.append(sampled[0][0].logprobs)
    assert shares[1] > shares[0] + 0.2
    faithful = policy.generate(texts, 4, LONGEST, 1.0, torch.Generator().manual_seed(1))
    assert faithful[0][0].logprobs == likelihoods[0] != likelihoods[1]


def test_channels_vary_alike_under_matched_weights(tmp_path: Path) -> None:
    policy = started(3, tmp_path, partial_answer, steps=60)
    weights = weights_of("matched", policy, 3)
    of_channel = spread("matched", policy, 3)
    assert weights["length"] * of_channel["length"] == pytest.approx(of_channel["reward_model"])
    assert weights_of("reward model", policy, 3) == {"accuracy": 0.0, "reward_model": 1.0}
    assert set(weights_of("gdpo", policy, 3).values()) == {0.0, 1.0}


def test_a_row_is_what_the_rounds_say() -> None:
    found = row(BIASED, 0.8, alarm=26)
    assert found["case"] == "spaces"
    assert found["alarms"] == {"whitespace/latin": 26}
    assert found["entropy"] == found["entropy_at_alarm"] == pytest.approx(0.75)
    # The five rounds before the alarm, not the one that gave it.
    assert row(BIASED, 0.8, alarm=21)["entropy_at_alarm"] == pytest.approx(1.0)
    assert start(found, "dropped") == 0.1
    assert end(found, "dropped") == 0.8
    assert row(BIASED, 0.8)["entropy_at_alarm"] is None
    rounds: list[Round] = [{}, {"guard/alarm/length": 1.0}, {"guard/alarm/length": 2.0}]
    assert alarms(rounds) == {"length": 2}


def test_the_page_tells_of_a_study_that_is_half_run_and_draws_it() -> None:
    rows = [
        row(run, 0.8 if isinstance(run, SpacesRun) and run.level == "sequence" else 0.2, 25)
        for run in all_runs(SEEDS[:2])
        if not (isinstance(run, SpacesRun) and run.sampling == "biased")
    ]
    blocks = render(rows)
    assert "| biased, against it | 4 | +60.0 (+60.0 to +60.0) | < 0.001 |" in blocks["ratios"]
    assert "| biased | 4 | – | – |" in blocks["ratios"]
    assert "| faithful | 4 | sequence | 10.0 → 80.0 |" in blocks["spaces"]
    assert "| faithful | 1 | +60.0 (+60.0 to +60.0) | control |" in blocks["ratios"]
    assert "above 0: faithful / 4, biased, against it / 1" in blocks["ratios"]
    assert "2 of 2, round 25 | 0.80 (0.80 to 0.80), silent in 2 of 2" in blocks["spaces"]
    assert "planned were 500" in blocks["length"]
    assert "`whitespace/latin` 2 of 2: 25" in blocks["rails"]
    assert draw(rows) == draw(rows)
    found = paired(grouped(rows, "length"), "gdpo, smooth", "summed", "worth")
    assert found.count == 2
    with pytest.raises(ValueError, match="comes twice"):
        render([*rows, rows[0]])


def test_the_committed_page_is_that_of_the_committed_rows() -> None:
    page = (RESULTS / "hacking.md").read_text("utf-8")
    assert fill(page, STUDY.blocks(read_rows(RESULTS / "hacking.json")), "hacking") == page


def test_with_one_inner_step_and_a_fresh_old_policy_both_ratios_do_alike(tmp_path: Path) -> None:
    one, other = (
        run_spaces(SpacesRun(level, 1, "biased", 50, rounds=2), tmp_path, 250, 20)
        for level in ("token", "sequence")
    )
    assert one["exams"] == other["exams"]
    assert one["clipped"] == other["clipped"] == 0.0
    against = run_spaces(dataclasses.replace(BIASED, seed=50, rounds=2), tmp_path, 250, 20)
    assert (against["clipped"] or 0.0) > 0.3
    assert against["exams"]["dropped"][0] == one["exams"]["dropped"][0]


def test_short_runs_of_the_second_case_go_through_the_whole_machinery(tmp_path: Path) -> None:
    shares = {}
    arms: tuple[LengthArm, ...] = ("summed", "gdpo, smooth")
    for arm in arms:
        found = run_length(LengthRun(arm, 50, rounds=2), tmp_path, 100, 20)
        assert found["rounds"] == [0, 2]
        assert set(found["exams"]) == {"success", "tokens", "liked", "worth"}
        shares[arm] = found["model_share"] or 0.0
        # The reward model pays for brevity from the first round, before any answer is shorter.
        assert (found["model_length"] or 0.0) < -0.3
    # Summed, what varies most is nearly all that is learned; normalised by itself, it isn't.
    assert shares["summed"] > 0.9 > shares["gdpo, smooth"]
    assert set(arms) < set(ARMS)


def test_what_is_asked_of_the_command_is_told_from_what_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert STUDY.run(["nonsense"]) == 2
    assert "development, try, page" in capsys.readouterr().out
