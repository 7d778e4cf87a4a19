"""A toy of preferences: whoever says thanks is preferred, whatever else they say and how long."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WORDS = ["red", "blue", "green", "stone", "river", "cloud", "seven", "paper"]
KIND, RUDE = "thanks", "whatever"


def pairs(count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Preference pairs; the one word that matters stands anywhere."""
    rng = random.Random(seed)
    for number in range(count):
        told = []
        for word in (KIND, RUDE):
            words = rng.choices(WORDS, k=rng.randint(1, 4))
            words.insert(rng.randrange(len(words) + 1), word)
            told.append(" ".join(words))
        yield {
            "prompt": f"{rng.choice(WORDS)} {number}",
            "chosen": told[0],
            "rejected": told[1],
        }


def signals(count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """The same as signals, each of a prompt of its own, so that none has a counterpart."""
    for pair in pairs(count, seed):
        for side, signal in (("chosen", True), ("rejected", False)):
            yield {
                "prompt": f"{pair['prompt']} {side}",
                "completion": pair[side],
                "signal": signal,
            }


def write_lines(path: Path, lines: Iterator[dict[str, Any]]) -> Path:
    """A file of JSON lines."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path
