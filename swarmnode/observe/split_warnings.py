"""What a node can complain of whose generation and training are apart (docs/split.md)."""

from __future__ import annotations

from swarmnode.observe.facts import Facts, Severity, Warnable
from swarmnode.observe.words import counted, lasting

FAILURES_IN_A_ROW = 3
LONG_SECONDS = 900.0
"""Longer than a batch or a round of any model that one would train here."""
LONG_ROUNDS = 3.0
IDLE_SHARE = 0.5


def _failing(facts: Facts) -> dict[str, int]:
    found = sorted(facts.split.failures.items())
    return {name: count for name, count in found if count >= FAILURES_IN_A_ROW}


def _long(facts: Facts) -> float:
    return max(LONG_SECONDS, LONG_ROUNDS * facts.round_seconds)


def _held_back(facts: Facts) -> dict[str, float]:
    found = sorted(facts.split.held_back_seconds.items())
    return {name: seconds for name, seconds in found if seconds >= _long(facts)}


SPLIT_WARNABLES: tuple[Warnable, ...] = (
    Warnable(
        "generator-keeps-failing",
        Severity.ERROR,
        "A generator fails",
        lambda f: bool(_failing(f)),
        lambda f: (
            ", ".join(
                f"{name} failed {count} times in a row" for name, count in _failing(f).items()
            )
            + f": {f.split.problem}"
        ),
        "See `swarmnode logs`; with too little memory take fewer by `policy.generators`. It is "
        "tried again after growing pauses.",
        f"a generator failed {FAILURES_IN_A_ROW} times in a row",
        ("weights-not-handed-over",),
    ),
    Warnable(
        "weights-not-handed-over",
        Severity.ERROR,
        "Generators get no weights",
        lambda f: bool(f.split.publish_problem),
        lambda f: (
            f"The trainer's newest weights could not be handed over: {f.split.publish_problem}"
        ),
        "Make room where the line says, or set `policy.weights.channel` to the other one. It is "
        "tried again after growing pauses.",
        "the newest weights could not be handed to the generators",
    ),
    Warnable(
        "trainer-starved",
        Severity.WARNING,
        "The trainer has nothing to train on",
        lambda f: f.split.trainer_waits_seconds >= _long(f),
        lambda f: (
            f"The trainer has been waiting for groups for {lasting(f.split.trainer_waits_seconds)}."
        ),
        "`swarmnode status` shows what each generator does; `swarmnode logs` what ended one.",
        f"the trainer waited for {lasting(LONG_SECONDS)} and three rounds",
        ("generator-keeps-failing", "weights-not-handed-over"),
    ),
    Warnable(
        "generator-held-back",
        Severity.WARNING,
        "A generator is held back",
        lambda f: bool(_held_back(f)),
        lambda f: (
            ", ".join(
                f"{name} may begin nothing for {lasting(seconds)}"
                for name, seconds in _held_back(f).items()
            )
            + ": what it sampled would be too stale by the time it is trained on."
        ),
        "A generator that is slower than the others is of no use: take fewer by "
        "`policy.generators`, or allow more lag by `policy.max_policy_lag`.",
        f"a generator might begin nothing for {lasting(LONG_SECONDS)} and three rounds",
        ("trainer-starved", "training-keeps-failing", "weights-not-handed-over"),
    ),
    Warnable(
        "trainer-idle",
        Severity.INFO,
        "The trainer is idle much of the time",
        lambda f: f.split.trainer_idle_share >= IDLE_SHARE,
        lambda f: (
            f"The trainer waited for groups in {f.split.trainer_idle_share:.0%} of its time lately;"
            f" there {'is' if f.split.generators == 1 else 'are'} "
            f"{counted(f.split.generators, 'generator')}."
        ),
        "Where there is room, take more by `policy.generators`; on a processor `policy.mode=sync` "
        "with `policy.threads` may do as well.",
        f"the trainer waited in {IDLE_SHARE:.0%} of its time over eight rounds",
        ("trainer-starved", "generator-keeps-failing", "weights-not-handed-over"),
    ),
    Warnable(
        "generators-idle",
        Severity.INFO,
        "Generators are idle much of the time",
        lambda f: f.split.generators_idle_share >= IDLE_SHARE,
        lambda f: (
            f"{counted(f.split.generators, 'generator')} might begin nothing in "
            f"{f.split.generators_idle_share:.0%} of the time lately: the trainer is slower."
        ),
        "Nothing, if there is one; else take fewer by `policy.generators`, and give the trainer "
        "their cores by `policy.threads`.",
        f"all generators were held back in {IDLE_SHARE:.0%} of their time over eight batches",
        ("generator-held-back", "training-keeps-failing", "weights-not-handed-over"),
    ),
)
