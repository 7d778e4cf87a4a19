"""Attackers at a relay: strangers on py-libp2p that ask for places and circuits without end.

Run as `python -m tests.real.relay_flooding RELAY_ADDRESS TARGET_ID SECONDS PER_SECOND`. One pair
has a circuit of its own and sends through it as fast as it is taken; the others ask for places, for
circuits to the target, which they leave silent, and for circuits to nobody. Prints `ready`, and at
its end one line of JSON: what was asked, how often each answer came, and the bytes that came out.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import uvloop

from tests.unit.libp2p_support import Stranger, guest, stranger
from tests.unit.network_members import peer_id

# isort: split
from swarmnode.network.libp2p_circuits import HOP_PROTOCOL, STOP_PROTOCOL
from swarmnode.network.libp2p_streams import read_message, write_message
from swarmnode.network.light_libp2p import CircuitMessages, PeerID, trio
from swarmnode.network.peer import peer_id_in

ASKERS = 3
KEYS_FROM = 100
PIECE_BYTES = 64 * 1024
ANSWER_SECONDS = 5.0

HOP = CircuitMessages.HopMessage
STOP = CircuitMessages.StopMessage


def question(target: str | None) -> Any:
    """For a place, or for a circuit to a peer."""
    if target is None:
        return HOP(type=HOP.RESERVE)
    asked = HOP(type=HOP.CONNECT)
    asked.peer.id = PeerID.from_base58(target).to_bytes()
    return asked


class Attack:
    """On one relay, and through it on one peer."""

    def __init__(self, address: str, target: str) -> None:
        self._address = address
        self._relay = PeerID.from_base58(peer_id_in(address))
        self._targets = (None, target, peer_id(9))
        self.counts: Counter[str] = Counter()
        self._answers: Counter[str] = Counter()

    async def ask(self, mallory: Stranger, seconds: float, per_second: float) -> None:
        """Under trio: ask, connecting anew where it is hung up on."""
        begun, sent = trio.current_time(), 0
        async with trio.open_nursery() as nursery:
            while (now := trio.current_time() - begun) < seconds:
                for _ in range(int(now * per_second) - sent):
                    nursery.start_soon(self._ask, mallory, self._targets[sent % 3])
                    sent += 1
                if not mallory.swarm.get_connections(self._relay):
                    self.counts["connected_again"] += 1
                    with trio.move_on_after(ANSWER_SECONDS), contextlib.suppress(Exception):
                        await mallory.dial(self._address)
                await trio.sleep(0.02)
            nursery.cancel_scope.cancel()
        self.counts["asked"] += sent

    async def _ask(self, mallory: Stranger, target: str | None) -> None:
        with trio.move_on_after(ANSWER_SECONDS), contextlib.suppress(Exception):
            stream = await mallory.host.new_stream(self._relay, [HOP_PROTOCOL])
            await write_message(stream, question(target))
            answer = await read_message(stream, HOP)
            self._answers[CircuitMessages.Status.Name(answer.status)] += 1
            if target is None:
                await stream.reset()

    async def push(self, taker: Stranger, pusher: Stranger, seconds: float) -> None:
        """Under trio: bytes through the relay from one of us to another, as fast as they go."""
        taker.host.set_stream_handler(STOP_PROTOCOL, self._swallow)
        with trio.move_on_after(seconds):
            placed = await taker.host.new_stream(self._relay, [HOP_PROTOCOL])
            await write_message(placed, question(None))
            await read_message(placed, HOP)
            stream = await pusher.host.new_stream(self._relay, [HOP_PROTOCOL])
            await write_message(stream, question(taker.peer_id))
            assert (await read_message(stream, HOP)).status == CircuitMessages.OK
            while True:
                await stream.write(bytes(PIECE_BYTES))

    async def _swallow(self, stream: Any) -> None:
        await read_message(stream, STOP)
        await write_message(stream, STOP(type=STOP.STATUS, status=CircuitMessages.OK))
        while data := await stream.read(PIECE_BYTES):
            self.counts["bytes"] += len(data)

    def told(self) -> str:
        """The line."""
        return json.dumps({**self.counts, "answers": self._answers})


async def attack(address: str, target: str, seconds: float, per_second: float) -> None:
    """All of them at once."""
    made = Attack(address, target)
    async with guest() as on, AsyncExitStack() as stack:
        strangers = [
            await stack.enter_async_context(stranger(on, KEYS_FROM + number))
            for number in range(ASKERS + 2)
        ]
        for each in strangers:
            await each.connect(address)
        taker, pusher, *askers = strangers
        print("ready", flush=True)
        await asyncio.gather(
            on.call(made.push, taker, pusher, seconds),
            *(on.call(made.ask, each, seconds, per_second / ASKERS) for each in askers),
        )
        print(made.told(), flush=True)


def main(arguments: list[str]) -> None:
    """Attack."""
    os.nice(19)
    address, target, seconds, per_second = arguments
    uvloop.run(attack(address, target, float(seconds), float(per_second)))


if __name__ == "__main__":
    main(sys.argv[1:])
