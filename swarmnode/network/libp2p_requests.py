"""Requests and answers over py-libp2p's streams: a message each way, preceded by its length.

Called from asyncio; talks under trio. Messages travel as hivemind_dht.py sends them
(protocol/README.md, section 10), so that either answers the other. Invariants: every call ends
within its time limit; what strangers leave open is bounded, and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final

from swarmnode.network.incoming import ANSWER_SECONDS, REQUEST_SECONDS, STREAMS_MAX, Incoming
from swarmnode.network.libp2p_host import GuardedHost
from swarmnode.network.libp2p_streams import give_up, read_exactly, read_framed, write_framed
from swarmnode.network.light_libp2p import PeerID, trio
from swarmnode.network.peer import PING_BYTES, PING_PROTOCOL, Handler, PeerUnreachable
from swarmnode.network.trio_guest import Guest

PING_SECONDS: Final = 5.0
CLOSING_SECONDS: Final = 10.0
"""That an asker has to take the answer and close its half."""


class Requests:
    """Of one host, to its connected peers and from them."""

    def __init__(self, guest: Guest, guarded: GuardedHost) -> None:
        self._guest = guest
        self._guarded = guarded
        self._incoming = Incoming(None)  # the doors have been passed when a protocol is known
        self._outgoing = asyncio.Semaphore(STREAMS_MAX)
        self.bytes_in = 0
        self.bytes_out = 0

    async def call(
        self,
        peer_id: str,
        protocol: str,
        request: bytes,
        response_limit: int,
        timeout_seconds: float,
    ) -> bytes:
        """Ask a peer; the limit is in bytes. Raises PeerUnreachable, whatever the cause."""

        async def exchange(stream: Any) -> bytes:
            await write_framed(stream, request)
            return await read_framed(stream, response_limit)

        response: bytes = await self._on_stream(peer_id, protocol, exchange, timeout_seconds)
        self.bytes_out += len(request)
        self.bytes_in += len(response)
        return response

    def serve(self, protocol: str, handler: Handler, request_limit: int) -> None:
        """Answer requests of at most so many bytes; failures of the handler reset the stream."""

        async def arrived(stream: Any) -> None:
            await self._answer(stream, handler, request_limit)

        self._guarded.host.set_stream_handler(protocol, arrived)

    async def ping(self, peer_id: str) -> bool:
        """Whether its libp2p answers."""
        said = secrets.token_bytes(PING_BYTES)

        async def exchange(stream: Any) -> bytes:
            await stream.write(said)
            return await read_exactly(stream, PING_BYTES)

        with contextlib.suppress(PeerUnreachable):
            return await self._on_stream(peer_id, PING_PROTOCOL, exchange, PING_SECONDS) == said
        return False

    async def _on_stream(
        self,
        peer_id: str,
        protocol: str,
        exchange: Callable[[Any], Awaitable[bytes]],
        seconds: float,
    ) -> bytes:
        """What `exchange` brings from a stream to a connected peer. Raises PeerUnreachable."""

        async def talk() -> bytes:
            peer = PeerID.from_base58(peer_id)
            if not self._guarded.swarm.get_connections(peer):
                raise ConnectionError("not connected")
            stream = await self._guarded.host.new_stream(peer, [protocol])
            try:
                answer = await exchange(stream)
                await stream.close()
            except BaseException:
                await give_up(stream)
                raise
            return answer

        try:
            async with asyncio.timeout(seconds), self._outgoing:
                return await self._guest.call(talk)
        except Exception as error:  # py-libp2p raises what it likes
            raise PeerUnreachable(f"{type(error).__name__}: {error}"[:200]) from None

    async def _answer(self, stream: Any, handler: Handler, request_limit: int) -> None:
        """One request of a stranger, under trio; what goes wrong is the host's guard's to catch."""
        peer_id = str(stream.muxed_conn.peer_id)
        if not self._incoming.arrives(peer_id, ""):
            await stream.reset()
            return
        try:
            with trio.fail_after(REQUEST_SECONDS):
                request = await read_framed(stream, request_limit)
            with trio.fail_after(ANSWER_SECONDS):
                response = await self._guest.host(handler(peer_id, request))
                await write_framed(stream, response)
            self.bytes_in += len(request)
            self.bytes_out += len(response)
            await stream.close()
        finally:
            self._incoming.ends(peer_id)
        # A half that the asker leaves open would be kept as long as the connection.
        with trio.move_on_after(CLOSING_SECONDS), contextlib.suppress(Exception):
            await stream.read(1)
        await stream.reset()
