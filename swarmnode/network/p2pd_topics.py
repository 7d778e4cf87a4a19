"""Topics of p2pd's GossipSub: what is published there, and heard, over its control socket.

p2pd verifies that a message is its publisher's and passes it on unread: it has no place for a
validator, so what is heard here has travelled already, and its verdict goes nowhere. Knows no
announcements. Source: network.md §1b.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from swarmnode.network.light_hivemind import PeerID, control_messages, read_message
from swarmnode.network.p2pd import Daemon
from swarmnode.network.peer import Heard

AGAIN_SECONDS: Final = 1.0
_FAILURES: Final = (OSError, TimeoutError, EOFError)

_Request = control_messages.Request
_Topic = control_messages.PSRequest


def _request(kind: int, topic: str, data: bytes = b"") -> Any:
    return _Request(type=_Request.PUBSUB, pubsub=_Topic(type=kind, topic=topic, data=data))


class Topics:
    """The topics of one p2pd; ends with it."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._own = str(daemon.p2p.peer_id)
        self._hearing: dict[str, asyncio.Task[None]] = {}
        self.bytes_in = 0
        self.bytes_out = 0

    async def publish(self, topic: str, data: bytes) -> int:
        """See Peer; 0 where p2pd does not answer."""
        try:
            listed = await self._daemon.ask(_request(_Topic.LIST_PEERS, topic))
            await self._daemon.ask(_request(_Topic.PUBLISH, topic, data))
        except _FAILURES:
            return 0
        self.bytes_out += len(data)
        return len(listed.pubsub.peerIDs)

    def listen(self, topic: str, heard: Heard | None) -> None:
        """See Peer. p2pd leaves a topic when the connection that it was joined by is closed."""
        if (before := self._hearing.pop(topic, None)) is not None:
            before.cancel()
        if heard is not None:
            self._hearing[topic] = asyncio.create_task(self._hear(topic, heard))

    async def close(self) -> None:
        """Leave all of them."""
        hearing, self._hearing = list(self._hearing.values()), {}
        for task in hearing:
            task.cancel()
        await asyncio.gather(*hearing, return_exceptions=True)

    async def _hear(self, topic: str, heard: Heard) -> None:
        while not self._daemon.died.is_set():
            try:
                subscribe = _request(_Topic.SUBSCRIBE, topic)
                async with self._daemon.conversation(subscribe) as (_, reader, _):
                    while True:
                        message = control_messages.PSMessage()
                        await read_message(reader, message)
                        self._take(message, heard)
            except _FAILURES:
                await asyncio.sleep(AGAIN_SECONDS)

    def _take(self, message: Any, heard: Heard) -> None:
        origin = str(PeerID(getattr(message, "from")))
        if origin != self._own:
            self.bytes_in += len(message.data)
            heard(origin, message.data)
