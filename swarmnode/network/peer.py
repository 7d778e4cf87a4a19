"""What the network process needs of a libp2p peer, so that its logic runs on any of that shape.

Knows no hivemind and no announcements: keys, values, requests and responses are bytes and texts.
Source: network.md §1; the real one is hivemind_dht.py, tests have one in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

PING_PROTOCOL: Final = "/ipfs/ping/1.0.0"
PING_BYTES: Final = 32
"""libp2p's own: what is sent comes back."""

Handler = Callable[[str, bytes], Awaitable[bytes]]
"""Answers one request: the asking peer's id, authenticated, and its bytes."""


Heard = Callable[[str, bytes], bool]
"""Takes one message of a topic: the publisher's peer id, authenticated, and its bytes; whether the
message is worth passing on to others."""


class PeerUnreachable(Exception):
    """A peer did not answer, or not in time. Nobody is to blame; later it may."""


class Swarm(Protocol):
    """What may be asked of other peers, whatever happens to our own. Every call ends in time."""

    @property
    def has_dht(self) -> bool:
        """Whether there is a DHT: without one nothing is stored, and nothing found."""

    async def store(self, key: str, subkey: str, value: bytes, expires: float, /) -> int:
        """Store a record in the DHT; how many other peers acknowledged it."""

    async def get(self, keys: Sequence[str], /) -> Mapping[str, Mapping[str, bytes]]:
        """Validated values by key and subkey; a key without any may be left out."""

    async def call(
        self,
        peer_id: str,
        protocol: str,
        request: bytes,
        response_limit: int,
        timeout_seconds: float,
        /,
    ) -> bytes:
        """Ask a peer. Raises PeerUnreachable."""

    async def connected(self) -> Sequence[tuple[str, str]]:
        """Id and address of every peer that we are connected to."""


class Peer(Swarm, Protocol):
    """A running libp2p peer, with a DHT node or without."""

    @property
    def peer_id(self) -> str:
        """Our own id."""

    @property
    def addresses(self) -> Sequence[str]:
        """Multiaddrs with our id at the end, as others are told to dial them, at present."""

    @property
    def died(self) -> asyncio.Event:
        """Set once this peer is of no use any more and must be built anew."""

    @property
    def clock_offset(self) -> float | None:
        """Median of peers' clocks minus ours, in seconds, as their DHT nodes tell it."""

    @property
    def bytes_in(self) -> int:
        """Bytes of messages received."""

    @property
    def bytes_out(self) -> int:
        """Bytes of messages sent."""

    def serve(self, protocol: str, handler: Handler, request_limit: int, /) -> None:
        """Answer requests of other peers."""

    async def publish(self, topic: str, data: bytes, /) -> int:
        """Tell those who listen to a topic; to how many peers it was handed."""

    def listen(self, topic: str, heard: Heard | None, /) -> None:
        """Hear what others publish on a topic, or leave it."""

    async def connect(self, address: str, /) -> bool:
        """Dial a multiaddr that ends in /p2p/ID; whether we are connected to that peer."""

    async def disconnect(self, peer_id: str, /) -> None:
        """Hang up."""

    async def ping(self, peer_id: str, /) -> bool:
        """Whether the peer answers: its DHT node, where it has one and we do. A node that doesn't
        leaves our routing table."""

    def export_records(self) -> Any:
        """The DHT records that we hold for others, for import_records of the next peer."""

    def import_records(self, records: Any, /) -> None:
        """Hold what an earlier peer held."""

    async def close(self) -> None:
        """End; leaves no process behind."""


def peer_id_in(address: str) -> str:
    """The id at the end of a multiaddr, "" where there is none."""
    _, mark, peer_id = address.rpartition("/p2p/")
    return peer_id if mark and "/" not in peer_id else ""
