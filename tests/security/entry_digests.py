"""Digests of regenerated questions, for comparing processes.

Run as a program it prints those of all levels as JSON.
"""

from __future__ import annotations

import hashlib
import json

from swarmnode.tasks import DEFAULT, ENABLED, LEVELS, Catalogue, NoQuestion

SWARM = hashlib.sha256(b"a swarm").digest()
KEY = hashlib.sha256(b"a peer").digest()
NINE = [(task, level) for task in LEVELS for level in LEVELS[task]]
FAR_APART = (0, 1, 2, 500, 10**6, 2**32 - 1)


def described(task: str, level: str) -> list[str]:
    """A digest of questions, answers and metadata far apart in a stream, and the fingerprint."""
    catalogue = Catalogue(SWARM)
    fingerprint = catalogue.fingerprint(task, level).hex()
    return [task, level, _digest(catalogue, task, level, FAR_APART), fingerprint]


def everything() -> list[list[str]]:
    """The nine tasks as described; of the others, which take longer, fewer questions."""
    catalogue = Catalogue(SWARM)
    others = [[task, _digest(catalogue, task, DEFAULT, FAR_APART[::2])] for task in sorted(ENABLED)]
    return [described(task, level) for task, level in NINE] + others


def _digest(catalogue: Catalogue, task: str, level: str, indices: tuple[int, ...]) -> str:
    digest = hashlib.sha256()
    for index in indices:
        try:
            instance = catalogue.question(KEY, task, level, index)
        except NoQuestion:
            continue
        question = instance.question
        told = [question.text, question.answer, instance.metadata, instance.held_out]
        digest.update(json.dumps(told, sort_keys=True).encode())
    return digest.hexdigest()


if __name__ == "__main__":
    print(json.dumps(everything()))
