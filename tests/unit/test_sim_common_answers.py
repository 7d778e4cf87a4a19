"""What evaluations keep of the answers, and what a study makes of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from swarmnode.clock import SystemClock
from swarmnode.config.settings import load_settings
from swarmnode.evaluation import Examiner
from swarmnode.reports import report_as_json, report_from_json
from swarmnode.rewards.client import Scorer, Verdict
from swarmnode.rewards.common_answers import Concentration, concentration
from swarmnode.sim.common_answers import answers_of, loophole_first_seen
from swarmnode.sim.console import results_table
from swarmnode.sim.page import page
from swarmnode.sim.report import compact, summary_as_json
from swarmnode.sim.summary import Run, Variant, summarize
from swarmnode.sim.words import Study, suspicions, suspicious_tasks
from swarmnode.types import CommonAnswer, Completion, Group, PolicyInfo, Question, SampledAnswers
from tests.unit.sim_support import loophole, report, swarm

TASK = "propositional_logic"
HOSTILE = "<script>alert(1)</script>\x00\u202e${x}\ud800&\"'" + "]" * 5000


class EveryAnswerRight(Scorer):
    """A scorer without a process: each first answer succeeds, each second fails."""

    def __init__(self) -> None: ...

    async def score(
        self, groups: Sequence[Group], *, expect_held_out: bool = False
    ) -> list[Verdict]:
        """One success and one failure a question."""
        return [Verdict((1.0, 0.0)) for _ in groups]


class Constant:
    """A policy that samples `P` and is silent when greedy."""

    info = PolicyInfo("constant", 0, b"")

    async def answer(
        self, questions: Sequence[Question], decoding: Literal["sampled", "greedy"], seed: int
    ) -> Sequence[Completion]:
        """The same to every question."""
        text = "so <answer> P </answer>" if decoding == "sampled" else ""
        return [Completion(text, "stop", 1)] * len(questions)


def only(run: Run) -> Variant:
    (variant,) = summarize([run])
    return variant


def shown(*runs: Run) -> str:
    settings = load_settings(flags={"tasks.names": (TASK,)})
    return page(Study(summarize(runs), settings, True, "c", {}), "<svg></svg>")


def test_an_evaluation_keeps_what_the_sampled_answers_were() -> None:
    questions = [Question("logic", "easy", n, "?", f" r{n} ") for n in range(3)]
    questions.append(Question("bf", "easy", 0, "?", "x"))
    examiner = Examiner(EveryAnswerRight(), questions)
    evaluation = asyncio.run(examiner.examine(Constant(), SystemClock(), lambda: 0.0))
    assert evaluation.answers == {
        "logic": SampledAnswers((CommonAnswer("P", 3, 3),), {"P": 3}, {"r0": 1, "r1": 1, "r2": 1}),
        "bf": SampledAnswers((CommonAnswer("P", 1, 1),), {"P": 1}, {"x": 1}),
    }


def test_a_line_of_json_gives_the_answers_back() -> None:
    for run in (loophole(), loophole(texts=[HOSTILE]), swarm()):
        for each in run.reports:
            read = report_from_json(json.loads(json.dumps(report_as_json(each))))
            assert read.evaluation == each.evaluation


def test_a_line_from_before_answers_were_kept_is_read() -> None:
    line = report_as_json(loophole().reports[0])
    del line["answers"]
    evaluation = report_from_json(line).evaluation
    assert evaluation is not None
    assert evaluation.answers == {}
    assert evaluation.sampled == {TASK: "1" * 15}


def test_the_answers_of_nodes_and_seeds_are_pooled_at_start_and_end() -> None:
    (variant,) = summarize([loophole(), Run("4/4", 1, loophole().reports)])
    assert concentration(variant.start_answers[TASK]) == Concentration(16 / 60, 16 / 60)
    assert concentration(variant.end_answers[TASK]) == Concentration(1.0, 16 / 60)
    assert variant.end_answers[TASK].right == {"(P ∨ Q)": 32, "(Q ∨ P)": 28}
    assert variant.end_answers[TASK].commonest[0] == CommonAnswer("(P ∨ Q)", 32, 32)


def test_one_node_has_too_few_right_answers_and_two_have_enough() -> None:
    reports = loophole().reports
    alone = answers_of(each for each in reports if each.node == 0 and each.round == 5)
    assert concentration(alone[TASK]) is None
    both = concentration(answers_of(each for each in reports if each.round == 5)[TASK])
    assert both is not None
    assert both.seen


def test_the_first_round_of_any_node_at_the_threshold_is_told() -> None:
    reports = [
        report(0, 4, {}, excess={"a": 0.5, "b": 0.29}),
        report(1, 3, {}, excess={"a": 0.3}),
        report(0, 2, {}, excess={"a": 0.2}),
    ]
    assert loophole_first_seen(reports) == {"a": 3}


def test_rounds_that_not_all_seeds_have_reached_do_not_count() -> None:
    short = swarm(seed=1, rounds=2)
    (variant,) = summarize([loophole(seen={3: 0.9}), short])
    assert variant.loophole_seen == {}


def test_the_summary_has_the_figures_and_the_commonest_answers() -> None:
    runs = [loophole(seen={2: 0.4})]
    settings = load_settings(flags={"tasks.names": (TASK,)})
    summary = summary_as_json(
        summarize(runs), runs, settings, complete=True, command="c", baselines={}
    )
    (variant,) = summary["variants"]
    assert variant["loophole_seen"] == {TASK: 2}
    assert variant["answers"][TASK]["end"] == {
        "right": 30,
        "share": 1.0,
        "expected": 0.266667,
        "excess": 0.733333,
        "suspicious": True,
        "commonest": [["(P ∨ Q)", 16, 16], ["(Q ∨ P)", 14, 14]],
    }
    assert variant["answers"][TASK]["start"]["suspicious"] is False
    assert json.loads(compact(summary)) == summary


def test_too_few_right_answers_have_no_figures() -> None:
    runs = [loophole(right=11)]
    summary = summary_as_json(
        summarize(runs), runs, load_settings(), complete=True, command="c", baselines={}
    )
    end = summary["variants"][0]["answers"][TASK]["end"]
    assert (end["right"], end["share"], end["suspicious"]) == (22, None, None)


def test_a_loophole_is_told_in_a_sentence() -> None:
    sentence = (
        "In propositional_logic 100\u00a0% of the right answers to unseen questions are one of "
        "four texts, though the four commonest reference answers make up only 27\u00a0%: a "
        "loophole of the verifier rather than a skill?"
    )
    assert suspicions(only(loophole())) == [sentence]
    assert suspicions(only(loophole(seen={3: 0.9}))) == [f"{sentence} First seen in round 3."]
    from_the_start = only(loophole(seen={3: 0.9}, skill_at_start=False))
    assert suspicions(from_the_start) == [f"{sentence} It was so before the first round."]
    assert sentence in shown(loophole())


def test_a_loophole_of_the_rounds_alone_says_so() -> None:
    (few,) = suspicions(only(loophole(right=11, seen={2: 0.5})))
    assert "only 22 were right, too few to tell" in few
    assert few.endswith("First seen in round 2.")
    (gone,) = suspicions(only(loophole(texts=[f"r{n}" for n in range(15)], seen={2: 0.5})))
    assert "those to unseen questions did not at the end" in gone


def test_guard_rails_that_complained_are_told_with_the_round_in_which_they_began() -> None:
    run = swarm()
    reports = [
        replace(each, metrics={**each.metrics, "guard/alarm/length": 1.0})
        if each.round > 15 and each.node
        else each
        for each in run.reports
    ]
    complaining = replace(run, reports=reports)
    sentence = (
        "Guard-rails complained of what some node's answers had become: length (from round 16)."
    )
    assert suspicions(only(complaining)) == [sentence]
    assert "length (from round 16)" in shown(complaining)
    assert str(results_table(summarize([complaining])).caption).endswith(f"\n4/4: {sentence}")
    summary = summary_as_json(
        summarize([complaining]), [complaining], load_settings(), complete=True, command="c",
        baselines={},
    )  # fmt: skip
    assert summary["variants"][0]["alarms_seen"] == {"length": 16}


def test_nothing_is_said_where_nothing_is_seen() -> None:
    for run in (loophole(texts=[f"r{n}" for n in range(15)]), loophole(right=11), swarm()):
        assert suspicions(only(run)) == []
        assert "loophole" not in shown(run)
        assert "loophole" not in str(results_table(summarize([run])).caption)


def test_the_terminal_names_the_suspicious_tasks_of_each_mix() -> None:
    variants = summarize([loophole(), loophole(variant="8/0", right=11)])
    assert [suspicious_tasks(each) for each in variants] == [[TASK], []]
    caption = str(results_table(variants).caption)
    assert caption.endswith("\nA loophole rather than a skill? 4/4 propositional_logic")


def test_hostile_answers_reach_the_page_as_harmless_text() -> None:
    text = shown(loophole(texts=[HOSTILE], task=TASK))
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\x00\\u202e${x}\\ud800&amp;" in text
    assert not {"\x00", "\u202e"} & set(text)
    assert "]" * 100 not in text
    text.encode("utf-8")
