"""Every question that the swarm can ask: exact regeneration, draws, evaluation and warm start.

Pure apart from caches, synchronous; runs in the scorer process. Knows no completions. Invariants:
a question is a function of (swarm id, public key, task, level, index); a held-out question is
never drawn nor warm-started on; evaluation and warm start have streams of their own, which no
peer's key can have and which are the same in every swarm, so that results compare.
Source: protocol/README.md (streams, held-out rule, fingerprints).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import swarmproto
from swarmnode.tasks.drafts import Draft
from swarmnode.tasks.errors import NoQuestion
from swarmnode.tasks.registry import source_of
from swarmnode.types import Question

REFERENCE_SWARM = bytes(swarmproto.SWARM_ID_BYTES)
"""The swarm id of the evaluation and warm-start streams."""

EVALUATION_KEY = hashlib.sha256(b"swarmnode evaluation stream").digest()

CACHED_QUESTIONS = 8192
FRUITLESS_INDICES = 5000
"""Indices in a row without a wanted question, after which a level counts as too small."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A regenerated question with what its verifier needs."""

    question: Question
    metadata: Mapping[str, object]
    """The keys of the contract in swarmnode/tasks/levels.py or, at level default, in native.py."""
    held_out: bool
    seed: int
    """The stream's seed, which stays in this process."""


class Catalogue:
    """The questions of one swarm."""

    def __init__(self, swarm_id: bytes) -> None:
        """`swarm_id` has 32 bytes."""
        self._swarm_id = swarm_id
        self._instance: Callable[[int, str, str, int], Instance | None] = lru_cache(
            CACHED_QUESTIONS
        )(_make_instance)

    def question(self, public_key: bytes, task: str, level: str, index: int) -> Instance:
        """The question at `index` (0 to 2**32 - 1) of a key's stream.

        Raises:
            UnknownTask, RefusedTask: for a name that is not enabled.
            NoQuestion: when nothing that can be scored is at the index.
        """
        seed = swarmproto.stream_seed(self._swarm_id, public_key, task, level)
        instance = self._instance(seed, task, level, index)
        if instance is None:
            raise NoQuestion(f"{task}:{level} has no question at index {index}; take another")
        return instance

    def draw(
        self, public_key: bytes, task: str, level: str, start: int, count: int
    ) -> tuple[list[Instance], int]:
        """The next `count` questions from index `start` that may be trained on, and the next index.

        Raises UnknownTask, RefusedTask, and NoQuestion when the stream ends before.
        """
        seed = swarmproto.stream_seed(self._swarm_id, public_key, task, level)
        drawn = self._collect(
            seed, task, level, start, count, lambda instance: not instance.held_out
        )
        return drawn, drawn[-1].question.index + 1 if drawn else start

    def held_out(self, task: str, level: str, count: int) -> list[Instance]:
        """The first `count` evaluation questions: held out, with distinct texts.

        Raises UnknownTask, RefusedTask, and NoQuestion when the level has fewer.
        """
        seed = swarmproto.stream_seed(REFERENCE_SWARM, EVALUATION_KEY, task, level)
        seen: set[str] = set()

        def unseen(instance: Instance) -> bool:
            text = instance.question.text
            new = instance.held_out and text not in seen
            seen.add(text)
            return new

        return self._collect(seed, task, level, 0, count, unseen)

    def warm_start_pairs(
        self, task: str, level: str, seed: int, count: int
    ) -> list[tuple[str, str]]:
        """`count` questions with the answers that a policy should write; `seed` is below 2**64.

        Raises UnknownTask, RefusedTask, NoQuestion.
        """
        key = hashlib.sha256(b"swarmnode warm-start stream" + seed.to_bytes(8, "big")).digest()
        drawn, _ = Catalogue(REFERENCE_SWARM).draw(key, task, level, 0, count)
        return [(instance.question.text, instance.question.answer) for instance in drawn]

    def fingerprint(self, task: str, level: str) -> bytes:
        """32 bytes that are equal wherever the level asks and answers alike.

        Raises UnknownTask, RefusedTask, NoQuestion.
        """
        seed = swarmproto.reference_seed(task, level)
        instances = [
            self._instance(seed, task, level, index)
            for index in range(swarmproto.FINGERPRINT_PAIRS)
        ]
        pairs = [
            (instance.question.text, instance.question.answer) if instance else ("", "")
            for instance in instances
        ]
        return swarmproto.fingerprint(task, level, pairs)

    def _collect(
        self,
        seed: int,
        task: str,
        level: str,
        start: int,
        count: int,
        wanted: Callable[[Instance], bool],
    ) -> list[Instance]:
        found: list[Instance] = []
        fruitless = 0
        for index in range(start, swarmproto.INDEX_MAX + 1):
            if len(found) == count or fruitless == FRUITLESS_INDICES:
                break
            instance = self._instance(seed, task, level, index)
            if instance is not None and wanted(instance):
                found.append(instance)
                fruitless = 0
            else:
                fruitless += 1
        if len(found) < count:
            raise NoQuestion(
                f"{task}:{level} gave {len(found)} of {count} questions; ask for fewer or take "
                "another level"
            )
        return found


def _make_instance(seed: int, task: str, level: str, index: int) -> Instance | None:
    draft = source_of(task, level).draft(seed, index)
    if draft is None or not _fits(draft):
        return None
    return Instance(
        question=Question(task, level, index, draft.text, draft.answer),
        metadata=draft.metadata,
        held_out=swarmproto.is_held_out(task, level, draft.text),
        seed=seed,
    )


def _fits(draft: Draft) -> bool:
    """Whether question and answer may travel in a record."""
    return (
        len(draft.text.encode()) <= swarmproto.QUESTION_BYTES_MAX
        and 0 < len(draft.answer.encode()) <= swarmproto.ANSWER_BYTES_MAX
    )
