"""Our peer, kept alive: whatever ends it, it is built again, and takes up where it was.

Knows the shape of a peer and how to have one built, no hivemind. What the rest of the network
process asks of other peers goes through here and ends in time, whether a peer runs or not.
Handlers are served again by every new peer, and the records that we held for others are held
again. Source: network.md §1, §6.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import structlog

from swarmnode.clock import Clock
from swarmnode.network.connections import Connection, seen_again
from swarmnode.network.peer import Handler, Heard, Peer, PeerUnreachable
from swarmnode.network.whereabouts import Whereabouts

LOOK_AGAIN_SECONDS: Final = 0.2

State = Literal["starting", "alone", "connected", "down"]
Build = Callable[[bool], Awaitable[Peer]]
"""Builds a peer; the argument says whether it serves the DHT. It may raise anything."""
Result = TypeVar("Result")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Patience:
    """Time limits and pauses in seconds."""

    store: float = 15.0
    get: float = 15.0
    publish: float = 5.0
    dial: float = 12.0
    look: float = 6.0
    look_every: float = 2.0
    ping_every: float = 30.0
    prove_every: float = 15.0
    build: float = 120.0
    rebuild_first: float = 1.0
    rebuild_most: float = 60.0
    close: float = 10.0


class Supervised:
    """A Swarm whose peer may come and go; `run` must be running for it to come back.

    `server` says whether the first peer serves the DHT. `restored` is called after each start;
    `whereabouts` are told of all connections.
    """

    def __init__(
        self,
        build: Build,
        *,
        clock: Clock,
        server: bool,
        restored: Callable[[], None],
        whereabouts: Whereabouts,
        patience: Patience | None = None,
    ) -> None:
        self._build = build
        self._clock = clock
        self._server = server
        self._restored = restored
        self._whereabouts = whereabouts
        self._patience = patience or Patience()
        self._peer: Peer | None = None
        self._records: Any = None
        self._served: dict[str, tuple[Handler, int]] = {}
        self._topics: dict[str, Heard] = {}
        self._reform = asyncio.Event()
        self._renewed_since = ""
        self._last_addresses: Sequence[str] = ()
        self._bytes_before = [0, 0]
        self._looked_at = -1e9
        self.connections: dict[str, Connection] = {}
        """Connected peers by id, as of the last look at them."""
        self.calls: Counter[str] = Counter()
        """Calls that were answered, by protocol; and those that were not, as PROTOCOL/failed."""
        self.restarts = 0
        self.peer_id = ""
        self.error = ""
        """Why there is no peer now, in one line."""

    @property
    def state(self) -> State:
        """In one word."""
        if self._peer is None:
            return "down" if self.peer_id else "starting"
        return "connected" if self.connections else "alone"

    @property
    def server(self) -> bool:
        """Whether our peer serves the DHT, or the next one will."""
        return self._server

    @property
    def addresses(self) -> Sequence[str]:
        """Of our peer, or of the last one while there is none."""
        return self._last_addresses if self._peer is None else list(self._peer.addresses)

    @property
    def clock_offset(self) -> float | None:
        """See Peer."""
        return None if self._peer is None else self._peer.clock_offset

    @property
    def bytes_in(self) -> int:
        """Bytes received, by all peers so far."""
        return self._bytes_before[0] + (self._peer.bytes_in if self._peer else 0)

    @property
    def bytes_out(self) -> int:
        """Bytes sent, by all peers so far."""
        return self._bytes_before[1] + (self._peer.bytes_out if self._peer else 0)

    def serve(self, protocol: str, handler: Handler, request_limit: int) -> None:
        """Answer requests of other peers, by this peer and every later one."""
        self._served[protocol] = handler, request_limit
        if self._peer is not None:
            self._peer.serve(protocol, handler, request_limit)

    def listen(self, topic: str, heard: Heard | None) -> None:
        """See Peer; every later peer listens as well."""
        if heard is None:
            self._topics.pop(topic, None)
        else:
            self._topics[topic] = heard
        if self._peer is not None:
            self._peer.listen(topic, heard)

    async def start(self) -> None:
        """Build the first peer; raises what building raises, since orders may be wrong."""
        await self._begin()

    async def run(self) -> None:
        """Keep a peer running, until cancelled."""
        wait = self._patience.rebuild_first
        while True:
            if self._peer is not None:
                self.error = await self._until_useless(self._peer)
                log.warning("our peer is built anew", why=self.error)
                await self._end()
                self.restarts += 1
            try:
                await self._begin()
                wait = self._patience.rebuild_first
            except Exception as error:
                # Whatever it is, trying again is all that is left: training goes on meanwhile.
                self.error = f"{type(error).__name__}: {error}".splitlines()[0][:300]
                log.error("our peer could not be built", why=self.error, again_in_seconds=wait)
                await self._clock.sleep(wait)
                wait = min(wait * 2, self._patience.rebuild_most)

    async def close(self) -> None:
        """End the peer."""
        await self._end()

    def become(self, *, server: bool) -> None:
        """Serve the DHT or stop it: with a new peer, where there is one and that is a change."""
        if server != self._server:
            self._server = server
            if self.has_dht:
                self.renew("others can dial us after all, or can't")

    def renew(self, why: str) -> None:
        """Build our peer anew, for a reason in a few words."""
        self._renewed_since = why
        self._reform.set()

    @property
    def has_dht(self) -> bool:
        """See Swarm; False while we have no peer."""
        return self._peer is not None and self._peer.has_dht

    async def store(self, key: str, subkey: str, value: bytes, expires: float, /) -> int:
        """See Swarm; 0 while we have no peer."""
        if self._peer is None:
            return 0
        storing = self._peer.store(key, subkey, value, expires)
        return await self._within(self._patience.store, storing, otherwise=0)

    async def get(self, keys: Sequence[str], /) -> Mapping[str, Mapping[str, bytes]]:
        """See Swarm; nothing while we have no peer."""
        nothing: Mapping[str, Mapping[str, bytes]] = {}
        if self._peer is None:
            return nothing
        return await self._within(self._patience.get, self._peer.get(keys), otherwise=nothing)

    async def publish(self, topic: str, data: bytes, /) -> int:
        """See Peer; 0 while we have no peer."""
        if self._peer is None:
            return 0
        publishing = self._peer.publish(topic, data)
        return await self._within(self._patience.publish, publishing, otherwise=0)

    async def call(
        self,
        peer_id: str,
        protocol: str,
        request: bytes,
        response_limit: int,
        timeout_seconds: float,
        /,
    ) -> bytes:
        """See Swarm."""
        self.calls[f"{protocol}/failed"] += 1
        if self._peer is None:
            raise PeerUnreachable("our own peer is being restarted")
        asking = self._peer.call(peer_id, protocol, request, response_limit, timeout_seconds)
        try:
            async with asyncio.timeout(timeout_seconds):
                response = await asking
        except TimeoutError:
            raise PeerUnreachable(f"no answer within {timeout_seconds} s") from None
        self.calls[f"{protocol}/failed"] -= 1
        self.calls[protocol] += 1
        return response

    async def connected(self) -> Sequence[tuple[str, str]]:
        """See Swarm: as of the last look, a few seconds old."""
        return [(peer_id, each.address) for peer_id, each in self.connections.items()]

    async def look(self) -> None:
        """Look at the connections again, unless that was just done."""
        just = 0 <= self._clock.now() - self._looked_at < LOOK_AGAIN_SECONDS
        if self._peer is not None and not just:
            await self._look_at_connections(self._peer)

    async def connect(self, address: str) -> bool:
        """See Peer; False while we have none."""
        if self._peer is None:
            return False
        dialling = self._peer.connect(address)
        return await self._within(self._patience.dial, dialling, otherwise=False)

    async def disconnect(self, peer_id: str) -> None:
        """See Peer."""
        self.connections.pop(peer_id, None)
        if self._peer is not None:
            hanging_up = self._peer.disconnect(peer_id)
            await self._within(self._patience.dial, hanging_up, otherwise=None)

    async def ping(self, peer_id: str) -> bool:
        """See Peer; False while we have none."""
        if self._peer is None:
            return False
        return await self._within(self._patience.dial, self._peer.ping(peer_id), otherwise=False)

    async def _begin(self) -> None:
        async with asyncio.timeout(self._patience.build):
            peer = await self._build(self._server)
        for protocol, (handler, request_limit) in self._served.items():
            peer.serve(protocol, handler, request_limit)
        for topic, heard in self._topics.items():
            peer.listen(topic, heard)
        if self._records is not None:
            peer.import_records(self._records)
        self._peer = peer
        self.peer_id, self.error = peer.peer_id, ""
        self._restored()

    async def _end(self) -> None:
        peer, self._peer = self._peer, None
        self.connections = {}
        if peer is None:
            return
        self._records, self._last_addresses = peer.export_records(), peer.addresses
        self._bytes_before[0] += peer.bytes_in
        self._bytes_before[1] += peer.bytes_out
        await self._within(self._patience.close, peer.close(), otherwise=None)

    async def _until_useless(self, peer: Peer) -> str:
        """Why the peer has to be built anew, in one line."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience.look_every):
                    await _first_of(peer.died.wait(), self._reform.wait())
            if peer.died.is_set():
                return "the libp2p process is gone, or does not answer"
            if self._reform.is_set():
                self._reform.clear()
                return f"restarting, since {self._renewed_since}"
            await self._look_at_connections(peer)

    async def _look_at_connections(self, peer: Peer) -> None:
        before = [(peer_id, each.address) for peer_id, each in self.connections.items()]
        listed = await self._within(self._patience.look, peer.connected(), otherwise=before)
        if self._peer is peer:
            self._looked_at = self._clock.now()
            self.connections = seen_again(self.connections, listed, self._looked_at)
            self._whereabouts.listed({name: one.address for name, one in self.connections.items()})

    async def _within(
        self, seconds: float, asking: Awaitable[Result], *, otherwise: Result
    ) -> Result:
        try:
            async with asyncio.timeout(seconds):
                return await asking
        except (TimeoutError, PeerUnreachable):
            return otherwise


async def _first_of(*waits: Coroutine[Any, Any, object]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
