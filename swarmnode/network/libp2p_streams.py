"""Addresses of py-libp2p, and messages on its streams: each preceded by its length.

Source: protocol/README.md, section 10.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Sequence
from typing import Any, Final

import psutil

from swarmnode.network.addresses import tcp_part
from swarmnode.network.light_libp2p import (
    RELAYED_CONNECTION,
    Multiaddr,
    PeerID,
    length_prefixed,
    trio,
)
from swarmnode.network.peer import peer_id_in

_LENGTH_BYTES: Final = 4
_CHUNK_BYTES: Final = 64 * 1024
MESSAGE_BYTES_MAX: Final = 4096
"""Of the messages about circuits."""
RESET_SECONDS: Final = 1.0
GRANT_BYTES: Final = 64 * 1024
"""A quarter of what yamux lets a peer say unread."""


def parsed(address: str) -> tuple[Any, Any] | None:
    """Peer and place of a multiaddr that ends in /p2p/ID."""
    peer_id = peer_id_in(address)
    try:
        peer = PeerID.from_base58(peer_id)
        return peer, Multiaddr(address.removesuffix(f"/p2p/{peer_id}"))
    except Exception:  # its parsers raise what they like
        return None


def address_of(connection: Any, peer_id: str) -> str:
    """Where a connection comes from or goes to, as a multiaddr; "" where that is unknown."""
    if is_relayed(connection.muxed_conn):
        relay = next(iter(connection.muxed_conn.get_transport_addresses()), "")
        return f"{relay}/p2p/{peer_id}"
    remote = connection.muxed_conn.get_remote_address()
    if remote is None:
        return ""
    host, port = remote
    return address_at(host, port, peer_id)


def is_relayed(muxed: Any) -> bool:
    """Whether a connection goes through somebody else."""
    return bool(muxed.get_connection_type() == RELAYED_CONNECTION)


def address_at(host: str, port: int, peer_id: str) -> str:
    """The multiaddr of a peer at a host and TCP port."""
    kind = "ip6" if ":" in host else "ip4"
    return f"/{kind}/{host}/tcp/{port}/p2p/{peer_id}"


def expanded(address: str, hosts: Sequence[str] | None = None) -> Sequence[str]:
    """The addresses that are meant by one of every network, 0.0.0.0 or ::.

    `hosts` are this machine's addresses, which are asked for where they are not given.
    """
    part = tcp_part(address)
    if part is None or not ipaddress.ip_address(part[0]).is_unspecified:
        return [address]
    any_host = ipaddress.ip_address(part[0])
    found = [
        host
        for host in (_own_hosts() if hosts is None else hosts)
        if ipaddress.ip_address(host).version == any_host.version
    ]
    return [address.replace(f"/{part[0]}/", f"/{host}/", 1) for host in found]


def _own_hosts() -> Sequence[str]:
    return [
        each.address.partition("%")[0]
        for of_interface in psutil.net_if_addrs().values()
        for each in of_interface
        if each.family.name in ("AF_INET", "AF_INET6")
    ]


async def write_message(stream: Any, message: Any) -> None:
    """A protobuf message after its length, under trio."""
    await stream.write(length_prefixed(message.SerializeToString()))


async def read_message(stream: Any, kind: Any, limit: int = MESSAGE_BYTES_MAX) -> Any:
    """A protobuf message after its length, under trio. Raises ValueError for what is none."""
    length = shift = 0
    more = True
    while more:
        [byte] = await read_exactly(stream, 1)
        length |= (byte & 0x7F) << shift
        shift, more = shift + 7, byte >= 0x80
        if length > limit or shift > 14:
            raise ValueError(f"a message of more than {limit} bytes")
    message = kind()
    message.ParseFromString(await read_exactly(stream, length))
    return message


async def give_up(stream: Any) -> None:
    """Reset a stream under trio, also where we are being cancelled, within RESET_SECONDS."""
    with trio.move_on_after(RESET_SECONDS, shield=True), contextlib.suppress(Exception):
        await stream.reset()


async def write_framed(stream: Any, message: bytes) -> None:
    """Under trio."""
    await stream.write(len(message).to_bytes(_LENGTH_BYTES) + message[:_CHUNK_BYTES])
    for start in range(_CHUNK_BYTES, len(message), _CHUNK_BYTES):
        await stream.write(message[start : start + _CHUNK_BYTES])


async def read_framed(stream: Any, limit: int) -> bytes:
    """Under trio. Raises ValueError for one beyond its limit."""
    length = int.from_bytes(await read_exactly(stream, _LENGTH_BYTES))
    if length > limit:
        raise ValueError("a message beyond its limit")
    return await read_exactly(stream, length)


async def read_exactly(stream: Any, count: int) -> bytes:
    """Under trio. Raises EOFError where the stream ends before."""
    received = bytearray()
    while len(received) < count:
        chunk = await stream.read(min(count - len(received), _CHUNK_BYTES))
        if not chunk:
            raise EOFError("the stream ended")
        received += chunk
    return bytes(received)


class Reader:
    """What a peer says on a stream, read at a lower cost than py-libp2p's own `read`.

    That grants the peer more at every read, in a frame for each small message: half of the frames
    of all. Here a grant waits for GRANT_BYTES.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream.muxed_stream
        self._ungranted = 0

    async def read(self) -> bytes:
        """What there is, at least a byte. Raises whatever py-libp2p does, at the end as well."""
        received: bytes = await self._stream.conn.read_stream(self._stream.stream_id, _CHUNK_BYTES)
        self._ungranted += len(received)
        if self._ungranted >= GRANT_BYTES:
            self._stream.recv_window += self._ungranted
            granted, self._ungranted = self._ungranted, 0
            await self._stream.send_window_update(granted)
        return received
