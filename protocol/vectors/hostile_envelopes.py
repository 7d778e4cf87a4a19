"""Hostile envelopes: headers and announcements, and signatures that only lax code accepts."""

import hashlib
from typing import Final

import curve
from form import Parts, Raw, Vector, envelope, framed, packed, packed_map, refused, without
from samples import ANNOUNCEMENT, BUNDLE, CREATED, GROUPS, POLICY, PRIVATE_KEY, PUBLIC_KEY, SWARM_ID

Cases = dict[str, tuple[bytes | Parts, str]]

_HEADER_DOMAIN: Final = b"swarmnode/1/bundle-header"
_ANNOUNCEMENT_DOMAIN: Final = b"swarmnode/1/announcement"
_POLICY: Final[dict[str, object]] = {
    "name": POLICY.name,
    "version": POLICY.version,
    "tokenizer": POLICY.tokenizer_fingerprint,
}
_HEADER: Final[dict[str, object]] = {
    "sequence": CREATED,
    "created": CREATED,
    "policy": _POLICY,
    "groups": [hashlib.sha256(group).digest() for group in GROUPS],
}
_ANNOUNCEMENT: Final[dict[str, object]] = {
    "instance": bytes(range(16)),
    "bundle": bytes(32),
    "size": 1000,
    "tasks": [["base_conversion", "easy"]],
    "groups": bytes([0, 1, 2]),
    "policy": 7,
    "created": CREATED,
    "expires": CREATED + 300_000,
    "holders": ["/ip4/192.0.2.1/tcp/4001"],
}


def _header(body: bytes) -> bytes:
    return envelope(b"SWNB", _HEADER_DOMAIN, PRIVATE_KEY, SWARM_ID, body)


def _headed(**changes: object) -> bytes:
    return _header(packed_map(list((_HEADER | changes).items())))


def _announcement(**changes: object) -> bytes:
    body = packed_map(list((_ANNOUNCEMENT | changes).items()))
    return envelope(b"SWNA", _ANNOUNCEMENT_DOMAIN, PRIVATE_KEY, SWARM_ID, body)


def _with_key(public_key: bytes, signature: bytes = bytes(64)) -> bytes:
    data = BUNDLE.header_bytes
    return data[:37] + public_key + signature + data[133:]


def _with_signature(signature: bytes) -> bytes:
    return _with_key(PUBLIC_KEY, signature)


def _message(public_key: bytes) -> bytes:
    data = BUNDLE.header_bytes
    return framed(_HEADER_DOMAIN, data[:37] + public_key, data[133:])


def mixed_order_header(holds: bool) -> bytes:
    """A header under a key with a part of order 8; with cofactor 8 its equation always holds.

    `holds` tells whether the equation without cofactor does too.
    """
    scalar = curve.secret_scalar(PRIVATE_KEY)
    mixed = curve.add(curve.times(scalar, curve.BASE), curve.order_eight())
    key, r = curve.encoded(mixed), 1
    while True:
        r_bytes = curve.encoded(curve.times(r, curve.BASE))
        if (curve.challenge(r_bytes, key, _message(key)) % 8 == 0) == holds:
            return _with_key(key, curve.forged(r, r_bytes, scalar, key, _message(key)))
        r += 1


def _public_keys() -> Cases:
    eight = curve.order_eight()
    sign_bit = 1 << 255
    numbers = {
        "of order 4 (zeros)": 0,
        "of order 4, odd x": sign_bit,
        "of order 1": 1,
        "of order 1 with a sign": 1 | sign_bit,
        "of order 2": curve.P - 1,
        "of order 2 with a sign": (curve.P - 1) | sign_bit,
        "of order 8": int.from_bytes(curve.encoded(eight), "little"),
        "of order 8, the other sign": int.from_bytes(curve.encoded(eight), "little") ^ sign_bit,
        "of order 8, y negated": (curve.P - eight[1]) | sign_bit,
        "not canonical, y = p": curve.P,
        "not canonical, y = p + 1": curve.P + 1,
        "not canonical, y = p + 3": curve.P + 3,
        "not canonical, all ones": 2**256 - 1,
    }
    cases: Cases = {
        f"a key {name}": (_with_key(number.to_bytes(32, "little")), "public_key")
        for name, number in numbers.items()
    }
    identity = curve.encoded(curve.IDENTITY)
    cases["a key of order 1 that verifies anything"] = (
        _with_key(identity, curve.encoded(curve.BASE) + (1).to_bytes(32, "little")),
        "public_key",
    )
    return cases


def _signatures() -> Cases:
    scalar = curve.secret_scalar(PRIVATE_KEY)
    good = BUNDLE.header_bytes[69:133]
    s = int.from_bytes(good[32:], "little")
    identity = curve.encoded(curve.IDENTITY)
    odd_identity = (curve.P + 1).to_bytes(32, "little")
    signed_identity = (1 | 1 << 255).to_bytes(32, "little")
    message = _message(PUBLIC_KEY)
    off_curve = next(y for y in range(2, 100) if curve.x_of(y) is None)
    data = BUNDLE.header_bytes

    def forged(r_bytes: bytes) -> bytes:
        return _with_signature(curve.forged(0, r_bytes, scalar, PUBLIC_KEY, message))

    cases: Cases = {
        "S + L": (
            _with_signature(good[:32] + (s + curve.ORDER).to_bytes(32, "little")),
            "signature",
        ),
        "S + 8 L": (
            _with_signature(good[:32] + (s + 8 * curve.ORDER).to_bytes(32, "little")),
            "signature",
        ),
        "S = L": (_with_signature(good[:32] + curve.ORDER.to_bytes(32, "little")), "signature"),
        "R of small order": (forged(identity), "signature"),
        "R not canonical": (forged(odd_identity), "signature"),
        "R of small order with a sign": (forged(signed_identity), "signature"),
        "zeros": (_with_signature(bytes(64)), "signature"),
        "a flipped bit of R": (_with_signature(bytes([good[0] ^ 1]) + good[1:]), "signature"),
        "a flipped bit of S": (
            _with_signature(good[:32] + bytes([good[32] ^ 1]) + good[33:]),
            "signature",
        ),
        "a flipped bit of the body": (data[:-1] + bytes([data[-1] ^ 1]), "signature"),
        "a byte after the body": (data + b"\xc0", "signature"),
        "a body cut short": (data[:-1], "signature"),
        "a key off the curve": (_with_key(off_curve.to_bytes(32, "little"), good), "signature"),
        "a key of mixed order, cofactored equation": (mixed_order_header(False), "signature"),
        "signed in the announcements' domain": (
            envelope(b"SWNB", _ANNOUNCEMENT_DOMAIN, PRIVATE_KEY, SWARM_ID, packed(_HEADER)),
            "signature",
        ),
        "signed by another key": (
            _with_key(PUBLIC_KEY, _header_of(bytes(32))[69:133]),
            "signature",
        ),
    }
    return cases


def _header_of(private_key: bytes) -> bytes:
    return envelope(b"SWNB", _HEADER_DOMAIN, private_key, SWARM_ID, BUNDLE.header_bytes[133:])


def _envelopes() -> Cases:
    data = BUNDLE.header_bytes
    return {
        "nothing": (b"", "truncated"),
        "132 bytes": (data[:132], "truncated"),
        "4097 bytes": (((data, 1), (b"\0", 4097 - len(data))), "oversize"),
        "an announcement": (ANNOUNCEMENT, "magic"),
        "version 0": (data[:4] + b"\0" + data[5:], "version"),
        "version 2": (data[:4] + b"\2" + data[5:], "version"),
        "another swarm": (
            envelope(b"SWNB", _HEADER_DOMAIN, PRIVATE_KEY, bytes(32), data[133:]),
            "foreign_swarm",
        ),
        "no body": (_header(b""), "truncated"),
        "a signed byte after the body": (_header(packed(_HEADER) + b"\xc0"), "trailing"),
        "a signed array": (_header(packed([1])), "wrong_type"),
        "a signed bomb of empty maps": (_header(b"\xdc\x0f\x00" + b"\x80" * 3840), "nodes"),
        "a signed bomb of arrays": (_header(b"\x91" * 3000 + b"\xc0"), "depth"),
        "a signed extension": (_headed(later=Raw(b"\xd4\x40\x01")), "extension"),
        "a signed key twice": (
            _header(packed_map([*_HEADER.items(), ("sequence", 2)])),
            "duplicate_key",
        ),
    }


def _headers() -> Cases:
    hashes = [bytes(32)]
    return {
        **{
            f"no {key}": (_header(packed(without(_HEADER, key))), "missing_field")
            for key in _HEADER
        },
        **{
            f"no {key} of the policy": (_headed(policy=without(_POLICY, key)), "missing_field")
            for key in _POLICY
        },
        "true as sequence": (_headed(sequence=True), "wrong_type"),
        "sequence -1": (_headed(sequence=-1), "range"),
        "sequence 2**53": (_headed(sequence=2**53), "range"),
        "sequence 2**64 - 1": (_headed(sequence=2**64 - 1), "range"),
        "a float as time": (_headed(created=1.5), "wrong_type"),
        "a text as policy": (_headed(policy="tiny"), "wrong_type"),
        "a policy without a name": (_headed(policy=_POLICY | {"name": ""}), "range"),
        "a policy name of 129 bytes": (_headed(policy=_POLICY | {"name": "n" * 129}), "range"),
        "a policy name with NUL": (_headed(policy=_POLICY | {"name": "\0"}), "text"),
        "a tokenizer of 16 bytes": (_headed(policy=_POLICY | {"tokenizer": bytes(16)}), "range"),
        "no groups at all": (_headed(groups=[]), "range"),
        "65 groups": (_headed(groups=hashes * 65), "range"),
        "a hash of 31 bytes": (_headed(groups=[bytes(31)]), "range"),
        "a hash as text": (_headed(groups=["h" * 32]), "wrong_type"),
    }


def _announcements() -> Cases:
    many = [[f"task{number}", "easy"] for number in range(33)]
    return {
        **{
            f"no {key}": (
                envelope(
                    b"SWNA",
                    _ANNOUNCEMENT_DOMAIN,
                    PRIVATE_KEY,
                    SWARM_ID,
                    packed(without(_ANNOUNCEMENT, key)),
                ),
                "missing_field",
            )
            for key in _ANNOUNCEMENT
        },
        "a header": (BUNDLE.header_bytes, "magic"),
        "1025 bytes": (((ANNOUNCEMENT, 1), (b"\0", 1025 - len(ANNOUNCEMENT))), "oversize"),
        "another swarm": (
            ANNOUNCEMENT[:5] + bytes(32) + ANNOUNCEMENT[37:],
            "foreign_swarm",
        ),
        "a flipped bit": (ANNOUNCEMENT[:-1] + bytes([ANNOUNCEMENT[-1] ^ 1]), "signature"),
        "an instance of 15 bytes": (_announcement(instance=bytes(15)), "range"),
        "begun after it was created": (_announcement(started=CREATED + 1), "range"),
        "a start that is no integer": (_announcement(started=1.0), "wrong_type"),
        "size 0": (_announcement(size=0), "range"),
        "size 2 MiB + 1": (_announcement(size=2 * 1024 * 1024 + 1), "range"),
        "33 tasks": (_announcement(tasks=many, holders=[]), "range"),
        "a task without a level": (_announcement(tasks=[["base_conversion"]]), "range"),
        "a task with three names": (_announcement(tasks=[["a", "b", "c"]]), "range"),
        "a task that is no name": (_announcement(tasks=[["A", "b"]]), "text"),
        "no group": (_announcement(groups=b""), "range"),
        "a group of two bytes": (_announcement(groups=bytes([0, 1, 2, 0, 1])), "range"),
        "65 groups": (_announcement(groups=bytes([0, 1, 2]) * 65), "range"),
        "a group of an unlisted task": (_announcement(groups=bytes([1, 1, 2])), "range"),
        "more successes than completions": (_announcement(groups=bytes([0, 3, 2])), "range"),
        "a group of one completion": (_announcement(groups=bytes([0, 1, 1])), "range"),
        "a group of 65 completions": (_announcement(groups=bytes([0, 1, 65])), "range"),
        "groups as array": (_announcement(groups=[0, 1, 2]), "wrong_type"),
        "true as policy version": (_announcement(policy=True), "wrong_type"),
        "expired when created": (_announcement(expires=CREATED), "range"),
        "alive for more than ten minutes": (_announcement(expires=CREATED + 600_001), "range"),
        "nine holders": (_announcement(holders=["a"] * 9), "range"),
        "an empty holder": (_announcement(holders=[""]), "range"),
        "a holder as binary": (_announcement(holders=[b"a"]), "wrong_type"),
        "a holder of 257 bytes": (_announcement(holders=["a" * 257]), "range"),
    }


def envelope_vectors() -> list[Vector]:
    """All of them are refused; the swarm id to open with is the sample's."""
    headers = _envelopes() | _public_keys() | _signatures() | _headers()
    return [
        refused(name, "open_header", data, reason) for name, (data, reason) in headers.items()
    ] + [
        refused(name, "open_announcement", data, reason)
        for name, (data, reason) in _announcements().items()
    ]
