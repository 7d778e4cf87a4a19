"""The study of the mismatch: its sampler, what is read off a run, its page, and short runs."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
from collections import Counter
from itertools import islice
from pathlib import Path
from random import Random

import pytest
import torch

from tests.benchmarks import mismatch_protocol
from tests.benchmarks.mismatch import STUDY
from tests.benchmarks.mismatch_figure import draw
from tests.benchmarks.mismatch_protocol import (
    CORRECTIONS,
    DEVELOPMENT_SEEDS,
    KINDS,
    LONGEST,
    SEEDS,
    SIZES,
    TASK,
    MismatchRun,
    runs_of,
)
from tests.benchmarks.mismatch_rows import Row, collapsed, end, row_of, start
from tests.benchmarks.mismatch_run import run_one, started
from tests.benchmarks.mismatch_sampler import (
    PART,
    Sampler,
    gaps,
    mean_difference,
    next_size,
    rounded,
)
from tests.benchmarks.mismatch_tables import grouped, paired, render
from tests.benchmarks.ordering import right_words, without_spaces
from tests.benchmarks.sharing_markdown import fill
from tests.benchmarks.sharing_statistics import estimate
from tests.benchmarks.short_runs import row_file
from tests.benchmarks.short_study import RESULTS, TRIED_ROUNDS
from tests.benchmarks.study_rows import read_rows

RUN = MismatchRun("noise", 0.1, "truncated", 400)


def row(run: MismatchRun, *held_out: float) -> Row:
    rounds = [{"difference": 0.1, "entropy": 0.3, "live": 0.5}, {"difference": 0.3, "entropy": 0.1}]
    return row_of(run, rounds, dict(enumerate(held_out)))


def test_the_arms_are_those_of_the_issue_and_no_seed_serves_both_parts() -> None:
    runs = list(runs_of(SEEDS))
    assert len(SEEDS) == 5
    assert not set(SEEDS) & set(DEVELOPMENT_SEEDS)
    assert len({run.name for run in runs}) == len(runs)
    arms = Counter((run.kind, run.size, run.correction) for run in runs)
    wanted = {(kind, size, name) for kind in KINDS for size in SIZES for name in CORRECTIONS}
    assert {arm for arm in arms if arm[0] != "exact"} == wanted
    assert set(arms.values()) == {len(SEEDS)}
    none, against, truncated = (
        dataclasses.replace(RUN, correction=name).training for name in CORRECTIONS
    )
    assert (
        against.model_dump()
        == none.model_copy(update={"ratio_denominator": "sampler"}).model_dump()
    )
    assert truncated.local_correction
    assert (truncated.clip_low, truncated.clip_high) == (none.clip_low, none.clip_high)
    assert truncated.importance_cap > 1.0 + truncated.clip_high


def test_questions_are_held_out_by_their_text_and_the_answer_is_in_order() -> None:
    asked = list(islice(TASK.stream(Random(1)), 200))
    exam = TASK.examination(20)
    assert not {each.text for each in asked} & {each.text for each in exam}
    assert all(each.held_out for each in exam)
    assert exam == TASK.examination(20)
    for each in asked[:5]:
        assert list(each.words) == sorted(each.text.split())
        assert right_words(each, each.words) == TASK.length
    changed = [TASK.mistaken(each, 0.2, Random(2)) for each in asked]
    wrong = sum(TASK.length - right_words(*pair) for pair in zip(asked, changed, strict=True))
    assert 0.1 < wrong / (200 * TASK.length) < 0.3
    assert without_spaces(" a b\nc") == "abc"


def test_a_row_is_what_the_rounds_say() -> None:
    found = row(RUN, 0.4, 0.1, 0.3, 0.2, 0.1)
    assert found["difference"] == pytest.approx(0.2)
    assert (found["entropy_start"], found["entropy_end"]) == (0.3, 0.1)
    assert found["live"] == 0.5
    assert found["lost_positive"] is None
    assert start(found) == 0.4
    assert end(found) == pytest.approx(0.2)
    assert not collapsed(row(RUN, 0.4, 0.2))
    assert collapsed(row(RUN, 0.5, 0.1))


def test_arms_are_compared_over_the_seeds_that_both_have() -> None:
    against = dataclasses.replace(RUN, correction="ppo-is")
    rows = [row(RUN, 0.4, 0.5), row(dataclasses.replace(RUN, seed=401), 0.4, 0.7)]
    rows += [
        row(dataclasses.replace(against, seed=seed), 0.4, value)
        for seed, value in ((400, 0.6), (401, 0.2), (402, 0.9))
    ]
    found = paired(grouped(rows), "noise", 0.1, "truncated", "ppo-is")
    # Seed by seed: ordered by size, the same means would have another interval.
    assert found == estimate([0.5 - 0.6, 0.7 - 0.2])
    with pytest.raises(ValueError, match="comes twice"):
        grouped([*rows, rows[0]])


def test_the_page_tells_of_a_study_that_is_half_run_and_draws_it() -> None:
    rows = [
        row(run, 0.4, 0.1 if run.correction == "ppo-is" else 0.5)
        for run in runs_of(SEEDS[:2])
        if run.size != 0.5
    ]
    blocks = render(rows)
    assert "| noise | 0.1 | +40.0 (+40.0 to +40.0) | < 0.001 |" in blocks["answer"]
    assert "| 0 of 2 | 2 of 2 | 0 of 2 |" in blocks["answer"]
    assert "| noise | 0.5 | – |" in blocks["answer"]
    assert (
        "above 0: noise 0.1, quantised 0.1; not run: noise 0.5, quantised 0.5." in blocks["answer"]
    )
    assert "planned were 400" in blocks["answer"]
    assert "40.0 → 10.0" in blocks["success"]
    assert draw(rows) == draw(rows)


def test_the_committed_page_is_that_of_the_committed_rows() -> None:
    page = (RESULTS / "mismatch.md").read_text("utf-8")
    assert fill(page, STUDY.blocks(read_rows(RESULTS / "mismatch.json")), "mismatch") == page


def test_a_size_goes_part_of_the_way_to_what_is_wanted_and_no_faster() -> None:
    assert next_size(1.0, 0.1, 0.121) == pytest.approx(1.21**PART)
    assert next_size(1.0, 0.1, 0.1) == 1.0
    assert next_size(1.0, 0.1, 9.0) == next_size(1.0, 0.0, 9.0) == pytest.approx(1.3)
    assert next_size(1.0, 9.0, 0.1) == pytest.approx(1 / 1.3)
    weight = torch.tensor([[3.0, -1.0], [1.0, 1.0]])
    root = math.sqrt(3.0)
    torch.testing.assert_close(rounded(weight, 1.0), torch.tensor([[2.0, -1.0], [1.0, 1.0]]) * root)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sampler_is_off_by_what_is_wanted_and_leaves_the_policy_alone(
    kind: str, tmp_path: Path
) -> None:
    policy = started(7, tmp_path, steps=20)
    before = [one.detach().clone() for one in policy.parameters()]
    prompts = [each.text for each in TASK.examination(8)]
    exact = Sampler(policy, "exact", 7)
    sampled = exact.sample(prompts, 4, LONGEST, torch.Generator().manual_seed(3))
    assert mean_difference(gaps(policy, prompts, sampled)) < 1e-5
    sampler = Sampler(policy, "noise" if kind == "noise" else "quantised", 7)
    sampler.calibrate(prompts, 4, LONGEST, 0.1)
    size = sampler.size
    sampler.adjust(0.1, 0.1)
    assert sampler.size == pytest.approx(size)
    sampled = sampler.sample(prompts, 8, LONGEST, torch.Generator().manual_seed(4))
    assert mean_difference(gaps(policy, prompts, sampled)) == pytest.approx(0.1, rel=0.3)
    for one, kept in zip(policy.parameters(), before, strict=True):
        assert torch.equal(one, kept)


def test_short_runs_go_through_the_whole_machinery(tmp_path: Path) -> None:
    runs = [MismatchRun("noise", 0.1, name, 40, rounds=3) for name in CORRECTIONS]
    rows = {run.correction: run_one(run, tmp_path, steps=250, examined=20) for run in runs}
    for found in rows.values():
        assert found["rounds"] == [0, 3]
        assert found["held_out"][0] == rows["none"]["held_out"][0]
        assert found["difference"] == pytest.approx(0.1, rel=0.3)
        assert found["live"]
    # Against the sampler, what it disagrees on is lost from the first inner step on.
    lost = {name: found["lost_negative"] or 0.0 for name, found in rows.items()}
    assert lost["ppo-is"] > 2.0 * max(lost["none"], lost["truncated"])


def test_what_is_asked_of_the_command_is_told_from_what_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert STUDY.run(["nonsense"]) == 2
    assert "development, try, page" in capsys.readouterr().out
    assert row_file(RUN, tmp_path).name == "noise-0.1-truncated-seed400-150.json"


def test_a_try_goes_through_to_page_picture_and_rows_and_leaves_docs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (RESULTS / "mismatch.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    RESULTS.mkdir(parents=True)
    (RESULTS / "mismatch.md").write_text(page, encoding="utf-8")
    STUDY.place.mkdir(parents=True)
    for run in runs_of(DEVELOPMENT_SEEDS, TRIED_ROUNDS):
        row_file(run, STUDY.place).write_text(json.dumps(row(run, 0.4, 0.5)), encoding="utf-8")
    assert STUDY.run(["try"]) == 0
    assert "27 of 27 runs are there" in capsys.readouterr().out
    made = STUDY.place / "try"
    assert (made / "mismatch.png").read_bytes().startswith(b"\x89PNG")
    written = (made / "mismatch.md").read_text("utf-8")
    assert "](mismatch.png)" in written
    assert "[mismatch.json](mismatch.json)" in written
    assert "Not run." not in written
    assert read_rows(made / "mismatch.json")
    assert (RESULTS / "mismatch.md").read_text("utf-8") == page
    assert not (RESULTS / "mismatch.png").exists()


def test_rows_of_other_code_are_not_taken_for_those_of_this(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = STUDY.place
    text = inspect.getsource(mismatch_protocol)
    monkeypatch.setattr(inspect, "getsource", lambda module: text + module.__name__)
    assert STUDY.place != before
    assert STUDY.place.parent == before.parent
