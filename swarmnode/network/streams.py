"""Addresses of libp2p, and messages on its byte streams: each preceded by its length.

Source: protocol/README.md, section 10.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from swarmnode.network.addresses import RELAYED
from swarmnode.network.light_hivemind import Multiaddr, PeerID
from swarmnode.network.peer import peer_id_in

_LENGTH_BYTES: Final = 4
_CHUNK_BYTES: Final = 64 * 1024
_PEER_CODE: Final = b"\xa5\x03"
_RELAYED_PART: Final = b"\xa2\x02"


def parsed(address: str) -> tuple[Any, bytes] | None:
    """Peer and place of a multiaddr that ends in /p2p/ID."""
    peer_id = peer_id_in(address)
    where, relayed, _ = address.partition(f"{RELAYED}/p2p/{peer_id}")
    try:
        peer = PeerID.from_base58(peer_id)
        if not relayed:
            return peer, Multiaddr(address.removesuffix(f"/p2p/{peer_id}")).to_bytes()
        relay = peer_id_in(where)
        host = Multiaddr(where.removesuffix(f"/p2p/{relay}")).to_bytes()
        return peer, host + _as_part(PeerID.from_base58(relay)) + _RELAYED_PART
    except Exception:  # hivemind's parser raises what it likes
        return None


def _as_part(peer: Any) -> bytes:
    """A peer as a part of a binary multiaddr: hivemind writes a CID there, which Go refuses."""
    multihash: bytes = peer.to_bytes()
    return _PEER_CODE + bytes([len(multihash)]) + multihash


def readable(address: bytes, peer_id: str) -> str:
    """A multiaddr as text with the peer at its end, "" for forms that hivemind can't read."""
    try:
        text = str(Multiaddr(address))
    except Exception:  # its parser raises what it likes
        return ""
    return text if text.endswith(f"/p2p/{peer_id}") else f"{text}/p2p/{peer_id}"


async def write_framed(writer: asyncio.StreamWriter, message: bytes) -> None:
    writer.write(len(message).to_bytes(_LENGTH_BYTES))
    for start in range(0, len(message), _CHUNK_BYTES):
        writer.write(message[start : start + _CHUNK_BYTES])
        await writer.drain()
    await writer.drain()


async def read_framed(reader: asyncio.StreamReader, limit: int) -> bytes:
    length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES))
    if length > limit:
        raise ValueError("a message beyond its limit")
    return await reader.readexactly(length)
