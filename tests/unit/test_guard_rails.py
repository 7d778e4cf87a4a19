"""Guard-rails: what is normal, what is not, and what each action does."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any
from zlib import crc32

import pytest
from pydantic import ValidationError

from swarmnode.config.guard_rails import RAILS, GuardRails
from swarmnode.guard_rails import Rails
from swarmnode.guard_rails.baselines import MEMORY, Baseline, Reading
from swarmnode.guard_rails.judgement import MEASURED, Judge, Verdict
from swarmnode.types import Completion, Group, PolicyInfo, Question, Scored
from tests.documentation import DOCS

FIRST = 6
ASKED = {"a": "easy"}
Answer = Callable[[random.Random, int], str]
"""From chance and the question's number to an answer."""


def prose(generator: random.Random, _: int) -> str:
    """Fifty words, of which no sequence of four comes twice."""
    return " ".join(f"w{generator.randrange(10**6)}" for _ in range(50))


def settings(**changes: Any) -> GuardRails:
    return GuardRails(first_rounds=FIRST, **changes)


def encoded(text: str) -> tuple[int, ...]:
    """A token a word."""
    return tuple(crc32(word.encode()) for word in text.split(" "))


def local_round(
    generator: random.Random, answer: Answer, logprob: float = -1.0, cut: float = 0.0
) -> list[Scored]:
    """Four questions with four answers each, one of which is right."""
    groups = []
    for question in range(4):
        completions = []
        for _ in range(4):
            text = answer(generator, question)
            ids = encoded(text)
            logprobs = tuple(logprob + generator.uniform(-0.1, 0.1) for _ in ids)
            finish: Any = "length" if generator.random() < cut else "stop"
            completions.append(Completion(text, finish, len(ids), ids, logprobs))
        of = Question("a", "easy", question, "?", "4")
        group = Group(of, tuple(completions), b"p" * 32, PolicyInfo("tiny", 0, b""))
        groups.append(Scored(group, (1.0, 0.0, 0.0, 0.0), "local", 0.0))
    return groups


def alarms(rails: Rails, rounds: int, answer: Answer, seed: int = 1, **of: Any) -> dict[str, float]:
    """What complains in the last of so many rounds."""
    generator = random.Random(seed)
    metrics: dict[str, float] = {}
    for _ in range(rounds):
        metrics = {**rails.watch(local_round(generator, answer, **of)), **rails.heard({})}
    prefix = "guard/alarm/"
    return {name.removeprefix(prefix): v for name, v in metrics.items() if name.startswith(prefix)}


def started(**changes: Any) -> Rails:
    """Guard-rails that have seen healthy first rounds."""
    rails = Rails(settings(**changes), ASKED)
    assert alarms(rails, FIRST + 3, prose) == {}
    return rails


def constant(_: random.Random, __: int) -> str:
    return " ".join(f"w{number}" for number in range(50))


def looping(generator: random.Random, _: int) -> str:
    return f"w{generator.randrange(10**6)} " + "so it is " * 40 + "so"


def squeezed(generator: random.Random, question: int) -> str:
    return prose(generator, question).replace(" ", "_", 40)


def long(generator: random.Random, question: int) -> str:
    return " ".join(prose(generator, question) for _ in range(8))


def short(generator: random.Random, _: int) -> str:
    return f"w{generator.randrange(10**6)} w{generator.randrange(10**6)}"


@pytest.mark.parametrize(
    ("collapse", "names"),
    [
        (constant, {"distinct"}),
        (looping, {"repetition", "compression"}),
        (squeezed, {"whitespace/latin"}),
        (long, {"length"}),
        (short, {"length"}),
    ],
    ids=["a constant", "repetition", "dropped whitespace", "more length", "less length"],
)
def test_a_policy_that_collapses_is_told_of_within_a_few_rounds(
    collapse: Answer, names: set[str]
) -> None:
    found = alarms(started(), 8, collapse)
    assert names <= set(found)


@pytest.mark.parametrize(
    ("of", "name"),
    [
        ({"logprob": -0.05}, "entropy"),
        ({"logprob": -6.0}, "entropy"),
        ({"cut": 0.9}, "truncated"),
    ],
)
def test_lost_variety_and_cut_answers_are_told_of(of: dict[str, Any], name: str) -> None:
    found = alarms(started(), 12, prose, **of)
    assert name in found


@pytest.mark.parametrize("seed", range(5))
def test_a_healthy_policy_is_never_complained_of(seed: int) -> None:
    rails = Rails(settings(), ASKED)
    generator = random.Random(seed)
    for _ in range(60):
        metrics = rails.watch(local_round(generator, prose, cut=0.1))
        assert not [name for name in metrics if name.startswith("guard/alarm")]


def test_nothing_is_judged_in_the_first_rounds_however_bad() -> None:
    rails = Rails(settings(), ASKED)
    assert alarms(rails, FIRST, looping) == {}
    # What was there from the start is this node's normal.
    assert alarms(rails, 10, looping) == {}


def test_an_alarm_goes_with_its_cause() -> None:
    rails = started()
    assert "length" in alarms(rails, 8, long)
    assert alarms(rails, 20, prose) == {}


def test_a_figure_that_has_no_meaning_any_more_is_not_complained_of() -> None:
    rails = started()
    assert "whitespace/latin" in alarms(rails, 20, squeezed)
    assert "whitespace/latin" in rails.critical
    alarms(rails, 1, lambda generator, _: " ".join(str(generator.randrange(9)) for _ in range(50)))
    assert "whitespace/latin" not in rails.critical


def test_what_is_off_is_measured_and_not_judged() -> None:
    rails = Rails(settings(off=["length", "whitespace"]), ASKED)
    alarms(rails, FIRST, prose)
    found = alarms(rails, 8, lambda *given: long(*given).replace(" ", "", 350))
    assert not {"length", "whitespace/latin"} & set(found)
    metrics = rails.watch(local_round(random.Random(0), long))
    assert metrics["guard/recent/length"] > 1.7 * metrics["guard/start/length"]


def test_figures_of_the_step_are_judged_too() -> None:
    rails = Rails(settings(), ASKED)
    generator = random.Random(0)

    def told(clipped: float, kl: float) -> dict[str, float]:
        rails.watch(local_round(generator, prose))
        return dict(rails.heard({"clip_ratio/region_mean": clipped, "kl": kl}))

    for _ in range(FIRST):
        told(0.01, 0.001)
    assert "guard/alarm/kl" not in told(0.02, 0.002)
    for _ in range(12):
        metrics = told(0.9, 0.9)
    assert metrics["guard/alarm/clipped"] == metrics["guard/alarm/kl"] == Verdict.CRITICAL


def test_every_rail_is_measured_somehow_and_limits_in_the_wrong_order_are_refused() -> None:
    assert set(MEASURED) == set(RAILS)
    with pytest.raises(ValidationError, match="repetition: the first limit warns"):
        GuardRails(repetition=(0.6, 0.3))
    with pytest.raises(ValidationError, match="distinct: the first limit warns"):
        GuardRails(distinct=(0.1, 0.5))
    with pytest.raises(ValidationError, match="off: entropie is none of"):
        GuardRails(off=("entropie",))


@pytest.mark.parametrize(
    ("figure", "recent", "start", "spread", "verdict"),
    [
        ("repetition", 0.29, 0.0, 0.01, Verdict.NORMAL),
        ("repetition", 0.31, 0.0, 0.01, Verdict.WARN),
        ("repetition", 0.61, 0.0, 0.01, Verdict.CRITICAL),
        ("repetition", 0.61, 0.4, 0.1, Verdict.NORMAL),
        ("repetition", 0.61, 0.4, 0.05, Verdict.WARN),
        ("repetition", 0.61, 0.9, 0.01, Verdict.NORMAL),
        ("truncated", 0.93, 0.91, 0.0, Verdict.NORMAL),
        ("truncated", 0.93, 0.7, 0.0, Verdict.WARN),
        ("whitespace/latin", 0.15, 0.2, 0.001, Verdict.NORMAL),
        ("whitespace/latin", 0.13, 0.2, 0.001, Verdict.WARN),
        ("whitespace/latin", 0.07, 0.2, 0.001, Verdict.CRITICAL),
        ("whitespace/han", 0.0, 0.01, 0.0, Verdict.NORMAL),
        ("length", 19.0, 10.0, 0.5, Verdict.NORMAL),
        ("length", 21.0, 10.0, 0.5, Verdict.WARN),
        ("length", 4.5, 10.0, 0.5, Verdict.WARN),
        ("length", 2.4, 10.0, 0.5, Verdict.CRITICAL),
        ("entropy", 0.0, 1.0, 0.1, Verdict.CRITICAL),
        ("reward_length", -0.7, 0.1, 0.1, Verdict.WARN),
        ("reward_length", -0.7, 0.8, 0.1, Verdict.NORMAL),
        ("reward_length", -0.7, 0.6, 0.01, Verdict.NORMAL),
    ],
)
def test_a_figure_must_pass_its_limit_and_leave_its_usual_range(
    figure: str, recent: float, start: float, spread: float, verdict: Verdict
) -> None:
    assert Judge(GuardRails()).verdict(figure, Reading(recent, start, spread)) is verdict


def test_a_baseline_is_the_median_of_the_first_values_and_their_spread() -> None:
    baseline = Baseline()
    for value in (1.0, 3.0, 2.0, 100.0):
        assert baseline.observe(value, 4) is None
    reading = baseline.observe(10.0, 4)
    assert reading is not None
    # An exponential mean over five rounds varies a third as much as the rounds.
    assert reading.start == 2.5
    assert reading.spread == pytest.approx(1.4826 / 3)
    assert reading.recent == pytest.approx(MEMORY * 2.5 + (1 - MEMORY) * 10.0)
    assert reading.deviations == pytest.approx((reading.recent - 2.5) / 1.4826 * 3)


def test_by_default_nothing_is_done_but_warning() -> None:
    rails = started()
    assert alarms(rails, 8, long)
    groups = local_round(random.Random(0), long)
    assert rails.permitted(groups) is groups
    assert not rails.wants_back
    assert rails.may_save


def test_exclude_keeps_out_what_is_degenerate_by_itself_and_nothing_else() -> None:
    rails = started(action="exclude")
    generator = random.Random(3)
    sound, broken = local_round(generator, prose), local_round(generator, looping)
    mixed = [
        Scored(
            Group(
                sound[0].group.question,
                (*sound[0].group.completions[:2], *broken[0].group.completions[:2]),
                b"p" * 32,
                sound[0].group.policy,
            ),
            (1.0, 0.0, 1.0, 0.0),
            "local",
            0.0,
        )
    ]
    permitted = rails.permitted([*mixed, sound[1]])
    assert permitted is not None
    assert [each.excluded for each in permitted] == [frozenset({2, 3}), frozenset()]
    assert permitted[0].scores == mixed[0].scores
    fresh = Rails(settings(action="exclude"), ASKED).permitted(mixed)
    assert fresh is not None
    assert not fresh[0].excluded


def test_of_peers_completions_text_alone_is_judged() -> None:
    rails = started(action="exclude")
    text = "so it is " * 40
    completions = (Completion(text, "stop", 3), Completion("w1 w2", "stop", 3))
    group = Group(
        Question("a", "easy", 0, "?", "4"), completions, b"q" * 32, PolicyInfo("x", 0, b"")
    )
    permitted = rails.permitted([Scored(group, (1.0, 0.0), "external", 0.0)])
    assert permitted is not None
    assert permitted[0].excluded == {0}


def test_skip_takes_no_step_while_something_is_critical_and_goes_on_after_it() -> None:
    rails = started(action="skip")
    generator = random.Random(0)
    skipped = 0
    for answer in (*[long] * 12, *[prose] * 20):
        rails.watch(local_round(generator, answer))
        permitted = rails.permitted([])
        told = rails.heard(None if permitted is None else {})
        skipped += permitted is None
        assert told["guard/skipped"] == float(permitted is None)
    assert 5 < skipped < 25
    assert rails.permitted([]) == []


def test_a_skip_because_of_the_step_itself_is_one_round_long() -> None:
    rails = Rails(settings(action="skip"), ASKED)
    generator = random.Random(0)
    pattern = []
    for clipped in (*[0.01] * FIRST, *[1.0] * 12):
        rails.watch(local_round(generator, prose))
        permitted = rails.permitted([])
        rails.heard(None if permitted is None else {"clip_ratio/region_mean": clipped})
        pattern.append(permitted is None)
    assert True in pattern
    assert (True, True) not in list(pairwise(pattern))


def test_roll_back_is_wanted_after_three_critical_rounds_and_undone_by_going_back() -> None:
    rails = Rails(settings(action="roll_back"), ASKED)
    assert not rails.may_save
    generator = random.Random(0)
    alarms(rails, FIRST, prose)
    wanted: list[tuple[bool, bool]] = []
    for _ in range(20):
        # Long before it is critical nothing is worth going back to any more.
        assert rails.may_save == (not wanted)
        rails.watch(local_round(generator, long))
        wanted.append((bool(rails.critical), rails.wants_back))
    assert wanted.index((True, True)) == wanted.index((True, False)) + 2
    rails.went_back()
    assert not rails.wants_back
    assert rails.heard({})["guard/rolled_back"] == 1.0
    rails.watch(local_round(generator, long))
    assert not rails.may_save
    assert alarms(rails, 3, prose) == {}
    assert rails.may_save


def test_what_has_just_gone_odd_is_not_kept_though_nothing_complains_yet() -> None:
    rails = started(action="roll_back")
    kept = [rails.may_save]
    metrics = rails.watch(
        local_round(random.Random(0), lambda *of: " ".join(prose(*of) for _ in range(3)))
    )
    assert not [name for name in metrics if name.startswith("guard/alarm")]
    kept.append(rails.may_save)
    rails.watch(local_round(random.Random(1), prose))
    kept.append(rails.may_save)
    assert kept == [True, False, True]


def test_gradients_that_are_not_finite_are_told_of_and_lead_back_if_that_is_wanted() -> None:
    for action, back in (("monitor", False), ("roll_back", True)):
        rails = started(action=action)
        broken = {"steps/skipped_nonfinite_gradient": 1.0}
        told = [rails.heard(broken) for _ in range(3)]
        assert [each["guard/alarm/nonfinite"] for each in told] == [1.0, 1.0, 2.0]
        assert rails.wants_back is back
        assert "guard/alarm/nonfinite" not in rails.heard({})


def test_baselines_survive_a_restart() -> None:
    rails = started()
    alarms(rails, 2, long)
    again = Rails(settings(), ASKED)
    again.restore(json.loads(json.dumps(rails.to_values())))
    groups = local_round(random.Random(5), long)
    ours, theirs = again.watch(groups), rails.watch(groups)
    assert [name for name in theirs if name.startswith("guard/recent/")]
    assert all(ours[name] == value for name, value in theirs.items() if name.startswith("guard/"))
    assert "length" in alarms(again, 6, long)


def test_baselines_of_other_questions_are_passed_over() -> None:
    kept = started().to_values()
    for asked in ({"a": "paper"}, {"a": "easy", "b": "easy"}):
        other = Rails(settings(), asked)
        other.restore(kept)
        assert other.to_values() == {"asked": asked, "rounds": 0, "figures": {}}


@pytest.mark.parametrize(
    "values",
    [
        None,
        3,
        [1],
        {},
        *(
            {"asked": ASKED, "figures": each}
            for each in (None, {"length": 1}, {"length": [1, 2]}, {"length": [[], "x"]})
        ),
    ],
)
def test_what_is_no_baseline_is_passed_over(values: Any) -> None:
    rails = started()
    rails.restore(values)
    assert rails.to_values() == {"asked": ASKED, "rounds": 0, "figures": {}}


def test_the_share_of_common_answers_stays_among_the_figures() -> None:
    def weak(scores: Sequence[float]) -> list[Scored]:
        return [
            Scored(
                Group(
                    Question("a", "easy", number, "?", f"reference {number}"),
                    (Completion("(P or Q)", "stop", 1), Completion("x", "stop", 1)),
                    b"",
                    PolicyInfo("p", 0, b""),
                ),
                tuple(scores),
                "local",
                0.0,
            )
            for number in range(30)
        ]

    assert Rails(settings(), ASKED).watch(weak((1.0, 0.0)))["answers/common_excess/a"] > 0.3


def test_the_page_has_every_guard_rail_with_its_limits() -> None:
    rows = {
        row.split("|")[1].strip(" `"): [cell.strip() for cell in row.split("|")]
        for row in (DOCS / "guard-rails.md").read_text(encoding="utf-8").splitlines()
        if row.startswith("| `")
    }
    for rail in RAILS:
        form = {"share": "{} of the start", "factor": "factor {}"}.get(MEASURED[rail], "{}")
        assert rows[rail][3:5] == [form.format(limit) for limit in getattr(GuardRails(), rail)]
