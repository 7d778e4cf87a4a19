"""The messages of hivemind's DHT in a private swarm: sealed, so that members alone take part.

Stands between DhtNode and hivemind's client, which goes on to carry bytes. Others neither read what
is searched for and stored nor get into a routing table. Source: protocol/README.md, section 14.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from swarmnode.network.dht_messages import Asker, GuardedClient
from swarmnode.network.peer import PeerUnreachable
from swarmnode.network.sealing import REFUSAL, Sealing
from swarmproto import Exchange

_Message = Any


class SealedMessages:
    """What DhtNode needs of a P2P."""

    def __init__(self, peer_id: Any, client: GuardedClient, sealing: Sealing) -> None:
        self.peer_id: Final = peer_id
        self._client = client
        self._sealing = sealing

    async def call_protobuf_handler(
        self, peer: Any, name: str, request: _Message, response: Any
    ) -> _Message:
        """Ask a peer; raises ConnectionError where it is no member, and what hivemind raises."""
        exchange = Exchange(name, str(self.peer_id), str(peer))
        sealed = self._sealing.secret.seal_request(exchange, request.SerializeToString())
        answer = await self._client.call_unary_handler(peer, name, sealed)
        try:
            opened = self._sealing.opened_response(exchange, sealed, answer)
        except PeerUnreachable as error:
            raise ConnectionError(str(error)) from None
        return response.FromString(opened)

    async def add_protobuf_handler(
        self, name: str, handler: Callable[[_Message, Any], Awaitable[_Message]], request: Any
    ) -> None:
        """Answer members; whoever else asks hears the one refusal."""

        async def answer(sealed: bytes, remote_id: Any) -> bytes:
            exchange = Exchange(name, str(remote_id), str(self.peer_id))
            opened = self._sealing.opened_request(exchange, sealed)
            if opened is None:
                return REFUSAL
            response = await handler(request.FromString(opened), Asker(remote_id))
            plain: bytes = response.SerializeToString()
            return self._sealing.secret.seal_response(exchange, sealed, plain)

        await self._client.add_unary_handler(name, answer)
