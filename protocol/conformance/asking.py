"""A peer that asks another over a real connection: py-libp2p, noise and yamux. Under trio.

Knows no swarmnode. What is asked of a private swarm's node is sealed with its key.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import trio
from libp2p import new_host
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr

import swarmproto as wire

ANSWER_SECONDS: Final = 20.0
MESH_SECONDS: Final = 20.0
LENGTH_BYTES: Final = 4


class NoAnswer(Exception):
    """The stream was refused, reset or closed, or nothing came in time."""


class Asking:
    """A connection to the node under test."""

    def __init__(self, host: Any, node: str, secret: wire.SwarmSecret | None) -> None:
        self._host = host
        self._pubsub: Any = None
        self.node: Final = node
        self.own: Final = str(host.get_id())
        self.secret: Final = secret

    async def ask(self, protocol: str, request: bytes) -> bytes:
        """The answer to a request, opened where it is sealed. Raises NoAnswer and WireError."""
        if self.secret is None:
            return await self.raw(protocol, framed(request))
        exchange = wire.Exchange(protocol, self.own, self.node)
        sealed = self.secret.seal_request(exchange, request)
        answer = await self.raw(protocol, framed(sealed))
        return self.secret.open_response(exchange, sealed, answer)

    async def raw(self, protocol: str, said: bytes, *, piece: int = 0) -> bytes:
        """The answer to bytes as they are, said `piece` by `piece`. Raises NoAnswer."""
        try:
            with trio.fail_after(ANSWER_SECONDS):
                stream = await self._host.new_stream(ID.from_base58(self.node), [protocol])
                for start in range(0, len(said), piece or len(said) or 1):
                    await stream.write(said[start : start + (piece or len(said))])
                    if piece:
                        await trio.sleep(0.001)
                length = int.from_bytes(await _exactly(stream, LENGTH_BYTES), "big")
                if length > wire.RESPONSE_BYTES_MAX + wire.SEAL_BYTES:
                    raise NoAnswer(f"an answer of {length} bytes")
                answer = await _exactly(stream, length)
                await stream.close()
                return answer
        except NoAnswer:
            raise
        except Exception as error:  # whatever it is, there is no answer
            raise NoAnswer(f"{type(error).__name__}: {error}") from None

    async def told(self, topic: str, data: bytes) -> bool:
        """Publish on a topic; False where the node does not listen to it."""
        with trio.move_on_after(MESH_SECONDS):
            await self._pubsub.wait_for_subscription(
                ID.from_base58(self.node), topic, timeout=MESH_SECONDS
            )
            await self._pubsub.wait_for_peer(ID.from_base58(self.node), timeout=MESH_SECONDS)
            await self._pubsub.publish(topic, data)
            return True
        return False


@asynccontextmanager
async def asking(
    address: str, private_key: bytes, secret: wire.SwarmSecret | None
) -> AsyncIterator[Asking]:
    """Connected to a multiaddr that ends in /p2p/PEER. Raises whatever py-libp2p raises."""
    place, _, node = address.rpartition("/p2p/")
    host = new_host(key_pair=create_new_key_pair(private_key))
    router = GossipSub(
        protocols=["/meshsub/1.1.0"], degree=6, degree_low=4, degree_high=8, heartbeat_interval=1
    )
    connection = Asking(host, node, secret)
    async with host.run(listen_addrs=[]):
        pubsub = Pubsub(host, router)
        async with background_trio_service(pubsub), background_trio_service(router):
            await pubsub.wait_until_ready()
            connection._pubsub = pubsub
            await host.connect(PeerInfo(ID.from_base58(node), [Multiaddr(place)]))
            yield connection


def framed(message: bytes) -> bytes:
    """A message as it goes on a stream."""
    return len(message).to_bytes(LENGTH_BYTES, "big") + message


async def _exactly(stream: Any, count: int) -> bytes:
    received = b""
    while len(received) < count:
        piece = await stream.read(count - len(received))
        if not piece:
            raise NoAnswer("the stream was closed")
        received += piece
    return received
