"""What nodes say on the local network by multicast DNS, as bytes: who asks, and who is there.

DNS-SD (RFC 6763) over mDNS (RFC 6762): each swarm is a service type of its own, so that a swarm's
nodes hear of each other alone, and an instance is a node. Messages are made and taken apart by
zeroconf; of a message everything but peer id and port of a node is left unread. Neither host name
nor swarm name is said. Pure.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from socket import inet_aton
from typing import Final

from zeroconf import (
    DNSAddress,
    DNSIncoming,
    DNSOutgoing,
    DNSPointer,
    DNSQuestion,
    DNSRecord,
    DNSService,
    DNSText,
)

from swarmproto import SwarmSecret

MESSAGE_BYTES_MAX: Final = 1500
"""A longer one is not read: what a node says of itself has 400 bytes."""
NODES_PER_MESSAGE_MAX: Final = 4
TTL_SECONDS: Final = 120

_TYPE_PTR, _TYPE_TXT, _TYPE_SRV, _TYPE_A = 12, 16, 33, 1
_CLASS_IN, _CLASS_FLUSH = 1, 0x8001
_QUERY, _RESPONSE = 0x0000, 0x8400
_TAG_CHARACTERS: Final = 12
"""60 bits: a service name has 15 characters at most, "sn-" among them."""
_PEER_ID_CHARACTERS: Final = range(40, 65)
_BASE58: Final = frozenset("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz")


@dataclass(frozen=True, slots=True)
class Seen:
    """A node, as a message tells of it: nothing of it is proven."""

    peer_id: str
    port: int


@dataclass(frozen=True, slots=True)
class Heard:
    """What a message holds for us."""

    asked: bool
    """Whether it asks who of this swarm is there, and doesn't name us as known."""
    seen: tuple[Seen, ...]


NOTHING: Final = Heard(False, ())


def service_type(swarm_id: bytes, secret: SwarmSecret | None) -> str:
    """The service type of a swarm, a private one's under its key: whoever lacks that can tell
    neither which swarm it is nor what its id is.
    """
    if secret is None:
        digest = hashlib.sha256(b"swarmnode/lan/1" + swarm_id).digest()
    else:
        digest = bytes.fromhex(secret.place("lan/1"))
    tag = base64.b32encode(digest).decode("ascii").lower()[:_TAG_CHARACTERS]
    return f"_sn-{tag}._tcp.local."


class Language:
    """What a node of one swarm, which goes by `label` there, says and understands."""

    def __init__(self, service: str, label: str) -> None:
        self._service = service
        self._instance = f"{label}.{service}"
        self._host = f"{label}.local."

    def question(self) -> bytes:
        """Who of this swarm is there?"""
        asked = DNSOutgoing(_QUERY)
        asked.add_question(DNSQuestion(self._service, _TYPE_PTR, _CLASS_IN))
        return bytes(asked.packets()[0])

    def answer(self, peer_id: str, host: str, port: int) -> bytes:
        """We are there: as this peer, at an IPv4 address and TCP port."""
        text = b"".join(bytes([len(each)]) + each for each in (b"v=1", b"id=" + peer_id.encode()))
        records: tuple[DNSRecord, ...] = (
            DNSPointer(self._service, _TYPE_PTR, _CLASS_IN, TTL_SECONDS, self._instance),
            DNSService(
                self._instance, _TYPE_SRV, _CLASS_FLUSH, TTL_SECONDS, 0, 0, port, self._host
            ),
            DNSText(self._instance, _TYPE_TXT, _CLASS_FLUSH, TTL_SECONDS, text),
            DNSAddress(self._host, _TYPE_A, _CLASS_FLUSH, TTL_SECONDS, inet_aton(host)),
        )
        said = DNSOutgoing(_RESPONSE)
        for record in records:
            said.add_answer_at_time(record, 0)
        return bytes(said.packets()[0])

    def heard(self, data: bytes) -> Heard:
        """What a stranger's message holds for us; NOTHING, if it breaks the form."""
        if len(data) > MESSAGE_BYTES_MAX:
            return NOTHING
        message = DNSIncoming(data)
        if not message.valid:
            return NOTHING
        records = message.answers()
        pointers = [
            each.alias.lower()
            for each in records
            if isinstance(each, DNSPointer) and each.ttl and each.name.lower() == self._service
        ]
        if message.is_query():
            wanted = (_TYPE_PTR, self._service)
            asked = any((each.type, each.name.lower()) == wanted for each in message.questions)
            return Heard(asked and self._instance not in pointers, ())
        named = list(dict.fromkeys(pointers))[:NODES_PER_MESSAGE_MAX]
        seen = (_seen(name, records) for name in named)
        return Heard(False, tuple(each for each in seen if each is not None))


def _seen(instance: str, records: Sequence[DNSRecord]) -> Seen | None:
    of_it = [each for each in records if each.name.lower() == instance and each.ttl]
    port = next((each.port for each in of_it if isinstance(each, DNSService)), 0)
    peer_id = next((_peer_id(each.text) for each in of_it if isinstance(each, DNSText)), "")
    return Seen(peer_id, port) if port and peer_id else None


def _peer_id(text: bytes) -> str:
    """The peer id in a TXT record of version 1, "" where there is none of a peer id's form."""
    entries = []
    while text:
        entries.append(text[1 : 1 + text[0]])
        text = text[1 + text[0] :]
    named = next((each for each in entries if each.startswith(b"id=")), b"")
    peer_id = named[3:].decode("ascii", errors="replace")
    fits = len(peer_id) in _PEER_ID_CHARACTERS and _BASE58.issuperset(peer_id)
    return peer_id if fits and b"v=1" in entries else ""
