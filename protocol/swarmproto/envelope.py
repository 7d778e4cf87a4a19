"""Signed things: bundle headers and announcements in one fixed envelope.

The envelope is plain bytes (magic, version, swarm id, public key, signature, body), so foreign
and forged ones are refused before any msgpack is read. Signed are the bytes as sent, never a
re-encoding. Knows no clock: freshness is the receiver's. Source: protocol/README.md, sections 5
and 6.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from swarmproto.errors import Reason, WireError
from swarmproto.fields import Fields, as_array, as_binary, as_integer, as_name, as_text
from swarmproto.limits import (
    ADDRESS_BYTES_MAX,
    ANNOUNCED_TASKS_MAX,
    ANNOUNCEMENT_BYTES_MAX,
    ANNOUNCEMENT_LIFETIME_MS_MAX,
    ANNOUNCEMENT_LIMITS,
    BUNDLE_BYTES_MAX,
    BUNDLE_ID_BYTES,
    COMPLETIONS_MAX,
    COMPLETIONS_MIN,
    FINGERPRINT_BYTES,
    GROUP_BYTES_MAX,
    GROUPS_PER_BUNDLE_MAX,
    HASH_BYTES,
    HEADER_LIMITS,
    HOLDERS_MAX,
    INSTANCE_BYTES,
    POLICY_NAME_BYTES_MAX,
    PROTOCOL_VERSION,
    PUBLIC_KEY_BYTES,
    SIGNATURE_BYTES,
    SWARM_ID_BYTES,
    MessageLimits,
)
from swarmproto.records import (
    AnnouncedGroup,
    Announcement,
    AnnouncementDraft,
    Bundle,
    BundleHeader,
    PolicyLabel,
)
from swarmproto.scan import pack, unpack
from swarmproto.signing import public_key_of, sign, verify

_MAGIC_BYTES: Final = 4
_SWARM_ID_AT: Final = _MAGIC_BYTES + 1
_PUBLIC_KEY_AT: Final = _SWARM_ID_AT + SWARM_ID_BYTES
_SIGNATURE_AT: Final = _PUBLIC_KEY_AT + PUBLIC_KEY_BYTES
_BODY_AT: Final = _SIGNATURE_AT + SIGNATURE_BYTES
_BYTES_PER_ANNOUNCED_GROUP: Final = 3


@dataclass(frozen=True, slots=True)
class _Form:
    """What tells one kind of envelope from the other."""

    magic: bytes
    domain: bytes
    limits: MessageLimits


_HEADER: Final = _Form(b"SWNB", b"swarmnode/1/bundle-header", HEADER_LIMITS)
_ANNOUNCEMENT: Final = _Form(b"SWNA", b"swarmnode/1/announcement", ANNOUNCEMENT_LIMITS)


@dataclass(frozen=True, slots=True)
class _Opened:
    public_key: bytes
    signature: bytes
    fields: Fields


def _seal(form: _Form, private_key: bytes, swarm_id: bytes, body: dict[str, object]) -> bytes:
    if len(swarm_id) != SWARM_ID_BYTES:
        raise WireError(Reason.RANGE, "a swarm id has 32 bytes")
    prefix = form.magic + bytes([PROTOCOL_VERSION]) + swarm_id + public_key_of(private_key)
    packed = pack(body)
    return prefix + sign(private_key, form.domain, prefix, packed) + packed


def _open(form: _Form, data: bytes, swarm_id: bytes) -> _Opened:
    if len(data) > form.limits.size:
        raise WireError(Reason.OVERSIZE, f"more than {form.limits.size} bytes")
    if len(data) < _BODY_AT:
        raise WireError(Reason.TRUNCATED, "shorter than an envelope")
    if data[:_MAGIC_BYTES] != form.magic:
        raise WireError(Reason.MAGIC, "another kind of bytes")
    if data[_MAGIC_BYTES] != PROTOCOL_VERSION:
        raise WireError(Reason.VERSION, "another version of the protocol")
    if data[_SWARM_ID_AT:_PUBLIC_KEY_AT] != swarm_id:
        raise WireError(Reason.FOREIGN_SWARM, "of another swarm")
    public_key = data[_PUBLIC_KEY_AT:_SIGNATURE_AT]
    signature, body = data[_SIGNATURE_AT:_BODY_AT], data[_BODY_AT:]
    verify(public_key, signature, form.domain, data[:_SIGNATURE_AT], body)
    return _Opened(public_key, signature, Fields.of(unpack(body, form.limits)))


def open_header(data: bytes, swarm_id: bytes) -> BundleHeader:
    """Verifies and decodes a bundle header; raises WireError."""
    opened = _open(_HEADER, data, swarm_id)
    policy = Fields.of(opened.fields.value("policy"))
    hashes = opened.fields.array("groups", 1, GROUPS_PER_BUNDLE_MAX)
    return BundleHeader(
        swarm_id=swarm_id,
        public_key=opened.public_key,
        sequence=opened.fields.integer("sequence"),
        created=opened.fields.integer("created"),
        policy=PolicyLabel(
            name=policy.text("name", 1, POLICY_NAME_BYTES_MAX),
            version=policy.integer("version"),
            tokenizer_fingerprint=policy.binary("tokenizer", FINGERPRINT_BYTES, FINGERPRINT_BYTES),
        ),
        group_hashes=tuple(as_binary(value, HASH_BYTES, HASH_BYTES) for value in hashes),
    )


def seal_bundle(
    private_key: bytes,
    swarm_id: bytes,
    sequence: int,
    created_ms: int,
    policy: PolicyLabel,
    group_bytes: Sequence[bytes],
) -> Bundle:
    """Signs a header over encoded groups; raises WireError where a limit is broken."""
    if any(len(group) > GROUP_BYTES_MAX for group in group_bytes):
        raise WireError(Reason.OVERSIZE, f"a group of more than {GROUP_BYTES_MAX} bytes")
    body: dict[str, object] = {
        "sequence": sequence,
        "created": created_ms,
        "policy": {
            "name": policy.name,
            "version": policy.version,
            "tokenizer": policy.tokenizer_fingerprint,
        },
        "groups": [hashlib.sha256(group).digest() for group in group_bytes],
    }
    header_bytes = _seal(_HEADER, private_key, swarm_id, body)
    bundle = Bundle(open_header(header_bytes, swarm_id), header_bytes, tuple(group_bytes))
    if bundle_size(bundle) > BUNDLE_BYTES_MAX:
        raise WireError(Reason.OVERSIZE, f"a bundle of more than {BUNDLE_BYTES_MAX} bytes")
    return bundle


def bundle_id(header_bytes: bytes) -> bytes:
    """SHA-256 of a header as sent, signature and list of hashes included."""
    return hashlib.sha256(header_bytes).digest()


def bundle_size(bundle: Bundle) -> int:
    """Bytes of the header and all groups: the size that is announced and limited to 2 MiB."""
    return len(bundle.header_bytes) + sum(map(len, bundle.group_bytes))


def verify_group(header: BundleHeader, position: int, group_bytes: bytes) -> None:
    """Raises WireError unless these are the bytes of the group at this position."""
    if not 0 <= position < len(header.group_hashes):
        raise WireError(Reason.RANGE, "no such group in the bundle")
    if len(group_bytes) > GROUP_BYTES_MAX:
        raise WireError(Reason.OVERSIZE, f"more than {GROUP_BYTES_MAX} bytes")
    if hashlib.sha256(group_bytes).digest() != header.group_hashes[position]:
        raise WireError(Reason.HASH, "not the bytes that the header names")


def _announced_groups(fields: Fields) -> tuple[AnnouncedGroup, ...]:
    tasks = [
        tuple(as_name(name) for name in as_array(pair, 2, 2))
        for pair in fields.array("tasks", 1, ANNOUNCED_TASKS_MAX)
    ]
    high = _BYTES_PER_ANNOUNCED_GROUP * GROUPS_PER_BUNDLE_MAX
    packed = fields.binary("groups", _BYTES_PER_ANNOUNCED_GROUP, high)
    if len(packed) % _BYTES_PER_ANNOUNCED_GROUP:
        raise WireError(Reason.RANGE, "groups are announced with three bytes each")
    groups = []
    for start in range(0, len(packed), _BYTES_PER_ANNOUNCED_GROUP):
        row, successes, completions = packed[start : start + _BYTES_PER_ANNOUNCED_GROUP]
        as_integer(row, 0, len(tasks) - 1)
        as_integer(completions, COMPLETIONS_MIN, COMPLETIONS_MAX)
        as_integer(successes, 0, completions)
        groups.append(AnnouncedGroup(tasks[row][0], tasks[row][1], successes, completions))
    return tuple(groups)


def open_announcement(data: bytes, swarm_id: bytes) -> Announcement:
    """Verifies and decodes an announcement; raises WireError."""
    opened = _open(_ANNOUNCEMENT, data, swarm_id)
    fields = opened.fields
    created = fields.integer("created")
    return Announcement(
        swarm_id=swarm_id,
        public_key=opened.public_key,
        instance=fields.binary("instance", INSTANCE_BYTES, INSTANCE_BYTES),
        bundle_id=fields.binary("bundle", BUNDLE_ID_BYTES, BUNDLE_ID_BYTES),
        size=fields.integer("size", 1, BUNDLE_BYTES_MAX),
        groups=_announced_groups(fields),
        policy_version=fields.integer("policy"),
        created=created,
        expires=fields.integer("expires", created + 1, created + ANNOUNCEMENT_LIFETIME_MS_MAX),
        holders=tuple(
            as_text(holder, 1, ADDRESS_BYTES_MAX)
            for holder in fields.array("holders", 0, HOLDERS_MAX)
        ),
        signature=opened.signature,
        encoded=data,
        started=fields.integer("started", 0, created) if "started" in fields else None,
    )


def _packed_groups(groups: Sequence[AnnouncedGroup], tasks: Sequence[tuple[str, str]]) -> bytes:
    packed = bytearray()
    for group in groups:
        row = tasks.index((group.task, group.level))
        for value in (row, group.claimed_successes, group.completions):
            packed.append(as_integer(value, 0, 255))
    return bytes(packed)


def seal_announcement(
    private_key: bytes,
    swarm_id: bytes,
    draft: AnnouncementDraft,
    limit: int = ANNOUNCEMENT_BYTES_MAX,
) -> bytes:
    """At most `limit` bytes, signed; raises WireError where a limit is broken."""
    tasks = list(dict.fromkeys((group.task, group.level) for group in draft.groups))
    body: dict[str, object] = {
        "instance": draft.instance,
        "bundle": draft.bundle_id,
        "size": draft.size,
        "tasks": [list(pair) for pair in tasks],
        "groups": _packed_groups(draft.groups, tasks),
        "policy": draft.policy_version,
        "created": draft.created,
        "expires": draft.expires,
        "holders": list(draft.holders),
    }
    if draft.started is not None:
        body["started"] = draft.started
    data = _seal(_ANNOUNCEMENT, private_key, swarm_id, body)
    open_announcement(data, swarm_id)
    if len(data) > limit:
        raise WireError(Reason.OVERSIZE, f"more than {limit} bytes")
    return data
