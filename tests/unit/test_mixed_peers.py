"""A peer on hivemind's p2pd and one on py-libp2p: each dials, asks, pings and hears the other."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tests.unit.libp2p_support import Libp2pPeer, guest, peers, until
from tests.unit.libp2p_support import order as libp2p_order

# isort: split
from swarmnode.network.hivemind_dht import HivemindPeer
from swarmnode.network.peer import Peer
from tests.unit import dht_support

ECHO = "/swarmnode/echo/1"
TOPIC = "a topic"


async def echo(peer_id: str, request: bytes) -> bytes:
    return peer_id.encode() + request


async def _asks(one: Peer, other: Peer) -> None:
    for size in (0, 1, 300_000):
        said = os.urandom(size)
        answer = await one.call(other.peer_id, ECHO, said, size + 100, 60)
        assert answer == one.peer_id.encode() + said, "authenticated, whole"
    assert await one.ping(other.peer_id)
    assert other.peer_id in {peer for peer, _ in await one.connected()}


def test_both_kinds_of_peer_are_one_swarm(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            guest() as on,
            dht_support.peers(dht_support.order(1, tmp_path)) as [native],
            peers(on, libp2p_order(2, tmp_path, bootstrap=tuple(native.addresses))) as [light],
        ):
            assert (native.has_dht, light.has_dht) == (True, False)
            for each in (native, light):
                each.serve(ECHO, echo, 1_000_000)
            await until(lambda: _reached(native, light))
            await _asks(light, native)
            await _asks(native, light)
            heard: list[tuple[str, str, bytes]] = []
            for each in (native, light):
                _listen(each, heard)
            await until(lambda: native.publish(TOPIC, b"of p2pd"))
            await until(lambda: (light.peer_id, native.peer_id, b"of p2pd") in heard)
            await until(lambda: light.publish(TOPIC, b"of py-libp2p"))
            await until(lambda: (native.peer_id, light.peer_id, b"of py-libp2p") in heard)
            assert all(hearer != publisher for hearer, publisher, _ in heard)
            # The other way round: the one that was dialled dials.
            await light.disconnect(native.peer_id)
            await until(lambda: _alone(native))
            await asyncio.sleep(6)  # p2pd's own pause after a connection was lost
            await until(lambda: native.connect(light.addresses[0]), 60)
            await _asks(native, light)
            await _asks(light, native)

    dht_support.run(scenario, 300.0)


def _listen(peer: Peer, heard: list[tuple[str, str, bytes]]) -> None:
    def take(origin: str, data: bytes) -> bool:
        heard.append((peer.peer_id, origin, data))
        return True

    peer.listen(TOPIC, take)


async def _reached(native: HivemindPeer, light: Libp2pPeer) -> bool:
    return bool(await native.connected()) and bool(await light.connected())


async def _alone(peer: Peer) -> bool:
    return not await peer.connected()
