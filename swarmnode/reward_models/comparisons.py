"""What a reward model learns from: comparisons, out of preference pairs or signals of users.

A file has one JSON object a line: prompt, chosen and rejected, or prompt, completion and signal,
which may be mixed. Completions of one prompt with different signals are compared with each other;
where a prompt has none to compare with, a signal that is yes or no (true, false, 1, 0) is a
comparison with an opponent of strength 0. Pure but for reading the file.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_OF_A_PROMPT = 64
"""Comparisons that the signals of one prompt make at most: n of them would make n² / 2."""
_PAIR = {"prompt": str, "chosen": str, "rejected": str}
_SIGNAL = {"prompt": str, "completion": str, "signal": bool | int | float}
FEWEST_PROMPTS = 2
"""On each side of the split."""


class UnusableData(Exception):
    """Nothing can be learned from the file; the text is one line for the user."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Of two completions, the better and the worse; None is an opponent of strength 0."""

    prompt: str
    better: str | None
    worse: str | None


@dataclass(frozen=True, slots=True)
class Comparisons:
    """All that a file says."""

    every: Sequence[Comparison]
    left_out: int
    """Lines that say nothing: equal completions, signals without a difference."""


def read_comparisons(path: Path) -> Comparisons:
    """Read the file. Raises UnusableData, and OSError where it can't be read."""
    every: list[Comparison] = []
    signals: dict[str, list[tuple[str, float]]] = defaultdict(list)
    left_out = 0
    for number, said in _lines(path):
        if _has(said, _PAIR):
            if said["chosen"] == said["rejected"]:
                left_out += 1
            else:
                every.append(Comparison(said["prompt"], said["chosen"], said["rejected"]))
        elif _has(said, _SIGNAL) and abs(said["signal"]) <= sys.float_info.max:
            signals[said["prompt"]].append((said["completion"], float(said["signal"])))
        else:
            raise UnusableData(
                f"{path} line {number} has neither the texts prompt, chosen and rejected nor the "
                "texts prompt and completion with a number signal; correct it"
            )
    for prompt, told in signals.items():
        made, silent = _of_signals(prompt, told)
        every += made
        left_out += silent
    return Comparisons(every, left_out)


def split(
    comparisons: Sequence[Comparison], share: float, seed: int
) -> tuple[list[Comparison], list[Comparison]]:
    """What is trained on and what is held out, so that no prompt is in both.

    The prompts with the lowest digests are held out, as many as the share says. Raises UnusableData
    where there are too few.
    """
    prompts = sorted({one.prompt for one in comparisons}, key=lambda one: _digest(one, seed))
    count = max(FEWEST_PROMPTS, round(share * len(prompts)))
    if len(prompts) - count < FEWEST_PROMPTS:
        raise UnusableData(
            f"{len(prompts)} different prompts with something to compare are too few to train on "
            f"and to hold some out; {2 * FEWEST_PROMPTS} are the least, hundreds are better"
        )
    held = set(prompts[:count])
    return (
        [one for one in comparisons if one.prompt not in held],
        [one for one in comparisons if one.prompt in held],
    )


def _of_signals(prompt: str, told: Sequence[tuple[str, float]]) -> tuple[list[Comparison], int]:
    """Comparisons of a prompt's completions, and how many of these say nothing."""
    compared = [
        Comparison(prompt, one, other)
        for one, signal in told
        for other, less in told
        if signal > less and one != other
    ]
    if compared:
        spread = max(1, math.ceil(len(compared) / MOST_OF_A_PROMPT))
        return compared[::spread], 0
    if all(signal in (0.0, 1.0) for _, signal in told):
        return [
            Comparison(prompt, text, None) if signal else Comparison(prompt, None, text)
            for text, signal in told
        ], 0
    return [], len(told)


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open(encoding="utf-8") as file:
        try:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    said = json.loads(line)
                    yield number, said if isinstance(said, dict) else {}
        except ValueError as error:
            raise UnusableData(f"{path} is no file of JSON lines: {error}; correct it") from error


def _has(said: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(isinstance(said.get(name), kind) for name, kind in wanted.items())


def _digest(prompt: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\n{prompt}".encode("utf-8", "surrogatepass")).digest()
