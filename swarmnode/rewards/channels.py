"""Reward channels: what training is paid in.

A channel is a pure function of one completion. `accuracy` is made of the verifier's score, where
groups are scored; the further ones, of text and token ids of our own tokenizer, where these are
known. The accuracy channel alone decides which groups are live, what the non-zero-advantage filter
keeps and what peers are credited with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from swarmnode.config.channels import Channels
from swarmnode.rewards.extraction import CLOSING_TAG, OPENING_TAG
from swarmnode.types import SUCCESS_THRESHOLD, Completion, Scored


def accuracy(completion: Completion, score: float, *, partial_credit: bool = False) -> float:
    """1.0 for a success, else 0.0; with `partial_credit` the score itself. Truncated earns 0.0."""
    if completion.finish_reason == "length":
        return 0.0
    return score if partial_credit else float(score >= SUCCESS_THRESHOLD)


def rewards(scored: Scored, *, partial_credit: bool = False) -> tuple[float, ...]:
    """The accuracy channel of each completion of a group."""
    pairs = zip(scored.group.completions, scored.scores, strict=True)
    return tuple(accuracy(*pair, partial_credit=partial_credit) for pair in pairs)


def smooth_length(tokens: int, target: int, tolerance: float) -> float:
    """exp(-d²/2) in (0, 1], d being the distance from `target` over `tolerance` times `target`.

    It changes by at most 0.61 / (tolerance * target) per token (the steepest point of the bell).
    """
    distance = (tokens - target) / (tolerance * target)
    return math.exp(-0.5 * distance * distance)


def step_length(tokens: int, target: int) -> float:
    """1.0 up to `target` tokens, 0.0 beyond (GDPO, arXiv 2601.05242)."""
    return float(tokens <= target)


def overlong(tokens: int, limit: int, soft: int) -> float:
    """DAPO's soft overlong penalty in [-1, 0] (arXiv 2503.14476, eq. 13).

    It grows linearly over the last `soft` tokens before `limit`.
    """
    if tokens > limit:
        return -1.0
    excess = tokens - (limit - soft)
    return -excess / soft if excess > 0 else 0.0


def one_answer_block(text: str) -> float:
    """1.0 if the text has one opening and one closing tag with something between, else 0.0."""
    start, end = text.find(OPENING_TAG), text.find(CLOSING_TAG)
    single = text.count(OPENING_TAG) == text.count(CLOSING_TAG) == 1
    return float(single and bool(text[start + len(OPENING_TAG) : max(end, 0)].strip()))


def repeated_share(items: Sequence[object], n: int) -> float:
    """Of the n-grams of a sequence, the share that was there before: 1 - unique / all, in [0, 1).

    0.0 for a sequence of fewer than n items.
    """
    count = len(items) - n + 1
    if count < 1:
        return 0.0
    unique = len(set(zip(*(items[start : start + count] for start in range(n)), strict=True)))
    return 1.0 - unique / count


@dataclass(frozen=True, slots=True)
class Paid:
    """What the further channels look at of one completion."""

    prompt: str
    text: str
    token_ids: Sequence[int]
    """In our own tokenizer, the end token included."""
    success: bool


def further_channels(
    completions: Sequence[Paid], settings: Channels, limit_tokens: int
) -> Mapping[str, tuple[float, ...]]:
    """The rewards of all channels that count but accuracy, by name, one per completion.

    `limit_tokens` is our policy's longest completion. NaN where a channel has nothing to say.
    """
    return {
        name: tuple(channel(completion) for completion in completions)
        for name, channel in _channels(settings, limit_tokens).items()
        if name in settings.weights
    }


def _channels(settings: Channels, limit_tokens: int) -> Mapping[str, Callable[[Paid], float]]:
    length, wanted, ngram = settings.length, settings.format.wanted, settings.repetition.ngram
    limit = settings.overlong.limit_tokens or limit_tokens
    soft = round(settings.overlong.soft_share * limit)

    def length_reward(paid: Paid) -> float:
        if length.only_successes and not paid.success:
            return 0.0
        if length.form == "step":
            return step_length(len(paid.token_ids), length.target_tokens)
        return smooth_length(len(paid.token_ids), length.target_tokens, length.tolerance)

    def format_reward(paid: Paid) -> float:
        asked = wanted == "always" or OPENING_TAG in paid.prompt
        return one_answer_block(paid.text) if asked else math.nan

    return {
        "format": format_reward,
        "length": length_reward,
        "overlong": lambda paid: overlong(len(paid.token_ids), limit, soft),
        "repetition": lambda paid: -repeated_share(paid.token_ids, ngram),
    }
