"""What a node keeps of its rollouts: own ones as they are scored, peers' as they are admitted, and
what training made of either.

Between the values of a round and the rows of the store. Keeping never waits and never fails; how
much is kept is the store's limit. Log-probs and token ids are not kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from swarmnode.store.records import Evidence, NewRollout, Treatment
from swarmnode.store.store import Store
from swarmnode.types import Scored, Trained


class RolloutRecorder:
    """Hands a node's rollouts to its store; `round_under_way` is asked with each."""

    def __init__(self, store: Store, round_under_way: Callable[[], int]) -> None:
        self._store = store
        self._round_under_way = round_under_way

    def answered(self, local: Sequence[Scored]) -> None:
        """Own groups have been scored."""
        self._store.record_rollouts([self._new(scored, None) for scored in local])

    def admitted(self, scored: Scored, evidence: Evidence) -> None:
        """A peer's group has entered the pool."""
        self._store.record_rollouts([self._new(scored, evidence)])

    def learned(self, groups: Sequence[Scored], trained: Trained) -> None:
        """A step has been taken on these groups."""
        number = self._round_under_way()
        advantages = trained.advantages or [()] * len(groups)
        self._store.record_treated(
            [
                Treatment(
                    publisher=scored.group.publisher,
                    task=scored.group.question.task,
                    level=scored.group.question.level,
                    question=scored.group.question.index,
                    trained_in=None if treated.level == "out" else number,
                    content={
                        "round": number,
                        "correction": treated.level,
                        "why": treated.why,
                        "advantages": [_figure(value) for value in values],
                        "excluded": sorted(scored.excluded),
                    },
                )
                for scored, treated, values in zip(groups, trained.groups, advantages, strict=True)
            ]
        )

    def _new(self, scored: Scored, evidence: Evidence | None) -> NewRollout:
        group = scored.group
        return NewRollout(
            at=scored.received,
            own=scored.source == "local",
            publisher=group.publisher,
            task=group.question.task,
            level=group.question.level,
            question=group.question.index,
            successes=int(sum(scored.successes)),
            completions=len(scored.scores),
            round=self._round_under_way(),
            content=_content(scored),
            evidence=evidence,
        )


def _content(scored: Scored) -> Mapping[str, Any]:
    group = scored.group
    return {
        "question": group.question.text,
        "answer": group.question.answer,
        "policy": {"name": group.policy.name, "version": group.policy.version},
        "completions": [
            {
                "text": completion.text,
                "finish_reason": completion.finish_reason,
                "tokens": completion.token_count,
                "score": score,
            }
            for completion, score in zip(group.completions, scored.scores, strict=True)
        ],
    }


def _figure(value: float) -> float | None:
    """What JSON can have, rounded to what is worth reading."""
    return float(f"{value:.7g}") if math.isfinite(value) else None
