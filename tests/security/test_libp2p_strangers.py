"""What a stranger can do to a node on py-libp2p, below our protocols: none of it ends the host."""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from swarmnode.doctor import exposure_of
from swarmnode.network.incoming import REQUEST_SECONDS
from tests.unit.libp2p_support import (
    ECHO,
    Libp2pPeer,
    Stranger,
    echo,
    guest,
    order,
    peers,
    run,
    stranger,
    until,
)

# isort: split
from swarmnode.network import libp2p_host, libp2p_requests
from swarmnode.network.libp2p_gossip import RPC_BYTES_MAX, SUBSCRIPTIONS_MAX
from swarmnode.network.light_libp2p import GossipMessages, PeerID, length_prefixed, trio

MESH = "/meshsub/1.1.0"
TOPIC = "a topic"
MULTISTREAM = b"\x13/multistream/1.0.0\n"


async def still_answers(victim: Libp2pPeer, honest: Libp2pPeer) -> bool:
    return await honest.call(victim.peer_id, ECHO, b"alive", 10, 30) == b"alive"


@pytest.mark.parametrize("protocol", ["/plaintext/2.0.0", "/secio/1.0.0", "/tls/1.0.0"])
def test_no_connection_is_taken_but_by_noise(protocol: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guest() as on, peers(on, order(1, tmp_path)) as (victim,):
            port = int(victim.addresses[0].split("/")[4])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            wanted = f"{protocol}\n".encode()
            writer.write(MULTISTREAM + bytes([len(wanted)]) + wanted)
            assert await reader.readexactly(len(MULTISTREAM)) == MULTISTREAM
            assert await reader.readexactly(4) == b"\x03na\n"
            writer.close()

    run(scenario)


def rpc(**fields: Any) -> bytes:
    return bytes(length_prefixed(GossipMessages.RPC(**fields).SerializeToString()))


def message(publisher: bytes, data: bytes = b"x", **fields: Any) -> Any:
    return GossipMessages.Message(
        from_id=publisher, data=data, seqno=bytes(8), topicIDs=[TOPIC], **fields
    )


OWN = bytes.fromhex("002408011220") + bytes(32)
SAID = {
    "no protobuf": length_prefixed(b"\xff" * 40),
    "a length that is none": b"\xff" * 40,
    "a message beyond its limit": length_prefixed(bytes(RPC_BYTES_MAX + 1))[:100],
    "a publisher that is none": rpc(publish=[message(b"junk", signature=b"s", key=b"k")]),
    "a key that is none": rpc(publish=[message(b"\x12\x20" + bytes(36), signature=b"s", key=b"k")]),
    "a forged signature": rpc(publish=[message(OWN, signature=bytes(64))]),
    "no signature": rpc(publish=[message(OWN)]),
    "ids of any length": rpc(
        control=GossipMessages.ControlMessage(
            iwant=[GossipMessages.ControlIWant(messageIDs=[b"\xff" * 50_000])],
            ihave=[GossipMessages.ControlIHave(topicID=TOPIC, messageIDs=[b"zz"])],
        )
    ),
    "a prune with peers to dial": rpc(
        control=GossipMessages.ControlMessage(
            prune=[
                GossipMessages.ControlPrune(
                    topicID=TOPIC, peers=[GossipMessages.PeerInfo(peerID=b"\x00")]
                )
            ]
        )
    ),
    "a sender's record that is none": rpc(senderRecord=b"junk", subscriptions=[]),
    "topics without end": rpc(
        subscriptions=[
            GossipMessages.RPC.SubOpts(subscribe=True, topicid=str(number)) for number in range(900)
        ]
    ),
}


def test_nothing_that_is_said_as_gossip_ends_the_host(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guest() as on, peers(on, order(1, tmp_path), order(2, tmp_path)) as both:
            victim, honest = both
            victim.serve(ECHO, echo, 100)
            heard: list[bytes] = []

            def take(_origin: str, data: bytes) -> bool:
                heard.append(data)
                return True

            for each in both:
                each.listen(TOPIC, take)
            for number, (what, said) in enumerate(SAID.items()):
                async with stranger(on, 100 + number) as one:
                    await one.connect(victim.addresses[0])

                    async def say(stream: Any, said: bytes = said) -> None:
                        await stream.write(said)
                        # Until it is reset, or for as long as it takes to be taken in.
                        with trio.move_on_after(0.5), contextlib.suppress(Exception):
                            await stream.read(1)

                    await one.on_stream(victim.peer_id, MESH, say)
                    assert not victim.died.is_set(), what
                    assert await still_answers(victim, honest), what
            assert not heard
            neighbours = victim._gossiping._neighbours.values()
            assert all(len(each.topics) <= SUBSCRIPTIONS_MAX for each in neighbours)
            dialled = await victim.connected()
            assert {peer for peer, _ in dialled} <= {honest.peer_id} | {
                str(peer) for peer in victim._guarded.swarm.connections
            }
            await until(lambda: honest.publish(TOPIC, b"hello"))
            await until(lambda: b"hello" in heard)

    run(scenario)


def test_nothing_that_is_said_for_a_stream_ends_the_host(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guest() as on, peers(on, order(1, tmp_path), order(2, tmp_path)) as both:
            victim, honest = both
            victim.serve(ECHO, echo, 100)
            async with stranger(on, 100) as one:
                await one.connect(victim.addresses[0])
                for said in (b"", b"\xff" * 20, b"\x03ab\n", bytes(2000), MULTISTREAM + bytes(9)):
                    await one.guest.call(_raw_stream, one, victim.peer_id, said)
                assert await still_answers(victim, honest)

    run(scenario)


async def _raw_stream(one: Stranger, peer_id: str, said: bytes) -> None:
    """A stream on which no protocol is agreed upon."""
    stream = await one.swarm.new_stream(PeerID.from_base58(peer_id))
    if said:
        await stream.write(said)
    with trio.move_on_after(0.3):
        try:
            await stream.read(100)
        except Exception:  # the victim may reset it
            return
    await stream.reset()


def test_connections_that_ended_leave_their_places_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libp2p_host, "CONNECTIONS_LOW", 3)
    monkeypatch.setattr(libp2p_host, "CONNECTIONS_HIGH", 4)
    monkeypatch.setattr(libp2p_host, "CONNECTIONS_MAX", 4)

    async def scenario() -> None:
        async with guest() as on, peers(on, order(1, tmp_path)) as (victim,):
            victim.serve(ECHO, echo, 100)
            for number in range(10):
                async with stranger(on, 100 + number) as one:
                    await one.connect(victim.addresses[0])
                await until(lambda: _alone(victim))
            async with stranger(on, 150) as one:
                await one.connect(victim.addresses[0])
                [(found, _)] = await victim.connected()
                assert found == one.peer_id

    run(scenario)


def test_an_asker_that_never_closes_its_streams_is_answered_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libp2p_requests, "CLOSING_SECONDS", 0.2)
    monkeypatch.setattr(libp2p_host, "STREAMS_MAX", 16)

    async def scenario() -> None:
        async with guest() as on, peers(on, order(1, tmp_path)) as (victim,):
            victim.serve(ECHO, echo, 100)

            async def ask(stream: Any) -> bytes:
                await stream.write((1).to_bytes(4) + b"x")
                return bytes(await stream.read(5))

            async with stranger(on, 100) as one:
                await one.connect(victim.addresses[0])
                for _ in range(40):
                    assert await one.on_stream(victim.peer_id, ECHO, ask) == bytes(3) + b"\x01x"
                    await asyncio.sleep(0.05)

    run(scenario)


async def _alone(peer: Libp2pPeer) -> bool:
    return not await peer.connected()


def test_what_nobody_asked_for_fills_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """yamux only warns of a peer that sends beyond its window; such a peer is hung up on."""
    monkeypatch.setattr(libp2p_host, "BUFFERED_BYTES_MAX", 1_000_000)

    async def scenario() -> None:
        async with guest() as on, peers(on, order(1, tmp_path), order(2, tmp_path)) as both:
            victim, honest = both

            async def stuck(_peer_id: str, _request: bytes) -> bytes:
                await asyncio.sleep(60)
                return b""

            victim.serve(ECHO, echo, 100)
            victim.serve("/swarmnode/stuck/1", stuck, 100)
            async with stranger(on, 100) as one:
                await one.connect(victim.addresses[0])

                async def flood(stream: Any) -> None:
                    await stream.write((0).to_bytes(4))
                    raw = stream.muxed_stream
                    header = struct.pack("!BBHLL", 0, 0, 0, raw.stream_id, 50_000)
                    for _ in range(60):
                        await raw.conn._write_frame(header + bytes(50_000))

                with contextlib.suppress(Exception):  # hung up on before all was said
                    await one.on_stream(victim.peer_id, "/swarmnode/stuck/1", flood)
                await until(lambda: _knows_only(victim, honest))
            assert await still_answers(victim, honest)

    run(scenario)


async def _knows_only(victim: Libp2pPeer, honest: Libp2pPeer) -> bool:
    return {peer for peer, _ in await victim.connected()} == {honest.peer_id}


def test_a_flood_of_connections_from_one_address_is_turned_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guest() as on, peers(on, order(1, tmp_path), order(2, tmp_path)) as both:
            victim, honest = both
            victim.serve(ECHO, echo, 100)
            port = int(victim.addresses[0].split("/")[4])
            opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(120)]
            try:
                greeted = await asyncio.gather(*(_greeted(*each) for each in opened))
                assert 1 <= sum(greeted) <= 70
                assert await still_answers(victim, honest)
            finally:
                for _, writer in opened:
                    writer.transport.abort()

    run(scenario)


def test_with_the_defaults_nothing_listens_beyond_this_machine(tmp_path: Path) -> None:
    """M13, for a node without p2pd, whose sockets are the process's own."""

    async def scenario() -> None:
        async with guest() as on, peers(on, order(1, tmp_path)) as (one,):
            closed = await asyncio.to_thread(exposure_of, os.getpid(), one.addresses)
            assert (closed.listeners, closed.mapping, closed.asked) == ([], [], [])
            everywhere = order(2, tmp_path, listen=("/ip4/0.0.0.0/tcp/0",))
            async with peers(on, everywhere) as (two,):
                told = await asyncio.to_thread(exposure_of, os.getpid(), two.addresses)
                assert len(told.listeners) == 1
                assert not told.mapping

    run(scenario)


async def _greeted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Whether libp2p answers on a connection that was opened."""
    writer.write(MULTISTREAM)
    try:
        async with asyncio.timeout(4 * REQUEST_SECONDS):
            return await reader.readexactly(len(MULTISTREAM)) == MULTISTREAM
    except (OSError, EOFError, TimeoutError):
        return False
