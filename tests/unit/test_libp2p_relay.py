"""Circuits through a relay on py-libp2p: who gets a place, who is carried, and for how long."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from swarmnode.network import circuits
from swarmnode.network.circuits import Circuits
from swarmnode.network.libp2p_autonat import AUTONAT_PROTOCOL
from swarmnode.network.libp2p_circuits import HOP_PROTOCOL, LOOK_SECONDS, STOP_PROTOCOL
from swarmnode.network.libp2p_streams import read_message, write_message
from swarmnode.network.light_libp2p import (
    AutoNatMessages,
    CircuitMessages,
    Multiaddr,
    PeerID,
)
from swarmnode.network.peer import PeerUnreachable
from tests.unit.libp2p_support import (
    ECHO,
    Libp2pPeer,
    behind,
    echo,
    guest,
    order,
    peers,
    run,
    stranger,
    until,
)
from tests.unit.network_members import peer_id

HOP = CircuitMessages.HopMessage


async def addresses_at(peer: Libp2pPeer, other: Libp2pPeer) -> list[str]:
    return [where for found, where in await peer.connected() if found == other.peer_id]


def test_two_that_nobody_can_dial_talk_through_a_relay_that_is_none_of_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with behind(tmp_path) as here:
            one, two = here.one, here.two
            relay_address = here.relay.addresses[0]
            assert here.circuit == f"{relay_address}/p2p-circuit/p2p/{one.peer_id}"
            one.serve(ECHO, echo, 3_000_000)
            two.serve(ECHO, echo, 100)
            with pytest.raises(PeerUnreachable):
                await two.call(one.peer_id, ECHO, b"x", 10, 10)
            assert await two.connect(here.circuit)
            assert await two.connect(here.circuit), "as it is"
            message = os.urandom(2_000_000)
            assert await two.call(one.peer_id, ECHO, message, len(message), 60) == message
            assert await one.call(two.peer_id, ECHO, b"back", 10, 30) == b"back"
            assert await addresses_at(two, one) == [here.circuit]
            [seen] = await addresses_at(one, two)
            assert seen.endswith(f"/p2p/{here.relay.peer_id}/p2p-circuit/p2p/{two.peer_id}")
            assert await addresses_at(here.relay, one) != [here.circuit]
            await two.disconnect(one.peer_id)
            await until(lambda: _gone(one, two))
            assert await two.connect(here.circuit)

    run(scenario)


async def _gone(peer: Libp2pPeer, other: Libp2pPeer) -> bool:
    return not await addresses_at(peer, other)


def test_an_address_through_a_relay_needs_a_place_and_the_peer_that_it_names(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with behind(tmp_path) as here:
            nobody = here.circuit.replace(here.one.peer_id, peer_id(9))
            assert not await here.two.connect(nobody)
            before = here.relay.addresses[0].partition("/p2p/")[0]
            assert not await here.two.connect(here.circuit.replace(before, f"{before}/nonsense"))
            assert not await here.two.connect("nonsense")
            private = order(4, tmp_path, bootstrap=tuple(here.relay.addresses))
            [plain] = [await Libp2pPeer.start_on(here.on, private)]
            assert not await plain.connect(here.circuit), "who did not ask for it uses no relay"
            assert len(plain.addresses) == 1
            unplaced = f"{here.relay.addresses[0]}/p2p-circuit/p2p/{plain.peer_id}"
            assert not await here.two.connect(unplaced)
            await plain.close()

    run(scenario)


def test_a_place_ends_with_the_connection_and_is_taken_anew(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with behind(tmp_path) as here:
            await here.relay.disconnect(here.one.peer_id)
            await until(lambda: len(here.one.addresses) == 1)
            assert await here.one.connect(here.relay.addresses[0])
            await until(lambda: len(here.one.addresses) == 2)
            assert await here.two.connect(here.circuit)

    run(scenario)


def test_a_place_is_asked_for_while_others_cannot_dial_us_and_no_longer(tmp_path: Path) -> None:
    async def scenario() -> None:
        found: list[bool] = []
        ordered = order(2, tmp_path, public=True, unreached=lambda: bool(found))
        async with guest() as on, peers(on, order(1, tmp_path, relay=True), ordered) as (_, one):
            await asyncio.sleep(3 * LOOK_SECONDS)
            assert len(one.addresses) == 1
            found.append(True)
            await until(lambda: len(one.addresses) == 2)
            found.clear()
            await until(lambda: len(one.addresses) == 1)

    run(scenario)


def test_strangers_get_places_for_themselves_alone_and_nobody_is_dialled_for_them(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with behind(tmp_path) as here, stranger(here.on, 7) as mallory:
            ordered = order(8, tmp_path, bootstrap=tuple(here.relay.addresses))
            victim = await Libp2pPeer.start_on(here.on, ordered)
            await mallory.connect(here.relay.addresses[0])

            async def say(message: Any) -> Any:
                async def talk(stream: Any) -> Any:
                    await write_message(stream, message)
                    return await read_message(stream, HOP)

                return await mallory.on_stream(here.relay.peer_id, HOP_PROTOCOL, talk)

            in_anothers_name = HOP(type=HOP.RESERVE)
            in_anothers_name.peer.id = PeerID.from_base58(victim.peer_id).to_bytes()
            assert (await say(in_anothers_name)).status == CircuitMessages.OK
            for whom in (victim.peer_id, peer_id(9)):
                to_them = HOP(type=HOP.CONNECT)
                to_them.peer.id = PeerID.from_base58(whom).to_bytes()
                assert (await say(to_them)).status == CircuitMessages.NO_RESERVATION
            assert (await say(HOP(type=HOP.STATUS))).status == CircuitMessages.UNEXPECTED_MESSAGE
            to_one = HOP(type=HOP.CONNECT)
            to_one.peer.id = PeerID.from_base58(here.one.peer_id).to_bytes()
            answer = await say(to_one)
            assert answer.status == CircuitMessages.OK
            assert answer.limit.data == circuits.CIRCUIT_BYTES_MAX
            assert answer.limit.duration == circuits.CIRCUIT_SECONDS
            statuses = [(await say(to_one)).status for _ in range(10)]
            assert CircuitMessages.RESOURCE_LIMIT_EXCEEDED in statuses, "as often as it may"
            assert statuses.count(CircuitMessages.OK) <= 9
            await victim.close()

    run(scenario)


def test_circuits_come_from_relays_that_have_a_place_for_us_and_from_nobody_else(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with behind(tmp_path) as here, stranger(here.on, 7) as mallory:
            await mallory.connect(here.one.addresses[0])
            message = CircuitMessages.StopMessage(type=CircuitMessages.StopMessage.CONNECT)
            message.peer.id = PeerID.from_base58(peer_id(8)).to_bytes()

            async def talk(stream: Any) -> Any:
                await write_message(stream, message)
                return await read_message(stream, CircuitMessages.StopMessage)

            taken = mallory.on_stream(here.one.peer_id, STOP_PROTOCOL, talk)
            outcomes: list[object] = await asyncio.gather(taken, return_exceptions=True)
            assert isinstance(outcomes[0], Exception), "the stream is reset, sooner or later"

    run(scenario)


@pytest.mark.parametrize(
    ("name", "limit"), [("CIRCUIT_BYTES_MAX", 200_000), ("CIRCUIT_SECONDS", 2.0)]
)
def test_a_circuit_ends_when_it_has_had_its_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, limit: float
) -> None:
    monkeypatch.setattr(circuits, name, limit)

    async def scenario() -> None:
        async with behind(tmp_path) as here:
            here.one.serve(ECHO, echo, 3_000_000)
            assert await here.two.connect(here.circuit)
            if name == "CIRCUIT_BYTES_MAX":
                with pytest.raises(PeerUnreachable):
                    await here.two.call(here.one.peer_id, ECHO, bytes(300_000), 300_000, 30)
            await until(lambda: _gone(here.one, here.two))
            await until(lambda: _gone(here.two, here.one))
            assert await here.two.connect(here.circuit), "it may be opened anew"

    run(scenario)


def test_autonat_tries_whoever_asks_where_it_is_connected_from_and_nowhere_else(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with behind(tmp_path) as here, stranger(here.on, 7) as mallory:
            await mallory.connect(here.relay.addresses[0])
            port = here.one.addresses[0].split("/")[4]

            async def asked(*addresses: str) -> Any:
                message = AutoNatMessages.Message(type=AutoNatMessages.Message.DIAL)
                message.dial.peer.addrs.extend(Multiaddr(each).to_bytes() for each in addresses)
                message.dial.peer.addrs.append(b"no address")

                async def talk(stream: Any) -> Any:
                    await write_message(stream, message)
                    return await read_message(stream, AutoNatMessages.Message)

                answer = await mallory.on_stream(here.relay.peer_id, AUTONAT_PROTOCOL, talk)
                return answer.dialResponse

            with socket.create_server(("127.0.0.2", 0)) as third_party:
                elsewhere = third_party.getsockname()[1]
                closed = await asked(f"/ip4/127.0.0.2/tcp/{elsewhere}")
                assert closed.status == AutoNatMessages.Message.E_DIAL_ERROR
                third_party.settimeout(0.0)
                with pytest.raises(BlockingIOError):
                    third_party.accept()
            reached = await asked(f"/ip4/192.0.2.1/tcp/{port}")
            assert reached.status == AutoNatMessages.Message.OK
            assert str(Multiaddr(reached.addr)) == f"/ip4/127.0.0.1/tcp/{port}"
            assert (
                await asked("/ip4/127.0.0.1/udp/1")
            ).status == AutoNatMessages.Message.E_DIAL_REFUSED
            for _ in range(4):
                last = await asked("/ip4/127.0.0.1/tcp/1")
            assert last.status == AutoNatMessages.Message.E_DIAL_REFUSED, "too often"

    run(scenario)


def test_what_nobody_asked_for_is_not_served(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            guest() as on,
            peers(on, order(1, tmp_path)) as (plain,),
            stranger(on, 7) as mallory,
        ):
            await mallory.connect(plain.addresses[0])
            for protocol in (HOP_PROTOCOL, STOP_PROTOCOL, AUTONAT_PROTOCOL):
                with pytest.raises(Exception, match="failed to open a stream"):
                    await mallory.on_stream(plain.peer_id, protocol, lambda stream: stream)

    run(scenario)


def test_places_are_few_and_a_prefix_has_a_share_of_them() -> None:
    kept = Circuits(lambda peer: "crowd" if peer.startswith("c") else peer)
    crowd = [kept.reserve(f"c{number}", 0.0) for number in range(20)]
    assert crowd == [True] * circuits.PLACES_OF_PREFIX_MAX + [False] * 12
    assert kept.reserve("c0", 1.0), "its own, anew"
    others = [kept.reserve(f"x{number}", 0.0) for number in range(200)]
    assert sum(others) == circuits.PLACES_MAX - circuits.PLACES_OF_PREFIX_MAX
    kept.leave("x0")
    assert kept.reserve("late", 1.0)
    assert not kept.reserve("later", 1.0)
    assert kept.has_place("c1", circuits.PLACE_SECONDS - 1)
    assert not kept.has_place("c1", circuits.PLACE_SECONDS)
    assert not kept.has_place("nobody", 0.0)
    assert kept.reserve("later", circuits.PLACE_SECONDS)
    assert set(kept.places()) == {"c0", "late", "later"}, "the others have lapsed"


def test_circuits_are_few_for_a_peer_a_prefix_and_in_all() -> None:
    def prefix(peer: str) -> str:
        return "crowd" if peer.startswith("c") else peer

    def opened(kept: Circuits, pairs: list[tuple[str, str]]) -> list[circuits.Circuit]:
        return [made for source, target in pairs if (made := kept.begin(source, target))]

    numbers = range(200)
    for pairs, most in (
        ([("a", f"t{number}") for number in numbers], circuits.CIRCUITS_OF_PEER_MAX),
        ([(f"s{number}", "t") for number in numbers], circuits.CIRCUITS_OF_PEER_MAX),
        ([(f"c{n}", f"t{n}") for n in numbers], circuits.CIRCUITS_OF_PREFIX_MAX),
        ([(f"c{n}", "t") for n in numbers], circuits.CIRCUITS_OF_PREFIX_TO_PEER_MAX),
        ([(f"s{number}", f"t{number}") for number in numbers], circuits.CIRCUITS_MAX),
    ):
        kept = Circuits(prefix)
        made = opened(kept, pairs)
        assert len(made) == kept.carried == most
        kept.end(made[0])
        assert len(opened(kept, pairs[-1:])) == 1


def test_a_message_about_circuits_is_read_up_to_its_limit() -> None:
    class Said:
        def __init__(self, data: bytes) -> None:
            self.data = data

        async def read(self, count: int) -> bytes:
            read, self.data = self.data[:count], self.data[count:]
            return read

    async def reading(data: bytes) -> Any:
        return await read_message(Said(data), HOP)

    assert asyncio.run(reading(b"\x02\x08\x01")).type == HOP.CONNECT
    assert asyncio.run(reading(b"\x00")).type == HOP.RESERVE
    for bad in (b"", b"\x81", b"\xff\xff\xff\xff\xff\x01", b"\x81\x20" + bytes(5000), b"\x02\x08"):
        with pytest.raises((ValueError, EOFError)):
            asyncio.run(reading(bad))
