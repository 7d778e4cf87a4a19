"""What a run without a swarm says: its gain, its answers, and what its checkpoints tell of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from swarmnode.cli.gains import gain_line
from swarmnode.config.settings import load_settings
from swarmnode.observe.samples import SHOWN_CHARACTERS, sample
from swarmnode.origin import Origin, kept, origin_of, round_of
from swarmnode.types import Evaluation, RoundReport, Scored, TaskRewards
from tests.unit.made import group


def report(number: int, **marks: str) -> RoundReport:
    evaluation = Evaluation(marks, marks) if marks else None
    return RoundReport(0, number, 0.0, TaskRewards({}), TaskRewards({}), evaluation)


def test_the_gain_is_that_of_the_newest_evaluation_over_the_first() -> None:
    line = gain_line([report(9, a="1110"), report(4), report(0, a="1000"), report(5, a="0000")])
    assert "0.250 → 0.750 (+0.500, 95 % interval" in line
    assert "round 0 to 9, 4 questions of 1 task" in line


def test_evaluations_of_other_questions_are_not_compared() -> None:
    line = gain_line([report(0, a="1000"), report(3, b="10"), report(7, b="11")])
    assert "0.500 → 1.000" in line
    assert "round 3 to 7, 2 questions" in line


def test_without_a_second_evaluation_there_is_no_gain() -> None:
    assert gain_line([report(0, a="10")]).endswith("0.500 in round 0, 2 questions of 1 task")
    assert "→" not in gain_line([report(0, a="10"), report(1)])
    assert "never" in gain_line([report(3)])


def answered(scores: Sequence[float], texts: Sequence[str]) -> Scored:
    return Scored(group(texts=texts), tuple(scores), "local", 0.0)


def test_the_log_shows_a_right_and_a_wrong_answer_to_one_question() -> None:
    dead, live = answered((0.0, 0.0), ["a", "b"]), answered((0.0, 1.0), ["c", "d"])
    shown = sample([dead, live])
    assert (shown["wrong"], shown["right"]) == ("c", "d")
    assert "right" not in sample([dead])
    assert sample([dead])["wrong"] == "a"
    assert sample([]) == {}


def test_long_texts_are_shown_in_part_and_cut_off_answers_as_such() -> None:
    made = answered((0.0, 0.0), ["start" + "x" * 5000 + "end", "b"])
    first = replace(made.group.completions[0], finish_reason="length")
    cut = replace(made, group=replace(made.group, completions=(first, *made.group.completions[1:])))
    wrong = sample([cut])["wrong"]
    assert wrong.startswith("start")
    assert wrong.endswith("end (cut off)")
    assert len(wrong) < SHOWN_CHARACTERS + 20


def test_a_checkpoint_tells_of_the_run_that_it_is_of() -> None:
    settings = load_settings(assignments=["policy.temperature=0.5"])
    origin = origin_of(kept(7, settings, b"\x01" * 32, (b"\x02" * 32, "friends")))
    assert (origin.round, origin.public_key, origin.swarm_name) == (7, b"\x01" * 32, "friends")
    assert origin.swarm_id == b"\x02" * 32
    assert origin.settings["policy"]["temperature"] == 0.5
    assert origin_of(kept(7, settings, b"\x01" * 32, None)).swarm_id == b""


def test_a_checkpoint_that_says_less_is_read_too() -> None:
    assert origin_of({"round": 3}) == Origin(3, {}, b"", b"", "")
    assert origin_of(None).round == round_of(None) == 0
