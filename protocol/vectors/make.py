"""Writes the golden vectors: `python protocol/vectors/make.py [FOLDER]`.

Deterministic: keys, times and texts are fixed, Ed25519 signatures are too. A test compares what
this makes with the committed files; another implementation reads only the files.
"""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from form import Vector, accepted, envelope, framed, packed, plain
from hostile_envelopes import envelope_vectors, mixed_order_header
from hostile_groups import group_vectors
from messages_and_rules import message_vectors
from samples import (
    ANNOUNCEMENT,
    BUNDLE,
    BUNDLE_ID,
    CREATED,
    DRAFT,
    FINGERPRINT,
    GROUPS,
    PAIRS,
    PLAIN_GROUP,
    POLICY,
    PRIVATE_KEY,
    PUBLIC_KEY,
    RICH_GROUP,
    RULES,
    SWARM_ID,
)
from sealed import sealing

import swarmproto as wire


def _valid_groups() -> list[Vector]:
    full = wire.GroupRecord(
        task="arc_1d",
        level="paper",
        index=0,
        fingerprint=bytes(32),
        question="q",
        answer="a",
        completions=(wire.CompletionRecord("a", "stop", 1),) * wire.COMPLETIONS_MAX,
    )
    named = {"plain": PLAIN_GROUP, "rich": RICH_GROUP, "64 completions": full}
    return [
        accepted(name, "decode_group", wire.encode_group(group), group)
        for name, group in named.items()
    ]


def _valid_envelopes() -> list[Vector]:
    header, announcement = BUNDLE.header, wire.open_announcement(ANNOUNCEMENT, SWARM_ID)
    largest = wire.seal_bundle(PRIVATE_KEY, SWARM_ID, 2**53 - 1, 0, POLICY, (GROUPS[0],) * 64)
    body = {
        "later": {"a": [1]},
        "groups": list(header.group_hashes),
        "policy": {
            "name": POLICY.name,
            "version": POLICY.version,
            "tokenizer": POLICY.tokenizer_fingerprint,
            "later": 1,
        },
        "created": CREATED,
        "sequence": CREATED,
    }
    odd = envelope(b"SWNB", b"swarmnode/1/bundle-header", PRIVATE_KEY, SWARM_ID, packed(body))
    begun = wire.seal_announcement(
        PRIVATE_KEY, SWARM_ID, dataclasses.replace(DRAFT, started=CREATED - 60_000)
    )
    mixed = mixed_order_header(True)
    mixed_header = dataclasses.replace(header, public_key=mixed[37:69])
    return [
        accepted("two groups", "open_header", BUNDLE.header_bytes, header),
        accepted("64 groups", "open_header", largest.header_bytes, largest.header),
        accepted("unknown fields, keys in another order", "open_header", odd, header),
        accepted("a key of mixed order, cofactorless equation", "open_header", mixed, mixed_header),
        accepted("two groups", "open_announcement", ANNOUNCEMENT, announcement),
        accepted(
            "with its start", "open_announcement", begun, wire.open_announcement(begun, SWARM_ID)
        ),
    ]


def _held_out() -> list[dict[str, Any]]:
    texts = [question for question, _ in PAIRS] + ["", "Vereinfache ⁶⁄₈", "¬(P ∧ Q)"]
    return [
        {
            "task": "base_conversion",
            "level": level,
            "text": text,
            "held_out": wire.is_held_out("base_conversion", level, text),
        }
        for level in ("easy", "paper")
        for text in texts
    ]


def _streams() -> list[dict[str, Any]]:
    zeros = bytes(32)
    rows = [
        (SWARM_ID, PUBLIC_KEY, "base_conversion", "easy"),
        (SWARM_ID, PUBLIC_KEY, "base_conversion", "paper"),
        (SWARM_ID, PUBLIC_KEY, "base_conversione", "asy"),
        (zeros, zeros, "base_conversion", "easy"),
    ]
    return [
        {
            "swarm_id": swarm.hex(),
            "public_key": key.hex(),
            "task": task,
            "level": level,
            "seed": str(wire.stream_seed(swarm, key, task, level)),
        }
        for swarm, key, task, level in rows
    ]


def _replay() -> dict[str, Any]:
    numbers = [(0, 5), (5, 5), (CREATED, CREATED - 1000), (-1, 0), (-1, CREATED)]
    return {
        "next_sequence": [
            {"last": last, "now": now, "next": wire.next_sequence(last, now)}
            for last, now in numbers
        ]
    }


def _hashes() -> dict[str, Any]:
    parts = [b"", b"a", bytes(3)]
    return {
        "framed": [{"parts": [part.hex() for part in parts], "bytes": framed(*parts).hex()}],
        "swarm_ids": [{"rules": wire.encode_rules(RULES).hex(), "swarm_id": SWARM_ID.hex()}],
        "bundle_ids": [{"header": BUNDLE.header_bytes.hex(), "bundle_id": BUNDLE_ID.hex()}],
        "streams": _streams(),
        "fingerprints": [
            {
                "task": "base_conversion",
                "level": "easy",
                "pairs": plain(PAIRS),
                "fingerprint": FINGERPRINT.hex(),
            }
        ],
        "held_out": _held_out(),
        **_replay(),
    }


def _group_checks() -> list[dict[str, Any]]:
    longer = [[bytes(1).hex(), wire.GROUP_BYTES_MAX + 1]]
    first, second = ([[group.hex(), 1]] for group in GROUPS)
    rows: list[tuple[int, list[list[Any]], str | None]] = [
        (0, first, None),
        (1, second, None),
        (0, second, "hash"),
        (1, [[GROUPS[1][:-1].hex(), 1]], "hash"),
        (2, first, "range"),
        (0, longer, "oversize"),
    ]
    header = BUNDLE.header_bytes.hex()
    return [
        {"header": header, "position": position, "group": group, "reason": reason}
        for position, group, reason in rows
    ]


def write(folder: Path) -> None:
    """Writes every file of the vectors."""
    files: dict[str, dict[str, Any]] = {
        "groups.json": {"vectors": _valid_groups() + group_vectors()},
        "envelopes.json": {
            "private_key": PRIVATE_KEY.hex(),
            "swarm_id": SWARM_ID.hex(),
            "vectors": _valid_envelopes() + envelope_vectors(),
            "verify_group": _group_checks(),
        },
        "messages.json": {"vectors": message_vectors()},
        "hashes.json": _hashes(),
        "sealing.json": sealing(),
    }
    for name, content in files.items():
        text = json.dumps(content, indent=1, ensure_ascii=True)
        (folder / name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
