"""Whether others can dial us: a peer tries, at our word, and tells.

The peer opens a TCP connection to the port that we name, at the address from which we are
connected to it and no other, so it can't be sent against third parties; it looks for the first
line of libp2p's stream negotiation there. Request: the port, two bytes, big-endian. Response: one
byte, 1 for reached; none where the peer can't tell. Many peers are asked and the majority is
believed. Only TCP over IP is tried.
Source: network.md §6, 11; multistream-select's first line.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from swarmnode.network.addresses import tcp_part
from swarmnode.network.allowance import Allowance

DIAL_BACK_PROTOCOL: Final = "/swarmnode/dial-back/1"
REQUEST_BYTES: Final = 2
RESPONSE_BYTES: Final = 1
VOTES_REMEMBERED: Final = 16

_FIRST_LINE: Final = b"\x13/multistream/1.0.0\n"
_TRY_SECONDS: Final = 3.0

Probe = Callable[[str, int], Awaitable[bool]]
"""Whether a libp2p peer answers at an IP address and TCP port."""


async def speaks_libp2p(host: str, port: int) -> bool:
    """A Probe by a TCP connection of our own; within 3 s."""
    writer = None
    try:
        async with asyncio.timeout(_TRY_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(_FIRST_LINE)
            return await reader.readexactly(len(_FIRST_LINE)) == _FIRST_LINE
    except (OSError, TimeoutError, EOFError, OverflowError):
        return False
    finally:
        if writer is not None:
            writer.transport.abort()


class DialBack:
    """Serves the protocol."""

    def __init__(
        self,
        connected: Callable[[], Awaitable[Sequence[tuple[str, str]]]],
        tries: Allowance,
        probe: Probe,
        reached: Callable[[str], object] = lambda address: None,
    ) -> None:
        """`reached` is told the address of each peer that could be dialled."""
        self._connected = connected
        self._probe = probe
        self._tries = tries
        self._reached = reached

    async def answer(self, peer_id: str, request: bytes) -> bytes:
        """One byte: whether the peer can be dialled at that port; none when we can't tell."""
        if len(request) != REQUEST_BYTES or not self._tries.spend(peer_id, 1.0):
            return b""
        port = int.from_bytes(request)
        hosts = {
            part[0]
            for other, address in await self._connected()
            if other == peer_id and (part := tcp_part(address)) is not None
        }
        if not hosts:
            return b""
        reached = [host for host in sorted(hosts)[:2] if await self._probe(host, port)]
        for host in reached:
            kind = "ip6" if ":" in host else "ip4"
            self._reached(f"/{kind}/{host}/tcp/{port}/p2p/{peer_id}")
        return b"\x01" if reached else b"\x00"


class Reachability:
    """What the peers that were asked have found; the last answer of each of 16 counts."""

    def __init__(self) -> None:
        self._votes: OrderedDict[str, bool] = OrderedDict()

    def vote(self, peer_id: str, reached: bool) -> None:
        """One peer's answer."""
        self._votes[peer_id] = reached
        self._votes.move_to_end(peer_id)
        while len(self._votes) > VOTES_REMEMBERED:
            self._votes.popitem(last=False)

    @property
    def proven(self) -> bool | None:
        """What most say; None while nobody was asked, or as many say so as deny it."""
        reached = sum(self._votes.values())
        missed = len(self._votes) - reached
        return None if reached == missed else reached > missed

    @property
    def votes(self) -> int:
        """Peers whose answer counts."""
        return len(self._votes)
