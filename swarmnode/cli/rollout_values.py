"""A kept rollout as plain values: what `rollouts --json` and `export rollouts` write.

The fields are described in docs/data.md; they are only ever added to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from swarmnode.provenance import Signed
    from swarmnode.store.records import StoredRollout

_BUNDLES_LOOKED_THROUGH = 16
"""After an own rollout was scored: it leaves in one of the next."""


def signature_of(database: Path, stored: StoredRollout) -> Signed | None:
    """The signature over a rollout, checked here and now; None where none is kept.

    Raises sqlite3.Error for a store that can't be read.
    """
    from swarmnode.provenance import found_in, signed
    from swarmnode.store.reading import bundles_from

    rollout = stored.rollout
    if rollout.evidence is not None:
        return signed(rollout, rollout.evidence.header, rollout.evidence.group)
    if not rollout.own:
        return None
    return found_in(rollout, bundles_from(database, rollout.at, _BUNDLES_LOOKED_THROUGH))


def values_of(stored: StoredRollout, signature: Signed | None) -> dict[str, Any]:
    """As JSON has it; texts as they came."""
    from swarmnode.keys import peer_id_of

    rollout, treatment = stored.rollout, stored.treatment
    return {
        "id": stored.number,
        "time": rollout.at,
        "own": rollout.own,
        "peer_id": peer_id_of(rollout.publisher),
        "public_key": rollout.publisher.hex(),
        "task": rollout.task,
        "level": rollout.level,
        "index": rollout.question,
        "round": rollout.round,
        "trained_in": stored.trained_in,
        "correction": treatment.get("correction"),
        "why": treatment.get("why"),
        "policy": rollout.content["policy"],
        "question": rollout.content["question"],
        "answer": rollout.content["answer"],
        "pass_rate": rollout.successes / rollout.completions,
        "completions": completions_of(stored),
        "served_by": rollout.evidence.holder if rollout.evidence else None,
        "signature": None if signature is None else asdict(signature),
    }


def completions_of(stored: StoredRollout) -> list[Mapping[str, Any]]:
    """Each answer with its score, whether that is a success, and what the step made of it."""
    from swarmnode.types import SUCCESS_THRESHOLD

    kept = stored.rollout.content["completions"]
    advantages = stored.treatment.get("advantages") or [None] * len(kept)
    excluded = stored.treatment.get("excluded") or ()
    return [
        {
            **completion,
            "success": completion["score"] >= SUCCESS_THRESHOLD,
            "advantage": advantage,
            "excluded": at in excluded,
        }
        for at, (completion, advantage) in enumerate(zip(kept, advantages, strict=True))
    ]
