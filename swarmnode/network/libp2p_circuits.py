"""Circuits to and from us through relays, on py-libp2p: libp2p's circuit relay v2, the client.

While others can't dial us a place is kept at each of the relays that our owner named, and our
address by way of it is for others. A circuit is a stream of the connection to the relay, on which
the two ends speak noise and yamux as on any other, so that the relay reads nothing and can't stand
in for either. Runs under trio. py-libp2p's own client is not used: decision 0038 says why.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from swarmnode.network.addresses import RELAYED
from swarmnode.network.libp2p_host import GuardedHost
from swarmnode.network.libp2p_streams import address_of, give_up, read_message, write_message
from swarmnode.network.light_libp2p import (
    READ_AHEAD_BYTES,
    RELAYED_CONNECTION,
    CircuitMessages,
    Multiaddr,
    PeerID,
    RawConnection,
    trio,
)
from swarmnode.network.peer import peer_id_in

HOP_PROTOCOL: Final = "/libp2p/circuit/relay/0.2.0/hop"
STOP_PROTOCOL: Final = "/libp2p/circuit/relay/0.2.0/stop"
LOOK_SECONDS: Final = 1.0
ASK_SECONDS: Final = 10.0
AGAIN_SECONDS: Final = 30.0
"""After a relay has refused us a place, or did not answer."""
PLACE_SECONDS: Final = (60.0, 3600.0)
"""The shortest and the longest life that is believed of a place, whatever a relay says."""


class NoCircuit(ConnectionError):
    """The relay, or the peer behind it, would not."""


@dataclass(frozen=True, slots=True)
class Place:
    """At a relay: on which connection, and when to ask for it anew."""

    connection: Any
    renew_at: float


class CircuitStream:
    """A stream as if it were a socket; the peer at its other end has no address.

    Read ahead, since noise asks for each length, and yamux grants the relay more at every read.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._held = memoryview(b"")

    async def read(self, n: int | None = None) -> bytes:
        """At most so many bytes. Raises whatever py-libp2p does, at the end as well."""
        if n == 0:
            return b""
        if not self._held:
            self._held = memoryview(await self._stream.read(READ_AHEAD_BYTES))
        read, self._held = self._held[:n], self._held[n:] if n else memoryview(b"")
        return bytes(read)

    async def write(self, data: bytes) -> None:
        """All of them."""
        await self._stream.write(data)

    async def close(self) -> None:
        """Both directions."""
        await self._stream.reset()

    def get_remote_address(self) -> None:
        """None: that of the stream is the relay's."""


class CircuitsOfOurs:
    """Of one host; `run` must be running for others to reach us. `dial` connects to an address."""

    def __init__(
        self,
        guarded: GuardedHost,
        relays: Sequence[str],
        unreached: Callable[[], bool],
        dial: Callable[[str], Awaitable[object]],
    ) -> None:
        self._guarded = guarded
        self._relays = {peer_id_in(address): address for address in relays}
        self._unreached = unreached
        self._dial = dial
        self._places: dict[str, Place] = {}
        self._again_at: dict[str, float] = {}
        guarded.host.set_stream_handler(STOP_PROTOCOL, self._arrives)

    @property
    def addresses(self) -> Sequence[str]:
        """Ours, by way of the relays that have a place for us."""
        own = self._guarded.host.get_id()
        return [f"{self._relays[relay]}{RELAYED}/p2p/{own}" for relay in self._places]

    async def run(self) -> None:
        """Keep places, until cancelled."""
        while True:
            for relay in self._relays:
                await self._keep(relay, trio.current_time())
            await trio.sleep(LOOK_SECONDS)

    async def connect(self, address: str) -> None:
        """Have a circuit to a peer by its relayed address. Raises whatever goes wrong."""
        before, _, target_id = address.partition(f"{RELAYED}/p2p/")
        target, relay = PeerID.from_base58(target_id), PeerID.from_base58(peer_id_in(before))
        through = _through(before)
        if self._guarded.swarm.get_connections(target):
            return
        if not self._guarded.swarm.get_connections(relay):
            await self._dial(before)
        message = CircuitMessages.HopMessage(type=CircuitMessages.HopMessage.CONNECT)
        message.peer.id = target.to_bytes()
        stream, _ = await self._ask(relay, message)
        await self._guarded.swarm.upgrade_outbound_raw_conn(_raw(stream, through, True), target)

    async def _keep(self, relay_id: str, now: float) -> None:
        """Ask for a place, where it is wanted and due; forget one that is lost."""
        relay = PeerID.from_base58(relay_id)
        connections = self._guarded.swarm.get_connections(relay)
        place = self._places.get(relay_id)
        if not self._unreached() or (place and place.connection not in connections):
            self._places.pop(relay_id, None)
            place = None
        due = place.renew_at if place else self._again_at.get(relay_id, now)
        if not self._unreached() or not connections or now < due:
            return
        try:
            seconds = await self._reserved(relay)
        except Exception:  # py-libp2p raises what it likes
            self._places.pop(relay_id, None)
            self._again_at[relay_id] = trio.current_time() + AGAIN_SECONDS
        else:
            self._places[relay_id] = Place(connections[0], trio.current_time() + seconds / 2)

    async def _reserved(self, relay: Any) -> float:
        """For how many seconds a relay has a place for us."""
        asked = CircuitMessages.HopMessage(type=CircuitMessages.HopMessage.RESERVE)
        stream, answer = await self._ask(relay, asked)
        await stream.close()
        shortest, longest = PLACE_SECONDS
        return float(min(max(answer.reservation.expire - time.time(), shortest), longest))

    async def _ask(self, relay: Any, message: Any) -> tuple[Any, Any]:
        """The stream and what the relay said on it. Raises NoCircuit and what py-libp2p does."""
        with trio.fail_after(ASK_SECONDS):
            stream = await self._guarded.host.new_stream(relay, [HOP_PROTOCOL])
            try:
                await write_message(stream, message)
                answer = await read_message(stream, CircuitMessages.HopMessage)
                if answer.status != CircuitMessages.OK:
                    raise NoCircuit(CircuitMessages.Status.Name(answer.status))
            except BaseException:
                await give_up(stream)
                raise
        return stream, answer

    async def _arrives(self, stream: Any) -> None:
        """Somebody comes through a relay; what goes wrong is the host's guard's to catch."""
        relay_id = str(stream.muxed_conn.peer_id)
        place = self._places.get(relay_id)
        if place is None:
            raise NoCircuit("not from a relay that has a place for us")
        with trio.fail_after(ASK_SECONDS):
            message = await read_message(stream, CircuitMessages.StopMessage)
            if message.type != CircuitMessages.StopMessage.CONNECT:
                raise NoCircuit("no circuit")
            answer = CircuitMessages.StopMessage(
                type=CircuitMessages.StopMessage.STATUS, status=CircuitMessages.OK
            )
            await write_message(stream, answer)
        raw = _raw(stream, _through(address_of(place.connection, relay_id)), False)
        await self._guarded.swarm.take(raw, relay_id)


def _through(relay: str) -> Any:
    """By way of the relay at an address. Raises whatever py-libp2p does where it is none."""
    return Multiaddr(f"{relay}{RELAYED}")


def _raw(stream: Any, through: Any, initiator: bool) -> Any:
    """What py-libp2p makes a connection of."""
    return RawConnection(CircuitStream(stream), initiator, RELAYED_CONNECTION, [through])
