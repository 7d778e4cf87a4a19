"""A comparison in words and as plain values, for the screen, the page and programs. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from swarmnode.guard_rails.judgement import Verdict
from swarmnode.observe.words import counted, plain

if TYPE_CHECKING:
    from swarmnode.cli.checkpoints import Chosen
    from swarmnode.comparing import Contest
    from swarmnode.comparison import Against, Comparison, Example, Part, Rail
    from swarmnode.config.policy import PolicySettings
    from swarmnode.pass_rates import Interval

RAIL_WORDS: Mapping[str, str] = {
    "repetition": "repeated four-token sequences in an answer",
    "distinct": "different two-token sequences over answers",
    "compression": "bytes over compressed bytes of long answers",
    "length": "tokens an answer",
    "truncated": "cut off",
    "empty": "empty",
    "entropy": "entropy of sampling, nats a token",
    "reward_length": "correlation of success with length",
    "whitespace": "whitespace in text",
}


@dataclass(frozen=True, slots=True)
class Told:
    """Who was compared how, and what came of it."""

    contest: Contest
    chosen: tuple[Chosen | None, Chosen | None]
    found: Comparison


def who(told: Told, place: int) -> str:
    """A policy in a few words, safe to show: its model and step."""
    model = plain(told.contest.contestants[place].settings.policy.model)
    chosen = told.chosen[place]
    if chosen is None:
        return f"{model}, as it is"
    return f"{model}: {chosen.path.name} (round {chosen.origin.round})"


def where(told: Told, place: int) -> str:
    """The folder of a checkpoint, safe to show; empty for a model as it is."""
    chosen = told.chosen[place]
    return plain(str(chosen.path)) if chosen else ""


def verdict(found: Comparison) -> str:
    """The first sentence."""
    gap = found.mean.success.difference
    if math.isnan(gap.low):
        return "Too few questions to tell who is right more often."
    ends = f"{gap.low:+.3f} to {gap.high:+.3f}"
    if gap.low > 0 or gap.high < 0:
        first, second = "AB" if gap.low > 0 else "BA"
        return f"{first} is right more often than {second}: A - B = {gap.mean:+.3f} ({ends})."
    return f"No difference in success is seen: A - B = {gap.mean:+.3f} ({ends})."


def how(told: Told) -> str:
    """What was asked, and how to read it."""
    contest = told.contest
    return (
        f"{counted(contest.questions, 'held-out question')} a task, the same for both; "
        f"{counted(contest.samples, 'answer')} each, and one greedy. {_asked(told)} "
        "Intervals are 95 %, by question; tasks count equally. Win rate: answers of A against "
        "those of B with the same random seed, ties (both right or both wrong) counted half."
    )


def notes(told: Told) -> Sequence[str]:
    """What makes figures hard to compare."""
    found = []
    if len({_manner(each.settings.policy) for each in told.contest.contestants}) > 1:
        found.append(
            "The two were not asked alike; --set policy.NAME=VALUE sets the same for both."
        )
    if not told.found.same_tokenizer:
        found.append(
            "The two are not known to have the same tokens: compare lengths by characters."
        )
    return found


def rail_name(name: str) -> str:
    """A guard-rail's name in words."""
    rail, _, script = name.partition("/")
    return f"{RAIL_WORDS.get(rail, rail)}{f' ({script})' if script else ''}"


def worse(rail: Rail) -> str:
    """Which of the two would have warned, in a few words; empty for neither."""
    names = [
        f"{which} {'critical' if verdict is Verdict.CRITICAL else 'warns'}"
        for which, verdict in (("A", rail.verdict_a), ("B", rail.verdict_b))
        if verdict
    ]
    return ", ".join(names)


def document(told: Told) -> dict[str, Any]:
    """All of it as plain values; texts of models stand in it as they are."""
    found, contest = told.found, told.contest
    return {
        "a": _contestant(told, 0),
        "b": _contestant(told, 1),
        "questions_per_task": contest.questions,
        "samples": contest.samples,
        "same_tokenizer": found.same_tokenizer,
        "mean": _part(found.mean),
        "tasks": {
            task: {"level": dict(contest.pairs)[task], **_part(part)}
            for task, part in found.tasks.items()
        },
        "guard_rails": {
            name: {
                "a": _value(rail.a),
                "b": _value(rail.b),
                "verdict_a": rail.verdict_a.name.lower(),
                "verdict_b": rail.verdict_b.name.lower(),
            }
            for name, rail in found.rails.items()
        },
        "examples": {
            "better_a": [_example(each) for each in found.better_a],
            "better_b": [_example(each) for each in found.better_b],
        },
    }


def _contestant(told: Told, place: int) -> dict[str, Any]:
    policy = told.contest.contestants[place].settings.policy
    chosen = told.chosen[place]
    return {
        "model": policy.model,
        "checkpoint": chosen
        and {
            "path": str(chosen.path),
            "version": chosen.told.version,
            "round": chosen.origin.round,
        },
        "temperature": policy.temperature,
        "max_new_tokens": policy.new_tokens,
        "examples": policy.shown_examples,
        "instruction": policy.instruction,
    }


def _part(part: Part) -> dict[str, Any]:
    agreement = part.agreement
    return {
        "success": _against(part.success),
        "greedy": _against(part.greedy),
        "win_rate": _interval(part.win_rate),
        "wins": _value(agreement.only_a),
        "ties": _value(agreement.ties),
        "losses": _value(agreement.only_b),
        "both_right": _value(agreement.both),
        "neither_right": _value(agreement.neither),
        "tokens": _against(part.tokens),
        "characters": _against(part.characters),
    }


def _against(figure: Against) -> dict[str, Any]:
    return {
        "a": _interval(figure.a),
        "b": _interval(figure.b),
        "difference": _interval(figure.difference),
    }


def _interval(found: Interval) -> dict[str, float | None]:
    return {"mean": _value(found.mean), "low": _value(found.low), "high": _value(found.high)}


def _value(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else round(value, 6)


def _example(example: Example) -> dict[str, Any]:
    return {
        "task": example.task,
        "question": example.question,
        "reference": example.reference,
        "right_a": example.right_a,
        "right_b": example.right_b,
        "samples": example.samples,
        "answer_a": example.answer_a,
        "answer_b": example.answer_b,
    }


def _manner(policy: PolicySettings) -> tuple[float, int, int, str]:
    """How a policy is asked."""
    shown = policy.shown_examples
    return policy.temperature, policy.new_tokens, shown, policy.instruction


def _asked(told: Told) -> str:
    manners = [_manner(each.settings.policy) for each in told.contest.contestants]
    words = [
        f"temperature {temperature:g}, at most {tokens} tokens, {shown} examples"
        + (", an instruction" if instruction else "")
        for temperature, tokens, shown, instruction in manners
    ]
    if manners[0] == manners[1]:
        return f"Asked with {words[0]}."
    return f"A is asked with {words[0]}; B with {words[1]}."
