"""Reward channels: what training is paid in, made of verifiers' scores.

A channel is a pure function of a completion and its score, so that more of them (length, format)
can stand beside `accuracy`. The accuracy channel alone decides which groups are live, what the
non-zero-advantage filter keeps and what peers are credited with.
"""

from __future__ import annotations

from swarmnode.types import SUCCESS_THRESHOLD, Completion, Scored


def accuracy(completion: Completion, score: float, *, partial_credit: bool = False) -> float:
    """1.0 for a success, else 0.0; with `partial_credit` the score itself. Truncated earns 0.0."""
    if completion.finish_reason == "length":
        return 0.0
    return score if partial_credit else float(score >= SUCCESS_THRESHOLD)


def rewards(scored: Scored, *, partial_credit: bool = False) -> tuple[float, ...]:
    """The accuracy channel of each completion of a group, which is what training takes."""
    pairs = zip(scored.group.completions, scored.scores, strict=True)
    return tuple(accuracy(*pair, partial_credit=partial_credit) for pair in pairs)
