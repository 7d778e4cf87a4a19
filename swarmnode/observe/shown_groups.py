"""A few of the groups that a step was given, as they may be shown: texts, scores, advantages.

The texts are as they came; whoever shows them makes them safe. Bounded in number and length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swarmnode.types import Scored, Trained, TrainedGroup

MOST_GROUPS = 4
MOST_COMPLETIONS = 8
MOST_CHARACTERS = 1200


@dataclass(frozen=True, slots=True)
class ShownCompletion:
    """One answer."""

    text: str
    score: float
    """The verifier's, in [0, 1]."""
    success: bool
    advantage: float | None
    """What the step made of it; None where the step did not look at it."""
    cut_off: bool
    """Whether it was still going on at the limit."""


@dataclass(frozen=True, slots=True)
class ShownGroup:
    """One question with its answers."""

    round: int
    """Of the step."""
    publisher: str
    """The first eight bytes of its key, in hex; `own` for the node's own."""
    task: str
    level: str
    question: str
    answer: str
    """The reference."""
    level_of_correction: str
    """What the step made of the group (docs/losses.md)."""
    why: str
    completions: tuple[ShownCompletion, ...]
    more: int
    """Completions that are left out here."""


def shown_groups(number: int, groups: Sequence[Scored], trained: Trained) -> Sequence[ShownGroup]:
    """Of a step, own and peers' groups in turn, those first that teach something."""
    advantages = trained.advantages or [()] * len(groups)
    shown = [
        (
            scored.source,
            scored.live,
            _shown(number, scored, treated, each),
        )
        for scored, treated, each in zip(groups, trained.groups, advantages, strict=True)
    ]
    sides = [
        [group for side, live, group in sorted(shown, key=lambda one: not one[1]) if side == source]
        for source in ("local", "external")
    ]
    longest = max(map(len, sides))
    in_turn = [side[at] for at in range(longest) for side in sides if at < len(side)]
    return in_turn[:MOST_GROUPS]


def _shown(
    number: int, scored: Scored, treated: TrainedGroup, advantages: Sequence[float]
) -> ShownGroup:
    group = scored.group
    known: Sequence[float | None] = advantages or [None] * len(group.completions)
    every = [
        ShownCompletion(
            cut(completion.text), score, success == 1.0, advantage,
            completion.finish_reason == "length",
        )
        for completion, score, success, advantage in zip(
            group.completions, scored.scores, scored.successes, known, strict=True
        )
    ]  # fmt: skip
    return ShownGroup(
        round=number,
        publisher="own" if scored.source == "local" else group.publisher[:8].hex(),
        task=group.question.task,
        level=group.question.level,
        question=cut(group.question.text),
        answer=cut(group.question.answer),
        level_of_correction=treated.level,
        why=treated.why,
        completions=tuple(every[:MOST_COMPLETIONS]),
        more=max(0, len(every) - MOST_COMPLETIONS),
    )


def cut(text: str) -> str:
    """Both ends of a long text."""
    half = MOST_CHARACTERS // 2
    return text if len(text) <= MOST_CHARACTERS else f"{text[:half]} … {text[-half:]}"
