"""Vectors of private swarms: what follows from the key, sealed bytes that open, and that don't.

Derivation and sealing are written here once more, with fixed nonces, so that the vectors don't
lean on the codec.
"""

import hashlib
from typing import Any, Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from form import framed, packed
from samples import ANNOUNCEMENT, BUNDLE_ID, PRIVATE_KEY, PUBLIC_KEY, RULES, SWARM_ID

import swarmproto as wire

SWARM_KEY: Final = bytes(range(64, 96))
OTHER_KEY: Final = bytes(range(65, 97))
PRIVATE_SWARM_ID: Final = wire.swarm_id(RULES, wire.SwarmSecret(SWARM_KEY))

_ASKER: Final = "12D3KooWDxKvXxS1kRHp7pLJZiMqJCuHVyZSbQJoLBRHgPgfYhPQ"
_ANSWERER: Final = "12D3KooWJC2FpPvy3FA4EdmWMnLNSU6ukUgGABhkPxWscXSQYhAG"
_FETCH: Final = "/swarmnode/fetch/1"
_DISCOVER: Final = "/swarmnode/discover/1"
_NONCE: Final = bytes(range(12))
_KEY: Final = f"{PRIVATE_SWARM_ID.hex()}/announcements/29407680/01"
_EXCHANGE: Final = (_FETCH, _ASKER, _ANSWERER)
_REQUEST: Final = packed({"swarm": PRIVATE_SWARM_ID, "bundle": BUNDLE_ID, "positions": []})
_RESPONSE: Final = packed({"status": "missing", "groups": []})

Arguments = tuple[str | bytes, ...]


def _derived(key: bytes, *parts: bytes) -> bytes:
    return HKDF(hashes.SHA256(), 32, None, framed(*parts)).derive(key)


def _bytes(arguments: Arguments) -> tuple[bytes, ...]:
    return tuple(each.encode() if isinstance(each, str) else each for each in arguments)


def _sealed(key: bytes, purpose: str, arguments: Arguments, plain: bytes) -> bytes:
    """`arguments` are those of the operation: what a response answers comes last."""
    domain, parts = f"swarmnode/1/private/{purpose}".encode(), _bytes(arguments)
    bound = parts
    if purpose == "response":
        *first, request = parts
        parts, bound = tuple(first), (*first, hashlib.sha256(request).digest())
    cipher = ChaCha20Poly1305(_derived(key, domain, *parts))
    return _NONCE + cipher.encrypt(_NONCE, plain, framed(domain, *bound))


_PLACE: Final = _derived(SWARM_KEY, b"swarmnode/1/private/place", _KEY.encode()).hex()
_PLACE_ID: Final = hashlib.sha1(packed(_PLACE)).digest()
_SUBKEY: Final = _derived(
    SWARM_KEY, b"swarmnode/1/private/subkey", _PLACE_ID, PUBLIC_KEY.hex().encode()
).hex()
_RECORD: Final = (_PLACE_ID, _SUBKEY)
_SEALED_REQUEST: Final = _sealed(SWARM_KEY, "request", _EXCHANGE, _REQUEST)
_ANSWER: Final = (*_EXCHANGE, _SEALED_REQUEST)


def _changed(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


def _vector(name: str, purpose: str, arguments: Arguments, data: bytes, **said: str) -> Any:
    return {
        "name": name,
        "operation": f"open_{purpose}",
        "arguments": [
            {"hex": each.hex()} if isinstance(each, bytes) else each for each in arguments
        ],
        "input": [[data.hex(), 1]],
        **said,
    }


def _valid() -> list[Any]:
    announcement = wire.seal_announcement(
        PRIVATE_KEY,
        PRIVATE_SWARM_ID,
        wire.AnnouncementDraft(
            instance=bytes(16),
            bundle_id=BUNDLE_ID,
            size=833,
            groups=(wire.AnnouncedGroup("base_conversion", "easy", 1, 2),),
            policy_version=7,
            created=1_764_460_800_000,
            expires=1_764_461_100_000,
            holders=(),
        ),
    )
    rows: list[tuple[str, str, Arguments, bytes]] = [
        ("an announcement", "record", _RECORD, announcement),
        ("a fetch request", "request", _EXCHANGE, _REQUEST),
        ("nothing", "request", _EXCHANGE, b""),
        ("its response", "response", _ANSWER, _RESPONSE),
        ("an empty response", "response", _ANSWER, b""),
    ]
    return [
        _vector(name, purpose, where, _sealed(SWARM_KEY, purpose, where, plain), plain=plain.hex())
        for name, purpose, where, plain in rows
    ]


def _hostile() -> list[Any]:
    request, response = _SEALED_REQUEST, _sealed(SWARM_KEY, "response", _ANSWER, _RESPONSE)
    record = _sealed(SWARM_KEY, "record", _RECORD, ANNOUNCEMENT)
    asked_again = _sealed(SWARM_KEY, "request", _EXCHANGE, _REQUEST + b"\0")
    rows: list[tuple[str, str, Arguments, bytes]] = [
        ("no bytes", "request", _EXCHANGE, b""),
        ("27 bytes", "request", _EXCHANGE, bytes(27)),
        ("28 zeros", "request", _EXCHANGE, bytes(28)),
        ("not sealed", "request", _EXCHANGE, _REQUEST),
        ("under another key", "request", _EXCHANGE, _sealed(OTHER_KEY, "request", _EXCHANGE, b"")),
        ("another nonce", "request", _EXCHANGE, _changed(request, 0)),
        ("another first byte", "request", _EXCHANGE, _changed(request, 12)),
        ("another tag", "request", _EXCHANGE, _changed(request, -1)),
        ("cut by one byte", "request", _EXCHANGE, request[:-1]),
        ("longer by one byte", "request", _EXCHANGE, request + b"\0"),
        ("by another peer", "request", (_FETCH, _ANSWERER, _ANSWERER), request),
        ("to another peer", "request", (_FETCH, _ASKER, _ASKER), request),
        ("sent back", "request", (_FETCH, _ANSWERER, _ASKER), request),
        ("of another protocol", "request", (_DISCOVER, _ASKER, _ANSWERER), request),
        ("a response", "request", _EXCHANGE, response),
        ("the request", "response", _ANSWER, request),
        ("to another request", "response", (*_EXCHANGE, asked_again), response),
        ("under another key", "response", _ANSWER, _sealed(OTHER_KEY, "response", _ANSWER, b"")),
        ("another byte", "response", _ANSWER, _changed(response, 20)),
        ("not sealed", "record", _RECORD, ANNOUNCEMENT),
        ("under another key", "record", _RECORD, _sealed(OTHER_KEY, "record", _RECORD, b"")),
        ("at another place", "record", (_changed(_PLACE_ID, 0), _SUBKEY), record),
        ("under another subkey", "record", (_PLACE_ID, PUBLIC_KEY.hex()), record),
        ("another byte", "record", _RECORD, _changed(record, 100)),
    ]
    vectors = [
        _vector(name, purpose, where, data, reason="seal") for name, purpose, where, data in rows
    ]
    long = bytes(wire.ANNOUNCEMENT_BYTES_MAX + 1)
    return [*vectors, _vector("1025 bytes", "record", _RECORD, long, reason="oversize")]


def sealing() -> dict[str, Any]:
    """The content of sealing.json."""
    return {
        "swarm_key": SWARM_KEY.hex(),
        "rules": wire.encode_rules(RULES).hex(),
        "commitment": _derived(SWARM_KEY, b"swarmnode/1/private/commitment").hex(),
        "swarm_id": PRIVATE_SWARM_ID.hex(),
        "public_swarm_id": SWARM_ID.hex(),
        "places": [{"key": _KEY, "place": _PLACE, "place_id": _PLACE_ID.hex()}],
        "subkeys": [{"place_id": _PLACE_ID.hex(), "public": PUBLIC_KEY.hex(), "subkey": _SUBKEY}],
        "vectors": _valid() + _hostile(),
    }
