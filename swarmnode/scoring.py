"""The scorer process: questions regenerated and completions scored behind a lock.

Started as `python -m swarmnode.scoring DESCRIPTOR SWARM_ID_HEX MEMORY_MIB COMPLETION_CPU_SECONDS
[TASK:LEVEL ...]` with an empty environment; wiring, no logic of tasks or verifiers. It imports
reasoning-gym once, as a zygote, and works in forks under `rewards.sandbox.lock`, which the zygote
kills and replaces when they hang. It holds no secret, and of what a peer says it uses nothing but
the completions: question, reference answer and metadata are regenerated, the peer's question is
only compared.

A locked worker can import nothing, so one question of each of the nine tasks' levels is made
before; the arguments name the levels of other tasks that need the same. A verifier that another
package brings judges its own answer once then, for what it may import.

Payloads are lists in the order of the handlers' names (`swarmnode.rewards.client` is the caller).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from swarmnode.process import Handlers, inherited_socket
from swarmnode.rewards import sandbox, verify, verify_by
from swarmnode.rewards.client import FromWorker
from swarmnode.tasks import LEVELS, Catalogue, Instance, NoQuestion, TaskError, brought_task
from swarmnode.tasks.catalogue import EVALUATION_KEY, REFERENCE_SWARM
from swarmnode.zygote import Progress, serve_forked

Verify = Callable[[str, str, Mapping[str, object], str], float]
Outcome = tuple[list[float], FromWorker | None]


def verify_any(task: str, answer: str, metadata: Mapping[str, object], completion: str) -> float:
    """`verify`, by the verifier of the package that brought the task where one did."""
    brought = brought_task(task)
    if brought is None:
        return verify(task, answer, metadata, completion)
    return verify_by(brought.verify, answer, metadata, completion)


def main(arguments: list[str], verify: Verify = verify_any) -> None:
    """Serve until the parent hangs up."""
    swarm_id, memory_bytes = bytes.fromhex(arguments[1]), int(arguments[2]) << 20
    levels = [(task, level) for name in arguments[4:] for task, _, level in [name.partition(":")]]
    scoring = Scoring(
        Catalogue(swarm_id), Catalogue(REFERENCE_SWARM), verify, cpu_seconds=float(arguments[3])
    )
    sandbox.rehearse(memory_bytes)
    serve_forked(
        partial(prepare, scoring, levels),
        partial(sandbox.lock, memory_bytes),
        inherited_socket(arguments),
    )


def prepare(scoring: Scoring, levels: Iterable[tuple[str, str]], progress: Progress) -> Handlers:
    """What the process answers, by method; imports and reads all that the levels need."""
    nine = [(task, level) for task in LEVELS for level in LEVELS[task]]
    for task, level in {*nine, *levels}:
        (instance,) = scoring.catalogue.held_out(task, level, 1)
        if brought_task(task) is not None:
            scoring.verify(task, instance.question.answer, instance.metadata, "nothing")
    return scoring.handlers(progress)


@dataclass(frozen=True, slots=True)
class Scoring:
    """The handlers of one swarm's scorer."""

    catalogue: Catalogue
    evaluation: Catalogue
    """The catalogue of the evaluation stream, which is the same in every swarm."""
    verify: Verify
    cpu_seconds: float = 0.0
    """CPU time that one completion may take before it ends this process; 0 for no limit."""

    def handlers(self, progress: Progress) -> Handlers:
        """The handlers by method; each takes its payload."""
        catalogue = self.catalogue

        def draw(payload: Any) -> Any:
            instances, next_index = catalogue.draw(*payload)
            return [_fields(instance) for instance in instances], next_index

        def score(payload: Any) -> Any:
            outcomes = []
            for place, item in enumerate(payload):
                progress.reach(place)
                outcomes.append(self.score_group(*item))
            return outcomes

        return {
            "draw": draw,
            "held_out": lambda payload: [_fields(each) for each in catalogue.held_out(*payload)],
            "warm_start_pairs": lambda payload: catalogue.warm_start_pairs(*payload),
            "fingerprints": lambda payload: [catalogue.fingerprint(*level) for level in payload],
            "score": score,
        }

    def score_group(
        self,
        public_key: bytes,
        task: str,
        level: str,
        index: int,
        claimed_question: str | None,
        expect_held_out: bool,
        completions: Sequence[tuple[str | None, str]],
    ) -> Outcome:
        """Scores of one question's completions (text, finish reason), or zeros and a rejection.

        A text of None stands for the question's own reference answer. Where held-out questions are
        expected, it is a question of the evaluation stream.
        """
        rejection: FromWorker
        try:
            instance = (
                self.evaluation.question(EVALUATION_KEY, task, level, index)
                if expect_held_out
                else self.catalogue.question(public_key, task, level, index)
            )
            if claimed_question is not None and claimed_question != instance.question.text:
                raise NoQuestion
            if instance.held_out == expect_held_out:
                return self._scores(instance, completions), None
            rejection = "held_out"
        except NoQuestion:
            rejection = "question_differs"
        except TaskError:
            rejection = "unknown_task"
        except MemoryError:
            # Ends the worker: a fresh one has all its memory again.
            raise SystemExit("out of memory") from None
        except Exception:
            # What reasoning-gym raises under the lock costs this group alone.
            rejection = "unscorable"
        return [0.0] * len(completions), rejection

    def _scores(
        self, instance: Instance, completions: Sequence[tuple[str | None, str]]
    ) -> list[float]:
        scores = []
        try:
            for text, finish_reason in completions:
                if self.cpu_seconds:
                    sandbox.limit_cpu(self.cpu_seconds)
                given = instance.question.answer if text is None else text
                scores.append(0.0 if finish_reason == "length" else self._score(instance, given))
        finally:
            if self.cpu_seconds:
                sandbox.limit_cpu(0.0)
        return scores

    def _score(self, instance: Instance, text: str) -> float:
        question = instance.question
        return self.verify(question.task, question.answer, instance.metadata, text)


def _fields(instance: Instance) -> list[object]:
    question = instance.question
    return [question.task, question.level, question.index, question.text, question.answer]


if __name__ == "__main__":
    main(sys.argv[1:])
