"""The scorer process: questions regenerated and completions scored behind a lock.

Started as `python -m swarmnode.scoring DESCRIPTOR SWARM_ID_HEX MEMORY_MIB [TASK:LEVEL ...]` with an
empty environment; wiring, no logic of tasks or verifiers. It imports reasoning-gym once, as a
zygote, and works in a fork under `rewards.sandbox.lock`, which the zygote kills and replaces when
it hangs. It holds no secret, and of what a peer says it uses nothing but the completions: question,
reference answer and metadata are regenerated, the peer's question is only compared.

A locked worker can import nothing, so one question of each of the nine tasks' levels is made
before; the arguments name the levels of other tasks that need the same.

Payloads are lists in the order of the handlers' names (`swarmnode.rewards.client` is the caller).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from typing import Any

from swarmnode.process import Handlers, inherited_socket, serve_forked
from swarmnode.rewards import VERIFIERS, sandbox, verify
from swarmnode.rewards.extraction import extract_answer
from swarmnode.rewards.verifiers import GRID_BYTES
from swarmnode.tasks import LEVELS, Catalogue, Instance, NoQuestion, TaskError
from swarmnode.tasks.catalogue import EVALUATION_KEY, REFERENCE_SWARM

Outcome = tuple[list[float], str | None]


def main(arguments: list[str]) -> None:
    """Serve until the parent hangs up."""
    swarm_id, memory_bytes = bytes.fromhex(arguments[1]), int(arguments[2]) << 20
    levels = [(task, level) for name in arguments[3:] for task, _, level in [name.partition(":")]]
    serve_forked(
        partial(prepare, swarm_id, levels),
        partial(sandbox.lock, memory_bytes),
        inherited_socket(arguments),
    )


def prepare(swarm_id: bytes, levels: Iterable[tuple[str, str]]) -> Handlers:
    """The handlers of a swarm, with all that its levels import."""
    catalogue = Catalogue(swarm_id)
    nine = [(task, level) for task in LEVELS for level in LEVELS[task]]
    for task, level in {*nine, *levels}:
        catalogue.held_out(task, level, 1)
    return handlers(catalogue)


def handlers(catalogue: Catalogue) -> Handlers:
    """What the process answers, by method."""

    def draw(payload: Any) -> Any:
        instances, next_index = catalogue.draw(*payload)
        return [_question(instance) for instance in instances], next_index

    def held_out(payload: Any) -> Any:
        return [_question(instance) for instance in catalogue.held_out(*payload)]

    def warm_start_pairs(payload: Any) -> Any:
        return catalogue.warm_start_pairs(*payload)

    def fingerprints(payload: Any) -> Any:
        return [catalogue.fingerprint(task, level) for task, level in payload]

    evaluation = Catalogue(REFERENCE_SWARM)

    def score(payload: Any) -> Any:
        return [score_group(catalogue, evaluation, *item) for item in payload]

    return {
        "draw": draw,
        "held_out": held_out,
        "warm_start_pairs": warm_start_pairs,
        "fingerprints": fingerprints,
        "score": score,
    }


def score_group(
    catalogue: Catalogue,
    evaluation: Catalogue,
    public_key: bytes,
    task: str,
    level: str,
    index: int,
    claimed_question: str | None,
    expect_held_out: bool,
    completions: list[tuple[str, str]],
) -> Outcome:
    """Scores of one question's completions (text, finish reason), or zeros and a rejection.

    Where held-out questions are expected, it is a question of the evaluation stream.
    """
    try:
        instance = (
            evaluation.question(EVALUATION_KEY, task, level, index)
            if expect_held_out
            else catalogue.question(public_key, task, level, index)
        )
        if claimed_question is not None and claimed_question != instance.question.text:
            raise NoQuestion
        if instance.held_out == expect_held_out:
            return [
                0.0 if finish_reason == "length" else _score(catalogue, instance, text)
                for text, finish_reason in completions
            ], None
        rejection = "held_out"
    except NoQuestion:
        rejection = "question_differs"
    except TaskError:
        rejection = "unknown_task"
    except Exception:
        # What reasoning-gym raises under the lock costs this group alone.
        rejection = "unscorable"
    return [0.0] * len(completions), rejection


def _score(catalogue: Catalogue, instance: Instance, text: str) -> float:
    question = instance.question
    if question.task in VERIFIERS:
        return verify(question.task, question.answer, instance.metadata, text)
    return catalogue.native_score(instance, extract_answer(text, GRID_BYTES) or "")


def _question(instance: Instance) -> list[object]:
    question = instance.question
    return [question.task, question.level, question.index, question.text, question.answer]


if __name__ == "__main__":
    main(sys.argv[1:])
