"""Holes through two routers, on py-libp2p: libp2p's DCUtR, for peers that a relay has connected.

Both ends dial each other at once, from the port that they listen on, so that each router takes the
other's packets for answers. Whoever was dialled through the relay leads: it asks, measures the way,
and gives the sign. It is the client too, as in p2pd and unlike the specification's. py-libp2p's own
is not used: decision 0038 says why. Runs under trio.
Invariants: a peer has us dial PLACES_MAX addresses of the internet at most, as often as `tries`
allows, one peer after the other where we lead. Source: libp2p's specification of DCUtR.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from swarmnode.network.addresses import host_of, is_public, tcp_part
from swarmnode.network.allowance import Allowance
from swarmnode.network.libp2p_host import GuardedHost
from swarmnode.network.libp2p_streams import give_up, is_relayed, read_message, write_message
from swarmnode.network.light_libp2p import (
    IdentifyMessage,
    Multiaddr,
    PunchMessage,
    RawConnection,
    trio,
)

PUNCH_PROTOCOL: Final = "/libp2p/dcutr"
IDENTIFY_PROTOCOL: Final = "/ipfs/id/1.0.0"
IDENTIFY_BYTES_MAX: Final = 8192
LOOK_SECONDS: Final = 1.0
ASK_SECONDS: Final = 10.0
DIAL_SECONDS: Final = 5.0
GRACE_SECONDS: Final = 10.0
"""That a relayed connection lives on beside a direct one, for what is under way on it."""
ATTEMPTS: Final = 3
PLACES_MAX: Final = 2
PLACES_READ: Final = 32


class NoHole(ConnectionError):
    """The other end does not keep to the protocol, or may not have it of us."""


class Punching:
    """Of one host whose owner named `relays`, by id; `run` must be running for us to lead."""

    def __init__(self, guarded: GuardedHost, relays: Sequence[Any], tries: Allowance) -> None:
        self._guarded = guarded
        self._relays = tuple(relays)
        self._tries = tries
        self._attempts: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._beside_since: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        guarded.host.set_stream_handler(PUNCH_PROTOCOL, self._asked)

    def is_relay(self, peer: Any) -> bool:
        """Whether our owner named it."""
        return peer in self._relays

    async def dial_relay(self, relay: Any, place: Any) -> None:
        """From the port that we listen on, so that it sees where others would reach that one.

        Raises whatever py-libp2p does where it can't be dialled in any way.
        """
        if not self._guarded.swarm.get_connections(relay):
            await self._dial(relay, place)

    async def run(self) -> None:
        """Lead where a relay has brought us somebody, until cancelled."""
        while True:
            await trio.sleep(LOOK_SECONDS)
            for peer, connections in list(self._guarded.swarm.connections.items()):
                relayed = [each for each in connections if is_relayed(each.muxed_conn)]
                brought = [each for each in relayed if not each.muxed_conn.is_initiator]
                if len(relayed) < len(connections):
                    await self._settle(relayed)
                elif brought and (attempts := self._attempts.get(brought[0], 0)) < ATTEMPTS:
                    self._attempts[brought[0]] = attempts + 1
                    with contextlib.suppress(Exception):  # py-libp2p raises what it likes
                        await self._lead(peer)

    async def _settle(self, relayed: Sequence[Any]) -> None:
        """Hang up what goes through a relay, where there has been a direct connection long enough.

        py-libp2p takes the direct one for whatever is begun from now on.
        """
        now = trio.current_time()
        for each in relayed:
            if now - self._beside_since.setdefault(each, now) >= GRACE_SECONDS:
                with contextlib.suppress(Exception):
                    await each.close()

    async def _lead(self, peer: Any) -> None:
        with trio.fail_after(ASK_SECONDS):
            own = await self._own_places()
            stream = await self._guarded.host.new_stream(peer, [PUNCH_PROTOCOL])
            try:
                began = trio.current_time()
                await write_message(stream, _connect(own))
                there = _places((await _read(stream, PunchMessage.CONNECT)).ObsAddrs)
                way = trio.current_time() - began
                await write_message(stream, PunchMessage(type=PunchMessage.SYNC))
                await trio.sleep(way / 2)
            finally:
                with trio.move_on_after(1, shield=True), contextlib.suppress(Exception):
                    await stream.close()
        await self._dial_all(peer, there, client=True)

    async def _asked(self, stream: Any) -> None:
        """Somebody leads; what goes wrong is the host's guard's to catch."""
        peer = stream.muxed_conn.peer_id
        if not is_relayed(stream.muxed_conn) or not self._tries.spend(str(peer), 1.0):
            raise NoHole("not through a relay, or too often")
        with trio.fail_after(ASK_SECONDS):
            there = _places((await _read(stream, PunchMessage.CONNECT)).ObsAddrs)
            await write_message(stream, _connect(await self._own_places()))
            await _read(stream, PunchMessage.SYNC)
        await self._dial_all(peer, there, client=False)
        await stream.close()

    async def _own_places(self) -> Sequence[Any]:
        """Where the relays see us, and what we are told to announce. Raises NoHole for nowhere."""
        found = [str(each) for each in self._guarded.host.get_addrs()]
        for relay in self._relays:
            if self._guarded.swarm.get_connections(relay):
                with contextlib.suppress(Exception):  # whatever that one answers
                    found.append(await self._seen_by(relay))
        places = _fit(found)[-PLACES_MAX:]
        if not places:
            raise NoHole("no relay has told us where it sees us")
        return places

    async def _seen_by(self, relay: Any) -> str:
        stream = await self._guarded.host.new_stream(relay, [IDENTIFY_PROTOCOL])
        try:
            said = await read_message(stream, IdentifyMessage, IDENTIFY_BYTES_MAX)
        finally:
            await give_up(stream)
        return str(Multiaddr(said.observed_addr))

    async def _dial_all(self, peer: Any, places: Sequence[Any], *, client: bool) -> None:
        """Every place at once, until one is reached."""
        with trio.move_on_after(DIAL_SECONDS):
            async with trio.open_nursery() as nursery:
                for place in places:
                    nursery.start_soon(self._try, peer, place, client, nursery.cancel_scope)

    async def _try(self, peer: Any, place: Any, client: bool, scope: Any) -> None:
        with contextlib.suppress(Exception):  # py-libp2p raises what it likes
            await (self._dial if client else self._dial_as_server)(peer, place)
            scope.cancel()

    async def _dial(self, peer: Any, place: Any) -> None:
        """From our port, and from any where that is in use towards this place."""
        with contextlib.suppress(Exception):
            await self._guarded.swarm.dial_addr(place, peer, self._source(str(place)))
            return
        await self._guarded.swarm.dial_addr(place, peer)

    async def _dial_as_server(self, peer: Any, place: Any) -> None:
        """From our port; on the connection we are the one that was dialled."""
        swarm = self._guarded.swarm
        transport = swarm.transport_manager.transport_for_dialing(place)
        raw = await transport.dial_with_source(place, self._source(str(place)))
        swarm.manager.run_task(
            swarm.take, RawConnection(raw.stream, False), str(host_of(str(place)))
        )
        while all(is_relayed(each.muxed_conn) for each in swarm.get_connections(peer)):
            await trio.sleep(0.1)

    def _source(self, place: str) -> tuple[str, int]:
        """The host and port that we listen on, of the same kind. Raises NoHole where we don't."""
        named = host_of(place)
        for listener in self._guarded.swarm.listeners.values():
            for address in map(str, listener.get_addrs()):
                own, part = host_of(address), tcp_part(address)
                if part and own and named and own.version == named.version:
                    return part
        raise NoHole("we don't listen there")


def _fit(addresses: Sequence[str]) -> Sequence[Any]:
    """Host and port of those that are on the internet, each once."""
    fit = [each for each in addresses if is_public(each) and tcp_part(each)]
    return [Multiaddr(each) for each in dict.fromkeys("/".join(e.split("/")[:5]) for e in fit)]


def _places(named: Sequence[bytes]) -> Sequence[Any]:
    """Those of binary multiaddrs that a stranger may have us dial. Raises NoHole where none is."""
    found = []
    for each in named[:PLACES_READ]:
        with contextlib.suppress(Exception):  # its parser raises what it likes
            found.append(str(Multiaddr(each)))
    if not (places := _fit(found)):
        raise NoHole("it names no place on the internet")
    return places[:PLACES_MAX]


def _connect(places: Sequence[Any]) -> Any:
    return PunchMessage(type=PunchMessage.CONNECT, ObsAddrs=[each.to_bytes() for each in places])


async def _read(stream: Any, kind: Any) -> Any:
    message = await read_message(stream, PunchMessage)
    if message.type != kind:
        raise NoHole("another message than was due")
    return message
