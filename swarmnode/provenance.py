"""Where a kept rollout comes from: its signature, checked anew from the bytes that were kept. Pure.

A peer's rollout is kept with its bundle's signed header and its own bytes; an own one is looked for
in the bundles that were published. What is claimed is never taken from the row alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from swarmnode.store.records import NewRollout, PublishedBundle
from swarmproto import GroupRecord, WireError, bundle_id, decode_group, open_header, verify_group

SWARM_ID = slice(5, 37)
"""Where an envelope has it: after magic and version (protocol/README.md, section 5)."""


@dataclass(frozen=True, slots=True)
class Signed:
    """A signature that was found, and what it signs."""

    verified: bool
    problem: str
    """Why it is not verified, in a few words; empty where it is."""
    bundle_id: str = ""
    """In hex, as all below but the numbers."""
    sequence: int | None = None
    created: float | None = None
    """When the author says that it made the bundle, in seconds since 1970."""
    swarm_id: str = ""
    sent_completions: int = 0
    """How many completions the author sent; fewer may be kept."""


def signed(rollout: NewRollout, header: bytes, encoded: bytes) -> Signed:
    """Check that the author of a rollout signed it: key, hash, and what was kept of it."""
    try:
        opened = open_header(header, header[SWARM_ID])
        position = opened.group_hashes.index(hashlib.sha256(encoded).digest())
        verify_group(opened, position, encoded)
        record = decode_group(encoded)
    except WireError as error:
        return Signed(verified=False, problem=str(error))
    except ValueError:
        return Signed(verified=False, problem="the header does not name these bytes")
    problem = ""
    if opened.public_key != rollout.publisher:
        problem = "somebody else signed it"
    elif not _holds(record, rollout):
        problem = "it does not say what is kept here"
    return Signed(
        verified=not problem,
        problem=problem,
        bundle_id=bundle_id(header).hex(),
        sequence=opened.sequence,
        created=opened.created / 1000,
        swarm_id=opened.swarm_id.hex(),
        sent_completions=len(record.completions),
    )


def found_in(rollout: NewRollout, bundles: Iterable[PublishedBundle]) -> Signed | None:
    """An own rollout as it was published; None where none of the bundles has it."""
    place = (rollout.task, rollout.level, rollout.question)
    for bundle in bundles:
        if (position := _places(bundle.groups).get(place)) is not None:
            return signed(rollout, bundle.header, bundle.groups[position])
    return None


@lru_cache(maxsize=64)
def _places(groups: tuple[bytes, ...]) -> Mapping[tuple[str, str, int], int]:
    """Positions by what is asked; the rollouts of a round are looked for in the same bundle."""
    found = {}
    for position, encoded in enumerate(groups):
        with suppress(WireError):
            found[_place(decode_group(encoded))] = position
    return found


def _place(record: GroupRecord) -> tuple[str, str, int]:
    return record.task, record.level, record.index


def _holds(record: GroupRecord, rollout: NewRollout) -> bool:
    """Whether a record says everything that is kept; the order of completions is the sender's."""
    if _place(record) != (rollout.task, rollout.level, rollout.question):
        return False
    content = rollout.content
    if (record.question, record.answer) != (content["question"], content["answer"]):
        return False
    return _in_order(
        content["completions"], [(each.text, each.finish_reason) for each in record.completions]
    )


def _in_order(kept: Sequence[Any], sent: Sequence[tuple[str, str]]) -> bool:
    left = iter(sent)
    return all((each["text"], each["finish_reason"]) in left for each in kept)
