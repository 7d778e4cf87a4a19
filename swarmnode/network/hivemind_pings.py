"""Whether another peer answers: its DHT node, or, where it has never had one, its libp2p.

p2pd answers libp2p's ping for a Python that hangs, so that this is taken only from peers that run
on something else.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from typing import Any, Final

from swarmnode.network.dht_node import DhtNode
from swarmnode.network.light_hivemind import PeerID, control_messages
from swarmnode.network.p2pd import Daemon
from swarmnode.network.peer import PING_BYTES, PING_PROTOCOL

PING_SECONDS: Final = 5.0
WITH_DHT_REMEMBERED: Final = 1024


def opening(peer: Any, protocol: str) -> Any:
    """The request to p2pd that opens a stream."""
    return control_messages.Request(
        type=control_messages.Request.STREAM_OPEN,
        streamOpen=control_messages.StreamOpenRequest(peer=peer.to_bytes(), proto=[protocol]),
    )


class Pings:
    """The pings of one peer of ours."""

    def __init__(self, daemon: Daemon, dht: DhtNode) -> None:
        self._daemon = daemon
        self._dht = dht
        self._with_dht: OrderedDict[str, None] = OrderedDict()

    async def ping(self, peer_id: str) -> bool:
        """See Peer."""
        try:
            peer = PeerID.from_base58(peer_id)
        except ValueError:
            return False
        if await self.ping_dht(peer):
            return True
        return peer_id not in self._with_dht and await self._ping_libp2p(peer)

    async def ping_dht(self, peer: Any) -> bool:
        """Whether its DHT node answers; one that doesn't leaves the routing table."""
        answered = await self._dht.ping(peer)
        if answered:
            self._with_dht[str(peer)] = None
            self._with_dht.move_to_end(str(peer))
            if len(self._with_dht) > WITH_DHT_REMEMBERED:
                self._with_dht.popitem(last=False)
        return answered

    async def _ping_libp2p(self, peer: Any) -> bool:
        said, asking = secrets.token_bytes(PING_BYTES), opening(peer, PING_PROTOCOL)
        try:
            async with (
                asyncio.timeout(PING_SECONDS),
                self._daemon.conversation(asking, PING_SECONDS) as (_, reader, writer),
            ):
                writer.write(said)
                return await reader.readexactly(PING_BYTES) == said
        except (OSError, TimeoutError, EOFError):
            return False
