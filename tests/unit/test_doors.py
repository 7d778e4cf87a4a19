"""The doors: what a peer, a prefix and all together may send, who is hung up on, what it costs."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from swarmnode.buckets import Rate
from swarmnode.clock import VirtualClock
from swarmnode.network.allowance import REMEMBERED, Allowance, BytesByPeer
from swarmnode.network.dht_messages import REQUEST_BYTES_MAX
from swarmnode.network.dht_records import AnnouncementValidator, key_id
from swarmnode.network.dht_replica import BAD_RECORDS_MAX, VERIFIED_AT_ONCE, records_in
from swarmnode.network.doors import HANG_UP_SECONDS, RUDE_MESSAGES, Doors, Limit, Limits
from swarmnode.network.hivemind_calls import HandlerTasks
from swarmnode.network.light_hivemind import (
    CONNECTION_ERRORS,
    DictionaryDHTValue,
    MSGPackSerializer,
    PeerID,
    dht_messages,
)
from swarmnode.network.peer import PeerUnreachable
from swarmnode.network.reporting import peers_of
from swarmnode.network.shards import keys_of, subkey_of
from swarmnode.network.whereabouts import NOTED_MAX, Whereabouts
from swarmnode.prefixes import THROUGH_OTHERS
from swarmproto import Announcement
from tests.unit.dht_support import order, peers, record, run
from tests.unit.network_made import SWARM
from tests.unit.network_members import members, peer_id
from tests.unit.network_time import FixedClock, in_virtual_time

NAMES = 5 * max(REMEMBERED, NOTED_MAX)
MUCH = Rate(1e9, 1e9)
FEW = Limits(messages=Limit(Rate(0.0, 10.0), Rate(0.0, 20.0), Rate(0.0, 60.0)))


def placed(addresses: dict[str, str]) -> Whereabouts:
    whereabouts = Whereabouts()
    whereabouts.listed({peer: f"/ip4/{host}/tcp/1" for peer, host in addresses.items()})
    return whereabouts


def let_in(doors: Doors, peer: str, messages: int = 1000) -> int:
    return sum(doors.admits(peer) for _ in range(messages))


def test_fifty_keys_at_one_address_are_let_in_like_two_peers_and_take_nothing_of_others() -> None:
    keys = {f"sybil {number}": f"203.0.113.{number}" for number in range(50)}
    doors = Doors(FixedClock(), placed({**keys, "honest": "198.51.100.1"}), FEW)
    assert sum(let_in(doors, key, 100) for key in keys) == 20
    assert let_in(doors, "honest") == 10
    assert doors.counts == {"peer": 90 + 90 + 990, "prefix": 48 * 100}


def test_all_whom_we_know_through_others_share_one_allowance() -> None:
    doors = Doors(FixedClock(), placed({"connected": "198.51.100.1"}), FEW)
    assert sum(let_in(doors, f"somebody {number}") for number in range(50)) == 20
    assert let_in(doors, "connected") == 10


def test_all_together_are_let_in_so_often_however_many_addresses_they_have() -> None:
    doors = Doors(FixedClock(), placed({str(at): f"10.0.{at}.1" for at in range(30)}), FEW)
    assert sum(let_in(doors, str(at), 5) for at in range(30)) == 60
    assert set(doors.counts) == {"all"}


def test_what_was_spent_comes_back_with_time_and_never_more_than_the_burst() -> None:
    clock = FixedClock()
    limits = Limits(messages=Limit(Rate(2.0, 10.0), MUCH, MUCH))
    doors = Doors(clock, Whereabouts(), limits)
    assert let_in(doors, "peer") == 10
    clock.seconds += 2
    assert let_in(doors, "peer") == 4
    clock.seconds += 3600
    assert let_in(doors, "peer") == 10
    clock.seconds -= 7200  # a clock that is set back takes nothing away and gives nothing
    assert let_in(doors, "peer") == 0


def test_whoever_goes_on_sending_is_hung_up_on_and_let_in_again_later() -> None:
    clock = FixedClock()
    doors = Doors(clock, placed({"rude": "10.0.0.1", "near": "10.0.0.2"}), FEW)
    let_in(doors, "rude", 10 + RUDE_MESSAGES - 1)
    assert doors.rude() == []
    let_in(doors, "rude", RUDE_MESSAGES)
    # For what its prefix has used up nobody is hung up on: it may be the others there.
    let_in(doors, "near", 10)
    let_in(doors, "other", 0)
    assert doors.rude() == ["rude"]
    assert doors.refuses("rude")
    assert doors.rude() == []
    assert let_in(doors, "rude", 1) == 0
    assert doors.rude() == ["rude"], "it is back, and one message is too many"
    clock.seconds += HANG_UP_SECONDS + 1
    assert not doors.refuses("rude")


def test_a_prefix_that_is_used_up_is_nobodys_rudeness() -> None:
    limits = Limits(messages=Limit(MUCH, Rate(0.0, 1.0), MUCH))
    doors = Doors(FixedClock(), Whereabouts(), limits)
    assert let_in(doors, "one") == 1
    assert doors.rude() == []


def test_a_refusal_is_never_cut_short_by_a_shorter_one() -> None:
    clock = FixedClock()
    doors = Doors(clock, Whereabouts())
    doors.refuse("peer", 3600)
    doors.refuse("peer", 60)
    clock.seconds += 3599
    assert doors.refuses("peer")


def test_an_operator_is_told_what_is_left_to_a_peer_and_where_it_is() -> None:
    doors = Doors(FixedClock(), placed({"peer": "198.51.100.7"}), FEW)
    let_in(doors, "peer", 8)
    told = doors.told("peer")
    assert told["prefix"] == "198.51.100.0/24"
    assert told["left"]["messages"] == pytest.approx(0.2)
    assert told["left"]["offers"] == 1.0
    let_in(doors, "peer", 8)
    assert doors.told("peer")["turned_away"] == 6
    assert doors.told("nobody")["prefix"] == THROUGH_OTHERS


def _many_names(number: int) -> str:
    return f"12D3KooW{number:044d}"


def _fill_allowance() -> Callable[[str], object]:
    allowance = Allowance(
        FixedClock(), lambda peer: f"prefix of {peer}", each=MUCH, prefix=MUCH, together=MUCH
    )
    return lambda name: allowance.take(name, 1.0)


def _fill_doors() -> Callable[[str], object]:
    doors = Doors(FixedClock(), Whereabouts(), FEW)

    def fill(name: str) -> None:
        let_in(doors, name, 12)
        doors.refuse(name, 60)
        doors.offers.take(name, 1.0)

    return fill


def _fill_whereabouts() -> Callable[[str], object]:
    whereabouts = Whereabouts()
    return lambda name: whereabouts.note(name, "/ip4/203.0.113.7/tcp/1")


def _fill_counted_bytes() -> Callable[[str], object]:
    counted = BytesByPeer()
    return lambda name: counted.add(name, 2**40)


@pytest.mark.parametrize(
    ("made", "kib"),
    [
        (_fill_allowance, 1024),
        (_fill_doors, 3072),
        (_fill_whereabouts, 512),
        (_fill_counted_bytes, 512),
    ],
)
def test_five_thousand_names_take_no_more_memory_than_this(
    made: Callable[[], Callable[[str], object]], kib: int
) -> None:
    tracemalloc.start()
    try:
        fill = made()
        for number in range(NAMES):
            fill(_many_names(number))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < kib * 1024


def test_a_membership_hangs_up_on_the_rude_within_seconds() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            one = await joining.join(1)
            await joining.join(2, 1)
            await fake.until(lambda: fake.links(1) == 1, 30)
            let_in(one.doors, peer_id(2), 500)
            await asyncio.sleep(2)
            assert fake.links(1) == 0
            # It is gone, and an operator may still want to know why.
            (told,) = peers_of(one, clock)
            assert (told["peer_id"], told["seconds_connected"]) == (peer_id(2), None)
            assert (told["refused"], told["turned_away"]) == (True, 200)

    in_virtual_time(scenario)


def test_messages_of_the_dht_pass_the_same_doors_as_requests(tmp_path: Path) -> None:
    async def scenario() -> None:
        doors = Doors(FixedClock(), Whereabouts(), FEW)
        async with peers(order(1, tmp_path, doors=doors), order(2, tmp_path)) as (one, other):

            async def echo(_peer_id: str, request: bytes) -> bytes:
                return request

            one.serve("/swarmnode/test/1", echo, 10)
            answers = [await other.ping(one.peer_id) for _ in range(20)]
            spent = answers.count(True)
            assert 0 < spent <= 10
            assert answers[:spent] == [True] * spent
            with pytest.raises(PeerUnreachable):
                await other.call(one.peer_id, "/swarmnode/test/1", b"x", 10, 5)
            assert doors.counts["peer"] >= 11
            doors.refuse(other.peer_id, 60)
            assert not await other.ping(one.peer_id)
            assert doors.counts["refused"] >= 1

    run(scenario)


def test_a_message_beyond_any_honest_size_is_not_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with peers(order(1, tmp_path), order(2, tmp_path)) as (one, other):
            client, victim = other._daemon.p2p._client, PeerID.from_base58(one.peer_id)
            request = dht_messages.FindRequest(keys=[b""] * (REQUEST_BYTES_MAX // 2 + 1))
            data = request.SerializeToString()
            with pytest.raises(CONNECTION_ERRORS, match="too long"):
                await client.call_unary_handler(victim, "DHTProtocol.rpc_find", data)

    run(scenario)


def test_records_and_what_is_read_of_them_are_limited_by_prefix(tmp_path: Path) -> None:
    async def scenario() -> None:
        limits = Limits(
            records=Limit(MUCH, Rate(0.0, 2.0), MUCH), bytes=Limit(MUCH, Rate(0.0, 800.0), MUCH)
        )
        doors = Doors(FixedClock(), Whereabouts(), limits)
        orders = [order(1, tmp_path, doors=doors), order(2, tmp_path, client=True)]
        async with peers(*orders) as (one, other):
            kept = [await other.store(*record(number)) for number in range(3, 7)]
            assert kept == [1, 1, 0, 0]
            place, found = record(3)[0], []
            for _ in range(3):
                assert await other.ping(one.peer_id)  # whoever doesn't answer is forgotten
                found.append(len((await other.get([place]))[place]))
            assert found[0] == 2
            assert found[-1] == 0
            assert [kept[0] for kept in one.export_records()] == [key_id(place)] * 2

    run(scenario)


def test_an_answer_that_its_asker_cancels_before_it_begins_is_not_kept() -> None:
    async def scenario() -> None:
        tasks = HandlerTasks()

        async def answer() -> None:
            raise AssertionError("it has not begun")

        tasks["call"] = asyncio.create_task(answer())
        tasks["call"].cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not tasks

    asyncio.run(scenario())


def _answered(records: list[tuple[str, bytes, float]]) -> object:
    """A replica's answer with these records."""
    dictionary = DictionaryDHTValue()
    for subkey, value, expires in records:
        dictionary.store(subkey, MSGPackSerializer.dumps(value), expires)
    return dht_messages.FindResult(
        type=dht_messages.FOUND_DICTIONARY, value=MSGPackSerializer.dumps(dictionary)
    )


def test_a_liars_answer_costs_few_verifications_and_pauses_between_them() -> None:
    good = record(3)
    place = key_id(good[0])
    judged: list[str] = []
    turns = 0

    class Counting(AnnouncementValidator):
        def _verify(self, key: bytes, subkey: str, value: bytes) -> Any:
            judged.append(subkey)
            return super()._verify(key, subkey, value)

    def ids_of(opened: Announcement) -> frozenset[bytes]:
        return frozenset(map(key_id, keys_of(opened)))

    async def read(records: list[tuple[str, bytes, float]]) -> list[str]:
        judged.clear()
        validator = Counting(SWARM, ids_of, subkey_of, time.time)
        answer = _answered(records)
        return [subkey async for subkey, _ in records_in(answer, place, validator)]

    async def scenario() -> None:
        nonlocal turns
        lies = [(f"{number:03d}", good[2][:-1] + b"x", good[3]) for number in range(255)]
        assert await read([*lies, good[1:]]) == []
        assert len(judged) == BAD_RECORDS_MAX
        old = [(f"{number:03d}", good[2], time.time() - 1) for number in range(255)]
        assert await read([*old, good[1:]]) == [good[1]], "those that are late are no liars"
        honest = [record(number)[1:] for number in range(3, 67)]

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.ensure_future(others())
        assert len(await read(honest)) == 64
        beside.cancel()

    asyncio.run(scenario())
    assert turns >= 64 // VERIFIED_AT_ONCE
