"""What the benchmark of the scorer gives it: groups with answers of a usual length, by key.

Half of a group's completions are right. Questions come from the catalogue itself, so that all of
them regenerate.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from functools import cache

from swarmnode.tasks import LEVELS, Catalogue, Instance
from swarmnode.types import Completion, Group, PolicyInfo
from swarmproto import SwarmRules, public_key_of, swarm_id

NINE = tuple(sorted(LEVELS))
RULES = SwarmRules("scorer benchmark", tuple((task, "easy") for task in NINE), 2, 64, 512, 64)
SWARM = swarm_id(RULES)
COMPLETIONS = 8
TOKENS = 64
REASONING_CHARACTERS = 300
POLICY = PolicyInfo("tiny", 3, bytes(32))


def private_key(number: int) -> bytes:
    """A key by number, fit for a benchmark alone."""
    return hashlib.sha256(b"scorer benchmark" + number.to_bytes(8, "big")).digest()


def public_key(number: int) -> bytes:
    """Its public half."""
    return public_key_of(private_key(number))


def made(number: int, levels: Sequence[tuple[str, str]], count: int) -> list[Group]:
    """`count` groups of a key, whose tasks and levels take turns."""
    rng = random.Random(number)
    each = -(-count // len(levels))
    streams = [_questions(number, task, level, each) for task, level in levels]
    turns = [stream[place] for place in range(each) for stream in streams]
    return [_group(instance, public_key(number), rng) for instance in turns[:count]]


@cache
def _questions(number: int, task: str, level: str, count: int) -> Sequence[Instance]:
    return Catalogue(SWARM).draw(public_key(number), task, level, 0, count)[0]


def _group(instance: Instance, publisher: bytes, rng: random.Random) -> Group:
    right = instance.question.answer
    wrong = "".join(reversed(right)) + "1"
    texts = [
        f"{_reasoning(rng)}<answer>{right if place % 2 else wrong}</answer>"
        for place in range(COMPLETIONS)
    ]
    completions = tuple(
        Completion(text, "stop", TOKENS, logprobs=(-0.5,) * TOKENS) for text in texts
    )
    return Group(instance.question, completions, publisher, POLICY)


def _reasoning(rng: random.Random) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz 0123456789+-="
    return "".join(rng.choices(letters, k=REASONING_CHARACTERS))
