"""Private swarms: what follows from a swarm's key, and the sealing of what its members send.

Knows keys, ids and bytes, no record and no network. Every key that seals anything is derived for
one author and one purpose (HKDF-SHA256), the seal is ChaCha20-Poly1305 under a random nonce, and
what it belongs to is authenticated with it. Invariants: whatever does not open raises WireError
with the one reason `seal`; no text of ours ever holds a key.
Source: RFC 5869, RFC 8439; protocol/README.md, section 14.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass
from typing import Final, final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from swarmproto.errors import Reason, WireError
from swarmproto.limits import (
    ANNOUNCEMENT_BYTES_MAX,
    RESPONSE_BYTES_MAX,
    SEAL_BYTES,
    SEAL_NONCE_BYTES,
    SWARM_KEY_BYTES,
)
from swarmproto.streams import framed

_COMMITMENT: Final = b"swarmnode/1/private/commitment"
_PLACE: Final = b"swarmnode/1/private/place"
_SUBKEY: Final = b"swarmnode/1/private/subkey"
_RECORD: Final = b"swarmnode/1/private/record"
_REQUEST: Final = b"swarmnode/1/private/request"
_RESPONSE: Final = b"swarmnode/1/private/response"


def generate_swarm_key() -> bytes:
    """32 bytes from the operating system."""
    return os.urandom(SWARM_KEY_BYTES)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response: the protocol's id, and the peer ids (base58) of both sides."""

    protocol: str
    asker: str
    answerer: str

    @property
    def parts(self) -> tuple[bytes, bytes, bytes]:
        """Protocol, asker, answerer."""
        return self.protocol.encode(), self.asker.encode(), self.answerer.encode()


@final
class SwarmSecret:
    """What a member can do and nobody else: the swarm's key, of which it shows nothing."""

    __slots__ = ("_extracted",)

    def __init__(self, swarm_key: bytes) -> None:
        """Raises ValueError unless the key has 32 bytes."""
        if len(swarm_key) != SWARM_KEY_BYTES:
            raise ValueError(f"a swarm's key has {SWARM_KEY_BYTES} bytes")
        # HKDF-Extract without a salt, RFC 5869 section 2.2.
        self._extracted = hmac.digest(bytes(hashlib.sha256().digest_size), swarm_key, "sha256")

    def __repr__(self) -> str:
        return "SwarmSecret(…)"

    @property
    def commitment(self) -> bytes:
        """32 bytes that bind the swarm's id to the key and give nothing of it away."""
        return self._derived(_COMMITMENT)

    def place(self, key: str) -> str:
        """The key that stands in the DHT for a public swarm's key of that text."""
        return self._derived(_PLACE, key.encode()).hex()

    def subkey(self, place_id: bytes, subkey: str) -> str:
        """The subkey at one place for what a public swarm would store under that subkey.

        `place_id` is the key as the DHT sends it. No two places show the same author alike.
        """
        return self._derived(_SUBKEY, place_id, subkey.encode()).hex()

    def seal_record(self, place_id: bytes, subkey: str, announcement: bytes) -> bytes:
        """At most 1 KiB; raises WireError for an announcement of more than 996 bytes."""
        if len(announcement) > ANNOUNCEMENT_BYTES_MAX - SEAL_BYTES:
            raise WireError(Reason.OVERSIZE, f"more than {ANNOUNCEMENT_BYTES_MAX} bytes sealed")
        return self._seal(announcement, _RECORD, (place_id, subkey.encode()))

    def open_record(self, place_id: bytes, subkey: str, sealed: bytes) -> bytes:
        """The announcement that lies at a place under a subkey; raises WireError."""
        parts = (place_id, subkey.encode())
        return self._open(sealed, ANNOUNCEMENT_BYTES_MAX, _RECORD, parts)

    def seal_request(self, exchange: Exchange, request: bytes) -> bytes:
        """28 bytes longer than the request."""
        return self._seal(request, _REQUEST, exchange.parts)

    def open_request(self, exchange: Exchange, sealed: bytes) -> bytes:
        """The asker's request; raises WireError."""
        limit = RESPONSE_BYTES_MAX + SEAL_BYTES
        return self._open(sealed, limit, _REQUEST, exchange.parts)

    def seal_response(self, exchange: Exchange, sealed_request: bytes, response: bytes) -> bytes:
        """28 bytes longer than the response; it answers this one request."""
        return self._seal(response, _RESPONSE, exchange.parts, _hash(sealed_request))

    def open_response(self, exchange: Exchange, sealed_request: bytes, sealed: bytes) -> bytes:
        """The answer to the request that was sealed so; raises WireError."""
        limit, request = RESPONSE_BYTES_MAX + SEAL_BYTES, _hash(sealed_request)
        return self._open(sealed, limit, _RESPONSE, exchange.parts, request)

    def _derived(self, *parts: bytes) -> bytes:
        # HKDF-Expand to one block, RFC 5869 section 2.3.
        return hmac.digest(self._extracted, framed(*parts) + b"\x01", "sha256")

    def _seal(
        self, plain: bytes, domain: bytes, parts: tuple[bytes, ...], *answered: bytes
    ) -> bytes:
        cipher = ChaCha20Poly1305(self._derived(domain, *parts))
        nonce = os.urandom(SEAL_NONCE_BYTES)
        return nonce + cipher.encrypt(nonce, plain, framed(domain, *parts, *answered))

    def _open(
        self, sealed: bytes, limit: int, domain: bytes, parts: tuple[bytes, ...], *answered: bytes
    ) -> bytes:
        if len(sealed) > limit:
            raise WireError(Reason.OVERSIZE, f"more than {limit} bytes")
        nonce, rest = sealed[:SEAL_NONCE_BYTES], sealed[SEAL_NONCE_BYTES:]
        if len(sealed) >= SEAL_BYTES:
            cipher = ChaCha20Poly1305(self._derived(domain, *parts))
            try:
                return cipher.decrypt(nonce, rest, framed(domain, *parts, *answered))
            except InvalidTag:
                pass
        raise WireError(Reason.SEAL, "it does not open under the swarm's key")


def _hash(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
