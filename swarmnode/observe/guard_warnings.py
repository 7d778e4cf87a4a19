"""What the guard-rails complain of in a node's own answers, in words (docs/guard-rails.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from swarmnode.observe.facts import Alarm, Facts, Severity, Warnable
from swarmnode.observe.words import counted

_ALARM = "guard/alarm/"
LOOK = "Look at the answers with `swarmnode rollouts --peer own`"


class RailWords(NamedTuple):
    """A guard-rail in words; its code is guard- and its name."""

    name: str
    title: str
    text: str
    """What the figure is, up to its value."""
    fix: str


RAIL_WORDS = (
    RailWords(
        "repetition",
        "Answers repeat themselves",
        "Share of four-token sequences that an answer has said before",
        f"{LOOK}; a penalty is `rewards.channels.repetition.weight`. If they are no answers any "
        "more, go back to an earlier checkpoint and lower `training.learning_rate`.",
    ),
    RailWords(
        "distinct",
        "All questions get the same answer",
        "Share of different two-token sequences in answers to different questions",
        f"{LOOK}; something is rewarded whatever the question. Leave that task out, or go back to "
        "an earlier checkpoint.",
    ),
    RailWords(
        "compression",
        "Answers say little in many words",
        "Bytes of an answer over its compressed bytes",
        f"{LOOK}; a length that is wanted is set by `rewards.channels.length.weight`.",
    ),
    RailWords(
        "whitespace",
        "Answers lose their whitespace",
        "Share of whitespace in answers of one script",
        f"{LOOK}; a verifier that ignores whitespace pays for text without it. Keep "
        "`training.ratio_level` at `token`.",
    ),
    RailWords(
        "length",
        "Answers change their length",
        "Mean length of an answer in tokens",
        f"{LOOK}; if length is all that changes, set `rewards.channels.length.weight`.",
    ),
    RailWords(
        "truncated",
        "Answers are cut off",
        "Share of answers that were cut off",
        "Raise `policy.max_new_tokens`, or set `rewards.channels.overlong.weight`.",
    ),
    RailWords(
        "entropy",
        "Sampling has lost, or gained, its variety",
        "Entropy of sampling in nats",
        "If it falls, nothing new will be found: lower `training.learning_rate` or raise "
        "`training.clip_high`. If it rises, the policy comes apart: go back to a checkpoint.",
    ),
    RailWords(
        "kl",
        "The policy is far from its start",
        "Divergence from the reference in nats per token",
        "Raise `training.kl_weight`, or lower `training.learning_rate`.",
    ),
    RailWords(
        "reward_length",
        "Success goes with length",
        "Rank correlation of success with length among answers to one question",
        f"{LOOK}; a verifier may pay for length, or `policy.max_new_tokens` may cut off right "
        "answers.",
    ),
    RailWords(
        "clipped",
        "The clip holds back much of the step",
        "Share of trained tokens held back by the clip",
        "Lower `training.learning_rate` or `training.inner_steps`.",
    ),
)


def alarms_of(metrics: Mapping[str, float]) -> Mapping[str, Alarm]:
    """What a round's metrics complain of, by the guard-rails' names."""
    names = [name.removeprefix(_ALARM) for name in metrics if name.startswith(_ALARM)]
    return {
        name: Alarm(
            critical=metrics[f"{_ALARM}{name}"] > 1.0,
            recent=metrics.get(f"guard/recent/{name}", metrics.get(f"guard/value/{name}", 0.0)),
            start=metrics.get(f"guard/start/{name}", 0.0),
        )
        for name in names
    }


def _alarm(facts: Facts, rail: str) -> tuple[str, Alarm] | None:
    """The worst alarm of a guard-rail, with the script where it has one."""
    found = [
        (name, alarm) for name, alarm in facts.alarms.items() if name.partition("/")[0] == rail
    ]
    return max(found, key=lambda each: each[1].critical, default=None)


def _text(rail: str, what: str) -> Callable[[Facts], str]:
    def text(facts: Facts) -> str:
        found = _alarm(facts, rail)
        assert found is not None
        name, alarm = found
        script = f" ({name.partition('/')[2]})" if "/" in name else ""
        far = " This is critical." if alarm.critical else ""
        return f"{what}{script}: {alarm.recent:.2g} now, {alarm.start:.2g} at first.{far}"

    return text


def _applies(rail: str) -> Callable[[Facts], bool]:
    return lambda facts: _alarm(facts, rail) is not None


GUARD_WARNABLES: tuple[Warnable, ...] = (
    *(
        Warnable(
            f"guard-{each.name.replace('_', '-')}",
            Severity.WARNING,
            each.title,
            _applies(each.name),
            _text(each.name, each.text),
            each.fix,
            f"`guard_rails.{each.name}` is passed, over a few rounds, and left its usual range",
        )
        for each in RAIL_WORDS
    ),
    Warnable(
        "guard-nonfinite",
        Severity.ERROR,
        "Gradients are not finite",
        _applies("nonfinite"),
        lambda f: (
            f"The last {f.alarms['nonfinite'].recent:.0f} steps had NaN or infinity in their "
            "gradient and were not taken."
        ),
        "Lower `training.learning_rate`; with a precision below float32, raise it. If it stays, go "
        "back to an earlier checkpoint.",
        "a gradient held NaN or infinity in the last round",
    ),
    Warnable(
        "guard-rolled-back",
        Severity.WARNING,
        "The policy was set back",
        lambda f: f.rolled_back > 0,
        lambda f: (
            f"Guard-rails set the policy back {counted(f.rolled_back, 'time')} since the start; "
            "what it had learned since its last good checkpoint is gone."
        ),
        "If it happens again the cause is still there: lower `training.learning_rate`, or see what "
        "is rewarded with `swarmnode rollouts --peer own`.",
        "a guard-rail set the policy back, which `guard_rails.action` = `roll_back` lets it do",
    ),
)
