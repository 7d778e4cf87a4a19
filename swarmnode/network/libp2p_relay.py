"""A relay on py-libp2p: libp2p's circuit relay v2, the service, for nodes that nobody can dial.

Carries bytes between two peers that are connected to us, reads none of them, and dials nobody.
Runs under trio. py-libp2p's own relay is not used: decision 0038 says why. Invariants: who may have
what is said by circuits.py alone; every circuit ends.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Final

from swarmnode.network import circuits
from swarmnode.network.circuits import Circuits
from swarmnode.network.doors import Doors
from swarmnode.network.libp2p_circuits import HOP_PROTOCOL, STOP_PROTOCOL
from swarmnode.network.libp2p_host import GuardedHost
from swarmnode.network.libp2p_streams import (
    Reader,
    give_up,
    is_relayed,
    read_message,
    write_message,
)
from swarmnode.network.light_libp2p import CircuitMessages, PeerID, trio

ASK_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 1.0
WAIT_SECONDS: Final = 0.1
"""Of bytes whose sender has used up its allowance."""

_HOP: Final = CircuitMessages.HopMessage


class Relay:
    """Of one host; `run` must be running."""

    def __init__(self, guarded: GuardedHost, doors: Doors) -> None:
        self._guarded = guarded
        self._doors = doors
        self._counts = doors.relayed
        self.circuits: Final = Circuits(doors.whereabouts.prefix_of)
        guarded.host.set_stream_handler(HOP_PROTOCOL, self._asked)

    async def run(self) -> None:
        """Give up places of those who have gone, until cancelled."""
        while True:
            await trio.sleep(LOOK_SECONDS)
            for peer_id in self.circuits.places():
                if not self._guarded.swarm.get_connections(PeerID.from_base58(peer_id)):
                    self.circuits.leave(peer_id)

    async def _asked(self, stream: Any) -> None:
        """One question; what goes wrong is the host's guard's to catch."""
        with trio.fail_after(ASK_SECONDS):
            message = await read_message(stream, _HOP)
        asker = str(stream.muxed_conn.peer_id)
        if is_relayed(stream.muxed_conn):
            await self._say(stream, CircuitMessages.PERMISSION_DENIED)
        elif message.type == _HOP.RESERVE:
            await self._reserve(stream, asker)
        elif message.type == _HOP.CONNECT:
            await self._connect(stream, asker, message.peer.id)
        else:
            await self._say(stream, CircuitMessages.UNEXPECTED_MESSAGE)

    async def _reserve(self, stream: Any, asker: str) -> None:
        """A place for the asker itself, whoever the message names."""
        if not self.circuits.reserve(asker, trio.current_time()):
            self._counts["places_refused"] += 1
            await self._say(stream, CircuitMessages.RESERVATION_REFUSED)
            return
        self._counts["places"] += 1
        reservation = CircuitMessages.Reservation(
            expire=int(time.time() + circuits.PLACE_SECONDS),
            addrs=[address.to_bytes() for address in self._guarded.host.get_addrs()],
        )
        await self._say(stream, CircuitMessages.OK, reservation)

    async def _connect(self, stream: Any, asker: str, target_bytes: bytes) -> None:
        target = PeerID(target_bytes)
        there = self._guarded.swarm.get_connections(target)
        if not self.circuits.has_place(str(target), trio.current_time()) or not there:
            self._counts["circuits_refused"] += 1
            await self._say(stream, CircuitMessages.NO_RESERVATION)
            return
        allowed = self._doors.circuits.spend(asker, 1.0)
        circuit = self.circuits.begin(asker, str(target)) if allowed else None
        if circuit is None:
            self._counts["circuits_refused"] += 1
            await self._say(stream, CircuitMessages.RESOURCE_LIMIT_EXCEEDED)
            return
        onward: Any = None
        try:
            with trio.move_on_after(ASK_SECONDS), contextlib.suppress(Exception):
                onward = await self._stopped(target, stream.muxed_conn.peer_id)
            if onward is None:
                self._counts["circuits_failed"] += 1
                await self._say(stream, CircuitMessages.CONNECTION_FAILED)
                return
            await write_message(stream, _answer(CircuitMessages.OK))
            self._counts["circuits"] += 1
            await self._carry(stream, onward)
        finally:
            self.circuits.end(circuit)
            for end in filter(None, (stream, onward)):
                await give_up(end)

    async def _stopped(self, target: Any, asker: Any) -> Any:
        """A stream to the target that it has taken, None where it would not.

        Raises what py-libp2p does."""
        stream = await self._guarded.host.new_stream(target, [STOP_PROTOCOL])
        message = CircuitMessages.StopMessage(
            type=CircuitMessages.StopMessage.CONNECT, limit=_limit()
        )
        message.peer.id = asker.to_bytes()
        taken = False
        try:
            await write_message(stream, message)
            answer = await read_message(stream, CircuitMessages.StopMessage)
            taken = answer.status == CircuitMessages.OK
        finally:
            if not taken:
                await give_up(stream)
        return stream if taken else None

    async def _carry(self, one: Any, other: Any) -> None:
        """Bytes both ways, until either has ended or has had its share."""
        with trio.move_on_after(circuits.CIRCUIT_SECONDS):
            async with trio.open_nursery() as nursery:
                for source, sink in ((one, other), (other, one)):
                    nursery.start_soon(self._pass_on, source, sink, nursery.cancel_scope)

    async def _pass_on(self, source: Any, sink: Any, scope: Any) -> None:
        """What an end sends; beyond its allowance it is read, and so may send, more slowly."""
        left, sender = circuits.CIRCUIT_BYTES_MAX, str(source.muxed_conn.peer_id)
        reader = Reader(source)
        with contextlib.suppress(Exception):  # an end of a stream is one of py-libp2p's errors
            while left > 0 and (data := (await reader.read())[:left]):
                left -= len(data)
                while not self._doors.carried.spend(sender, len(data)):
                    await trio.sleep(WAIT_SECONDS)
                self._counts["bytes"] += len(data)
                await sink.write(data)
        scope.cancel()

    async def _say(self, stream: Any, status: Any, reservation: Any = None) -> None:
        """The one answer, after which the asker hangs up."""
        answer = _answer(status)
        if reservation is not None:
            answer.reservation.CopyFrom(reservation)
        with trio.move_on_after(ASK_SECONDS):
            await write_message(stream, answer)
            await stream.close()


def _answer(status: Any) -> Any:
    limit = _limit() if status == CircuitMessages.OK else None
    return _HOP(type=_HOP.STATUS, status=status, limit=limit)


def _limit() -> Any:
    return CircuitMessages.Limit(
        duration=int(circuits.CIRCUIT_SECONDS), data=circuits.CIRCUIT_BYTES_MAX
    )
