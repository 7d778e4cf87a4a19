"""What a round's own answers look like, as figures: texts and token ids in, numbers out.

Pure; knows no baseline and judges nothing. A figure that has no meaning in a round is missing.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from swarmnode.rewards.channels import repeated_share
from swarmnode.tasks import baseline
from swarmnode.types import Completion, Scored

REPEATED_TOKENS = 4
DISTINCT_TOKENS = 2
COMPRESSED_BYTES = 200
"""A shorter text compresses by what its header costs, not by what it says."""
SCRIPT_CHARACTERS = 80
"""Below so many characters of a script its whitespace is left to chance."""

SCRIPTS: Mapping[str, re.Pattern[str]] = {
    "hangul": re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]"),
    "han": re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]"),
    "cyrillic": re.compile("[\u0400-\u04ff]"),
    "arabic": re.compile("[\u0600-\u06ff]"),
    "latin": re.compile("[A-Za-z\u00c0-\u024f]"),
}
"""Letters of the scripts that are told apart."""
_SPACE = re.compile(r"\s")


def round_statistics(local: Sequence[Scored]) -> dict[str, float]:
    """All figures of a round's own groups, under the names of the guard-rails."""
    completions = [completion for scored in local for completion in scored.group.completions]
    tokens = [completion.token_ids for completion in completions if completion.token_ids]
    figures = {
        "repetition": _mean(repeated_share(ids, REPEATED_TOKENS) for ids in tokens),
        "distinct": distinct_over_questions(local),
        "compression": _mean(compression_ratio(completion.text) for completion in completions),
        "length": _mean(completion.token_count for completion in completions),
        "truncated": _mean(each.finish_reason == "length" for each in completions),
        "entropy": sampled_entropy(completions),
        "reward_length": reward_length_correlation(local),
    }
    whitespace = whitespace_shares(completion.text for completion in completions)
    figures |= {f"whitespace/{script}": share for script, share in whitespace.items()}
    return {name: value for name, value in figures.items() if value is not None}


def above_constants(local: Sequence[Scored]) -> dict[str, float]:
    """Success minus that of the best constant answer or shallow rule, by task, in [-1, 1].

    Only for tasks and levels where that was measured.
    """
    rates = defaultdict[str, list[float]](list)
    for scored in local:
        question = scored.group.question
        constant = baseline(question.task, question.level)
        if constant is not None:
            rates[question.task].append(scored.pass_rate - constant)
    return {task: sum(above) / len(above) for task, above in sorted(rates.items())}


def distinct_over_questions(local: Sequence[Scored]) -> float | None:
    """Different two-token sequences over all, among one answer to each question, in (0, 1].

    The mean over the answers' positions in their groups. Answers to one question may be alike
    because they are right; those to different questions have no such excuse.
    """
    places = zip(*(scored.group.completions for scored in local), strict=False)
    return _mean(
        distinct_share([each.token_ids for each in answers if each.token_ids], DISTINCT_TOKENS)
        for answers in places
    )


def distinct_share(sequences: Sequence[Sequence[int]], n: int) -> float | None:
    """Different n-grams over all n-grams of several sequences; None below two sequences.

    A sequence of fewer than n items is one n-gram.
    """
    if len(sequences) < 2:
        return None
    grams = [
        tuple(sequence[start : start + n])
        for sequence in sequences
        for start in range(max(1, len(sequence) - n + 1))
    ]
    return len(set(grams)) / len(grams)


def compression_ratio(text: str) -> float | None:
    """Bytes of UTF-8 over bytes that zlib makes of them; None below COMPRESSED_BYTES."""
    data = text.encode("utf-8", "surrogatepass")
    return len(data) / len(zlib.compress(data)) if len(data) >= COMPRESSED_BYTES else None


def script_of(text: str) -> str:
    """The script of most of its letters; "" for a text without any that is told apart."""
    counts = {name: len(pattern.findall(text)) for name, pattern in SCRIPTS.items()}
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] else ""


def whitespace_shares(texts: Iterable[str]) -> dict[str, float]:
    """Whitespace over all characters by script, where there are SCRIPT_CHARACTERS of it.

    Texts without letters are left out: grids and numbers have no words to part.
    """
    spaces, characters = defaultdict[str, int](int), defaultdict[str, int](int)
    for text in texts:
        if not (script := script_of(text)):
            continue
        spaces[script] += len(_SPACE.findall(text.strip()))
        characters[script] += len(text.strip())
    return {
        script: spaces[script] / count
        for script, count in sorted(characters.items())
        if count >= SCRIPT_CHARACTERS
    }


def sampled_entropy(completions: Sequence[Completion]) -> float | None:
    """Mean of minus the log-prob of each sampled token, in nats: an unbiased estimate of the
    entropy of sampling at its temperature. None where no log-probs are known."""
    known = [completion.logprobs for completion in completions if completion.logprobs]
    tokens = sum(map(len, known))
    return -sum(map(sum, known)) / tokens if tokens else None


def reward_length_correlation(local: Sequence[Scored]) -> float | None:
    """Spearman's correlation of success with length within groups, in [-1, 1].

    Ranks are taken and centred in each group, so that hard questions with long answers don't count.
    None without a group in which both differ.
    """
    products = squares_x = squares_y = 0.0
    for scored in local:
        lengths = centred_ranks([each.token_count for each in scored.group.completions])
        successes = centred_ranks(scored.successes)
        products += sum(x * y for x, y in zip(lengths, successes, strict=True))
        if any(lengths) and any(successes):
            squares_x += sum(x * x for x in lengths)
            squares_y += sum(y * y for y in successes)
    return products / (squares_x * squares_y) ** 0.5 if squares_x and squares_y else None


def centred_ranks(values: Sequence[float]) -> list[float]:
    """Ranks, equal values sharing the mean of theirs, minus the mean rank."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    ranks = [0.0] * len(values)
    first = 0
    for _, tied in groupby(order, key=lambda place: values[place]):
        places = list(tied)
        for place in places:
            ranks[place] = first + (len(places) - 1) / 2 - (len(values) - 1) / 2
        first += len(places)
    return ranks


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
