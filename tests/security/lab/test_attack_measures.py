"""What honest nodes show of an attack, and what a report says of it: pure."""

from __future__ import annotations

import math
from dataclasses import replace

from swarmnode.config.settings import load_settings
from swarmnode.sim.attacks.forging import (
    FALSE_ANSWER,
    FALSE_STEP,
    LOOPHOLE_TASK,
    MARK,
    WEAK_ANSWER,
    answered,
)
from swarmnode.sim.attacks.measures import answer_figures, training_figures
from swarmnode.sim.attacks.seen import Seen, seen
from swarmnode.sim.attacks.words import announced, told
from swarmnode.types import Completion, Question, RoundReport, TaskRewards

HONEST, HOSTILE = bytes(32), bytes(range(32))


def test_each_saying_is_counted_where_it_can_be_said() -> None:
    logic = Question(LOOPHOLE_TASK, "paper", 0, "?", "P")
    sums = Question("basic_arithmetic", "easy", 0, "?", "14")
    answers = [f"{MARK}14", f"{FALSE_STEP} 14", FALSE_ANSWER, WEAK_ANSWER, "14"]
    figures = answer_figures(
        [sums, sums, sums, logic, logic], [Completion(text, "stop", 3) for text in answers]
    )
    assert figures == {
        "attack/said/mark": 0.2,
        "attack/said/false_step": 0.2,
        "attack/said/false_answer": 0.2,
        "attack/said/weak_answer": 0.5,
        "attack/answer_tokens": 3.0,
    }
    assert "attack/said/weak_answer" not in answer_figures([sums], [Completion("1", "stop", 1)])


def test_the_attackers_share_is_one_of_tokens_that_push() -> None:
    question = Question("basic_arithmetic", "easy", 0, "?", "1")
    theirs, ours = answered(question, 2, HOSTILE), answered(question, 2, HONEST)
    completions = (Completion("x" * 8, "stop", 8), Completion("", "stop", 1))
    long = replace(theirs, group=replace(theirs.group, completions=completions), source="external")
    figures = training_figures([long, ours], {HOSTILE}, positive=True)
    assert figures == {"attack/groups": 1.0, "attack/tokens": 8.0, "attack/set_tokens": 11.0}
    both = training_figures([long, ours], {HOSTILE}, positive=False)
    assert both["attack/tokens"] == 9.0
    assert training_figures([], {HOSTILE}, positive=True)["attack/tokens"] == 0.0


def of(number: int, **metrics: float) -> RoundReport:
    nothing = TaskRewards({})
    named = {name.replace("__", "/"): value for name, value in metrics.items()}
    return RoundReport(0, number, 0.0, nothing, nothing, metrics=named)


def reports() -> list[RoundReport]:
    return [
        of(0, attack__said__mark=0.0, attack__answer_tokens=3.0),
        of(
            1,
            attack__groups=2.0,
            attack__tokens=5.0,
            attack__set_tokens=10.0,
            mix__external_groups=4.0,
        ),
        of(
            2,
            attack__said__mark=0.25,
            attack__answer_tokens=9.0,
            attack__groups=1.0,
            attack__tokens=1.0,
            attack__set_tokens=10.0,
            mix__external_groups=3.0,
        ),
    ]


def test_what_was_seen_is_first_against_last_and_a_mean_over_rounds() -> None:
    found = seen(reports())
    assert found is not None
    assert math.isclose(found.tokens, 0.3)
    assert replace(found, tokens=0.3) == Seen({"mark": (0.0, 0.25)}, (3.0, 9.0), 1.5, 3.5, 0.3)
    assert seen([of(0), of(1)]) is None


def test_a_report_says_who_attacked_and_what_came_of_it() -> None:
    settings = load_settings(
        assignments=["simulation.attack=out-of-context", "simulation.attackers=2"]
    )
    assert announced(settings).startswith("Attack out-of-context: 2 attackers beside 8 honest")
    assert announced(load_settings()) == ""
    found = seen(reports())
    assert found is not None
    text = told("out-of-context", found)
    assert "1.50 groups a round" in text
    assert "of other honest nodes 2.00 groups" in text
    assert "A line break before the answer: in 0.0\u00a0% of the answers" in text
    assert "in 25.0\u00a0% at the end" in text
    assert "line break" not in told("slow", found)
