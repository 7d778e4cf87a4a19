"""The messages of hivemind's DHT on their way: past the doors, and in a public swarm in the open.

hivemind reads a message before anybody can say no to its sender; here the sender comes first.
A private swarm's are sealed_dht.py. Knows no records.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from swarmnode.network.doors import Doors

REQUEST_BYTES_MAX: Final = 128 * 1024
"""More than 64 records, each with its keys."""

_Message = Any


class GuardedClient:
    """hivemind's client of p2pd, of which a stranger's messages pass the doors first."""

    def __init__(self, client: Any, doors: Doors | None) -> None:
        self._client = client
        self._doors = doors

    async def call_unary_handler(self, peer: Any, name: str, request: bytes) -> bytes:
        """Ask a peer; raises what hivemind raises."""
        answer: bytes = await self._client.call_unary_handler(peer, name, request)
        return answer

    async def add_unary_handler(
        self, name: str, handler: Callable[[bytes, Any], Awaitable[bytes]]
    ) -> None:
        """Answer peers. What is turned away hears of an error, and costs us no more than that."""
        doors = self._doors

        async def answer(request: bytes, remote_id: Any) -> bytes:
            if len(request) > REQUEST_BYTES_MAX:
                raise ValueError("too long")
            if doors is not None and not doors.admits(str(remote_id)):
                raise ValueError("busy")
            return await handler(request, remote_id)

        await self._client.add_unary_handler(name, answer)


class OpenMessages:
    """What DhtNode needs of a P2P."""

    def __init__(self, peer_id: Any, client: GuardedClient) -> None:
        self.peer_id: Final = peer_id
        self._client = client

    async def call_protobuf_handler(
        self, peer: Any, name: str, request: _Message, response: Any
    ) -> _Message:
        """Ask a peer; raises what hivemind raises."""
        answer = await self._client.call_unary_handler(peer, name, request.SerializeToString())
        return response.FromString(answer)

    async def add_protobuf_handler(
        self, name: str, handler: Callable[[_Message, Any], Awaitable[_Message]], request: Any
    ) -> None:
        """Answer whoever asks."""

        async def answer(data: bytes, remote_id: Any) -> bytes:
            response = await handler(request.FromString(data), Asker(remote_id))
            plain: bytes = response.SerializeToString()
            return plain

        await self._client.add_unary_handler(name, answer)


class Asker:
    """Who asks."""

    def __init__(self, remote_id: Any) -> None:
        self.remote_id: Final = remote_id
