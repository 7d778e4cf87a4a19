"""Every byte and every field of a header, an announcement and a group is covered by a signature.

A group's bytes by their hash in the header, the header and its order of groups by the signature
over its bytes, the bundle's id by both. Put an unsigned field back and one of these fails.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from swarmproto import (
    AnnouncedGroup,
    AnnouncementDraft,
    Bundle,
    BundleHeader,
    CompletionRecord,
    GroupRecord,
    PolicyLabel,
    Reason,
    WireError,
    bundle_id,
    bundle_size,
    encode_group,
    open_announcement,
    open_header,
    pack_logprobs,
    seal_announcement,
    seal_bundle,
    verify_group,
)

PRIVATE, OTHER, SWARM = bytes(range(32)), bytes(range(1, 33)), b"\x05" * 32
SIGNATURE = slice(69, 133)
POLICY = PolicyLabel("tiny", 3, bytes(32))
COMPLETION = CompletionRecord("<answer>4</answer>", "stop", 2, pack_logprobs([-0.5, -0.25]))
GROUP = GroupRecord(
    task="basic_arithmetic", level="easy", index=7, fingerprint=b"f" * 32,
    question="2 + 2 =", answer="4",
    completions=(COMPLETION, replace(COMPLETION, text="5", logprobs=None, total_logprob=-1.5)),
)  # fmt: skip
DRAFT = AnnouncementDraft(
    instance=bytes(16), bundle_id=bytes(32), size=900,
    groups=(AnnouncedGroup("basic_arithmetic", "easy", 1, 2),),
    policy_version=3, created=1_000_000, expires=1_200_000,
    holders=("/ip4/192.0.2.1/tcp/4001",), started=900_000,
)  # fmt: skip
CHANGED_DRAFT: dict[str, Any] = {
    "instance": b"\x01" * 16,
    "bundle_id": b"\x01" * 32,
    "size": 901,
    "groups": (AnnouncedGroup("basic_arithmetic", "easy", 2, 2),),
    "policy_version": 4,
    "created": 1_000_001,
    "expires": 1_200_001,
    "holders": ("/ip4/192.0.2.2/tcp/4001",),
    "started": 900_001,
}
CHANGED_GROUP: dict[str, Any] = {
    "task": "basic_arithmetic2", "level": "hard", "index": 8, "fingerprint": b"g" * 32,
    "question": "2 + 3 =", "answer": "5", "completions": GROUP.completions[::-1],
}  # fmt: skip
CHANGED_COMPLETION: dict[str, Any] = {
    "text": "<answer>5</answer>", "finish_reason": "length", "token_count": 3,
    "logprobs": pack_logprobs([-0.5, -0.5]), "total_logprob": -0.75,
}  # fmt: skip


def bundle(private: bytes = PRIVATE, swarm: bytes = SWARM, **changes: Any) -> Bundle:
    values: dict[str, Any] = {
        "sequence": 5,
        "created_ms": 1_000_000,
        "policy": POLICY,
        "group_bytes": [encode_group(GROUP), encode_group(replace(GROUP, index=9))],
        **changes,
    }
    return seal_bundle(private, swarm, **values)


def flips(data: bytes) -> Iterator[bytes]:
    """The data with one bit of one byte changed, for every byte."""
    for at in range(len(data)):
        yield data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]


def signed_as(changed: bytes, original: bytes) -> bytes:
    """What a forger can make: changed bytes under the signature of the original ones."""
    return changed[: SIGNATURE.start] + original[SIGNATURE] + changed[SIGNATURE.stop :]


@pytest.mark.parametrize("kind", ["header", "announcement"])
def test_whatever_byte_of_a_signed_thing_is_changed_it_is_refused(kind: str) -> None:
    open_it: Callable[[bytes, bytes], object]
    if kind == "header":
        data, open_it = bundle().header_bytes, open_header
    else:
        data, open_it = seal_announcement(PRIVATE, SWARM, DRAFT), open_announcement
    open_it(data, SWARM)
    for changed in flips(data):
        with pytest.raises(WireError):
            open_it(changed, SWARM)


def test_whatever_byte_of_a_group_is_changed_it_is_not_the_one_that_was_signed() -> None:
    signed = bundle()
    for changed in flips(signed.group_bytes[0]):
        with pytest.raises(WireError) as caught:
            verify_group(signed.header, 0, changed)
        assert caught.value.reason is Reason.HASH


@pytest.mark.parametrize("field", [each.name for each in dataclasses.fields(AnnouncementDraft)])
def test_no_field_of_an_announcement_can_be_exchanged_under_its_signature(field: str) -> None:
    original = seal_announcement(PRIVATE, SWARM, DRAFT)
    changed = seal_announcement(PRIVATE, SWARM, replace(DRAFT, **{field: CHANGED_DRAFT[field]}))
    assert changed != original
    _refused(open_announcement, signed_as(changed, original), SWARM)


def test_no_field_of_a_header_can_be_exchanged_under_its_signature() -> None:
    original = bundle()
    groups = list(original.group_bytes)
    changes: dict[str, dict[str, Any]] = {
        "swarm_id": {"swarm": b"\x06" * 32},
        "public_key": {"private": OTHER},
        "sequence": {"sequence": 6},
        "created": {"created_ms": 1_000_001},
        "policy": {"policy": replace(POLICY, version=4)},
        "group_hashes": {"group_bytes": groups[::-1]},
    }
    assert set(changes) == {each.name for each in dataclasses.fields(BundleHeader)}
    for name, change in changes.items():
        changed = bundle(**change).header_bytes
        assert changed != original.header_bytes, name
        _refused(open_header, signed_as(changed, original.header_bytes), change.get("swarm", SWARM))
    policies = (
        PolicyLabel("tinY", 3, bytes(32)),
        PolicyLabel("tiny", 4, bytes(32)),
        PolicyLabel("tiny", 3, b"t" * 32),
    )
    for policy in policies:
        changed = bundle(policy=policy).header_bytes
        _refused(open_header, signed_as(changed, original.header_bytes), SWARM)


def test_no_field_of_a_group_can_be_exchanged_under_its_hash() -> None:
    signed = bundle()
    assert set(CHANGED_GROUP) == {each.name for each in dataclasses.fields(GroupRecord)}
    assert set(CHANGED_COMPLETION) == {each.name for each in dataclasses.fields(CompletionRecord)}
    records = [replace(GROUP, **{name: value}) for name, value in CHANGED_GROUP.items()]
    for name, value in CHANGED_COMPLETION.items():
        also = {"logprobs": None} if name in ("total_logprob", "token_count") else {}
        completion = replace(COMPLETION, **{**also, name: value})
        records.append(replace(GROUP, completions=(completion, GROUP.completions[1])))
    for record in records:
        with pytest.raises(WireError) as caught:
            verify_group(signed.header, 0, encode_group(record))
        assert caught.value.reason is Reason.HASH


def test_a_group_stands_at_its_place_alone() -> None:
    signed = bundle()
    first, second = signed.group_bytes
    for position, data in ((0, second), (1, first), (2, first), (-1, second)):
        with pytest.raises(WireError):
            verify_group(signed.header, position, data)


def test_the_id_of_a_bundle_follows_from_its_signature_as_well() -> None:
    signed = bundle()
    ids = {bundle_id(changed) for changed in flips(signed.header_bytes)}
    assert len(ids) == len(signed.header_bytes)
    assert bundle_id(signed.header_bytes) not in ids
    assert bundle_size(signed) == len(signed.header_bytes) + sum(map(len, signed.group_bytes))


def _refused(open_it: Callable[[bytes, bytes], object], data: bytes, swarm: bytes) -> None:
    with pytest.raises(WireError) as caught:
        open_it(data, swarm)
    assert caught.value.reason is Reason.SIGNATURE
