"""From a circuit through a relay to a direct connection, on py-libp2p; who is dialled for it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from swarmnode.network import libp2p_punching
from swarmnode.network.addresses import tcp_part
from swarmnode.network.libp2p_streams import read_message, write_message
from swarmnode.network.light_libp2p import Multiaddr, PunchMessage
from tests.unit.libp2p_support import ECHO, Libp2pPeer, behind, echo, run, stranger, until


async def ways(peer: Libp2pPeer, other: Libp2pPeer) -> list[bool]:
    """Of each connection to the other, whether it is relayed."""
    return [
        "p2p-circuit" in where for found, where in await peer.connected() if found == other.peer_id
    ]


def everything_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback stands for the internet."""
    monkeypatch.setattr(libp2p_punching, "is_public", lambda address: "/ip4/" in address)


def test_two_whom_a_relay_has_connected_go_on_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything_is_public(monkeypatch)
    monkeypatch.setattr(libp2p_punching, "GRACE_SECONDS", 0.5)

    async def scenario() -> None:
        async with behind(tmp_path) as here:
            one, two = here.one, here.two
            for each in (one, two):
                [seen] = [at for who, at in await here.relay.connected() if who == each.peer_id]
                assert tcp_part(seen) == tcp_part(each.addresses[0]), "from the port it listens on"
            one.serve(ECHO, echo, 100)
            assert await two.connect(here.circuit)

            async def direct(peer: Libp2pPeer, other: Libp2pPeer) -> bool:
                return await ways(peer, other) == [False]

            await until(lambda: direct(two, one))
            await until(lambda: direct(one, two))
            assert await two.call(one.peer_id, ECHO, b"still", 10, 10) == b"still"

    run(scenario)


def test_where_no_place_is_on_the_internet_the_relay_stays(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with behind(tmp_path) as here:
            assert await here.two.connect(here.circuit)
            await asyncio.sleep(3 * libp2p_punching.LOOK_SECONDS)
            assert await ways(here.two, here.one) == [True]

    run(scenario)


def test_who_comes_without_a_relay_has_nobody_dialled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything_is_public(monkeypatch)
    dialled: list[Any] = []

    async def dial(_punching: Any, _peer: Any, place: Any) -> None:
        dialled.append(place)

    async def scenario() -> None:
        async with behind(tmp_path) as here, stranger(here.on, 7) as mallory:
            for way in ("_dial", "_dial_as_server"):
                monkeypatch.setattr(libp2p_punching.Punching, way, dial)
            await mallory.connect(here.one.addresses[0])

            async def talk(stream: Any) -> Any:
                place = Multiaddr("/ip4/127.0.0.1/tcp/9").to_bytes()
                asked = PunchMessage(type=PunchMessage.CONNECT, ObsAddrs=[place])
                await write_message(stream, asked)
                return await read_message(stream, PunchMessage)

            said = mallory.on_stream(here.one.peer_id, libp2p_punching.PUNCH_PROTOCOL, talk)
            outcomes: list[object] = await asyncio.gather(said, return_exceptions=True)
            assert isinstance(outcomes[0], Exception)
            assert not dialled

    run(scenario)


@pytest.mark.parametrize(
    ("named", "left"),
    [
        (["/ip4/9.9.9.9/tcp/1", "/ip4/9.9.9.9/tcp/1/p2p-circuit"], ["/ip4/9.9.9.9/tcp/1"]),
        (["/ip4/192.168.0.1/tcp/80", "/ip4/9.9.9.9/tcp/1"], ["/ip4/9.9.9.9/tcp/1"]),
        (["/ip4/9.9.9.9/udp/1/quic-v1", "/dns4/a.example/tcp/1"], []),
        ([f"/ip4/9.9.9.{last}/tcp/1" for last in range(9)],
         ["/ip4/9.9.9.0/tcp/1", "/ip4/9.9.9.1/tcp/1"]),
        ([f"/ip4/10.0.0.1/tcp/{port}" for port in range(1, 40)] + ["/ip4/9.9.9.9/tcp/1"], []),
    ],
)  # fmt: skip
def test_of_what_a_peer_names_two_places_on_the_internet_are_dialled(
    named: list[str], left: list[str]
) -> None:
    binary = [b"none", *(Multiaddr(each).to_bytes() for each in named)]
    if left:
        assert [str(each) for each in libp2p_punching._places(binary)] == left
    else:
        with pytest.raises(libp2p_punching.NoHole):
            libp2p_punching._places(binary)
