"""Records of the DHT: who may store what, where and for how long; the bounded store; the search."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as some

from swarmnode.network.dht_records import (
    AnnouncementValidator,
    Record,
    RecordStore,
    Refusal,
    key_id,
)
from swarmnode.network.dht_search import Search
from swarmnode.network.shards import bucket_of, keys_of, shard_key, subkey_of
from swarmproto import Announcement, SwarmSecret, public_key_of, swarm_id
from tests.unit.network_made import NOW, RULES, SWARM, announcement, bundle, private_key

KEY = private_key(1)
OWNER = subkey_of(public_key_of(KEY))
BUNDLE = bundle(KEY)
VALUE = announcement(KEY, BUNDLE)
EXPIRES = NOW + 300.0
PLACE = key_id(shard_key(SWARM, bucket_of(NOW), ""))
SECRET = SwarmSecret(bytes(range(32)))
PRIVATE = swarm_id(RULES, SECRET)
PRIVATE_VALUE = announcement(KEY, bundle(KEY, swarm=PRIVATE), swarm=PRIVATE)


def ids_of(opened: Announcement) -> frozenset[bytes]:
    return frozenset(map(key_id, keys_of(opened)))


def validator(now: float = NOW) -> AnnouncementValidator:
    return AnnouncementValidator(SWARM, ids_of, subkey_of, lambda: now)


def test_an_announcement_under_its_author_and_place_is_held() -> None:
    judge = validator()
    assert judge.refusal(PLACE, OWNER, VALUE, EXPIRES) is None
    assert judge.refusal(PLACE, OWNER, VALUE, EXPIRES) is None, "remembered, not changed"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"subkey": subkey_of(public_key_of(private_key(2)))}, Refusal.OWNER),
        ({"subkey": ""}, Refusal.OWNER),
        ({"value": VALUE + bytes(1024)}, Refusal.SIZE),
        ({"value": b""}, Refusal.WIRE),
        ({"value": VALUE[:-1] + b"\0"}, Refusal.WIRE),
        ({"value": announcement(KEY, BUNDLE, swarm=b"o" * 32)}, Refusal.FOREIGN_SWARM),
        ({"expires": NOW}, Refusal.EXPIRED),
        ({"expires": math.nan}, Refusal.EXPIRED),
        ({"expires": math.inf}, Refusal.TOO_LATE),
        ({"expires": NOW + 721}, Refusal.TOO_LATE),
        ({"expires": EXPIRES + 1}, Refusal.EXPIRY),
        ({"expires": EXPIRES - 1}, Refusal.EXPIRY),
        ({"key": key_id(shard_key(SWARM, bucket_of(NOW) + 9, ""))}, Refusal.KEY),
        ({"key": key_id(shard_key(SWARM, bucket_of(NOW), "0" * 12))}, Refusal.KEY),
        ({"key": b"k"}, Refusal.KEY),
    ],
)
def test_what_differs_in_anything_is_refused_with_its_reason(
    change: dict[str, object], reason: Refusal
) -> None:
    arguments: dict[str, object] = {
        "key": PLACE,
        "subkey": OWNER,
        "value": VALUE,
        "expires": EXPIRES,
    }
    judge: Callable[..., Refusal | None] = validator().refusal
    assert judge(**(arguments | change)) is reason


def private_place(prefix: str = "", *, minutes: int = 0) -> bytes:
    return key_id(SECRET.place(shard_key(PRIVATE, bucket_of(NOW) + minutes, prefix)))


def sealed(place: bytes, announced: bytes, author: str = OWNER) -> tuple[str, bytes]:
    """Subkey and value in a private swarm."""
    subkey = SECRET.subkey(place, author)
    return subkey, SECRET.seal_record(place, subkey, announced)


def private_validator() -> AnnouncementValidator:
    def ids(opened: Announcement) -> frozenset[bytes]:
        return frozenset(key_id(SECRET.place(key)) for key in keys_of(opened))

    return AnnouncementValidator(PRIVATE, ids, subkey_of, lambda: NOW, SECRET)


def test_a_sealed_announcement_is_held_at_its_place_and_nothing_unsealed_is() -> None:
    judge, place, later = private_validator(), private_place(), private_place(minutes=1)
    subkey, value = sealed(place, PRIVATE_VALUE)
    assert judge.refusal(place, subkey, value, EXPIRES) is None
    assert judge.refusal(later, *sealed(later, PRIVATE_VALUE), EXPIRES) is None
    for refused in (
        (PLACE, OWNER, VALUE),
        (place, OWNER, PRIVATE_VALUE),
        (place, subkey, PRIVATE_VALUE),
        (place, OWNER, value),
        (later, subkey, value),
        (place, subkey, value[:-1] + bytes([value[-1] ^ 1])),
        (place, *foreign_seal(place)),
    ):
        assert judge.refusal(*refused, EXPIRES) is Refusal.SEAL
    assert judge.refusal(place, subkey, value, EXPIRES) is None, "others' tries don't stick to it"


def foreign_seal(place: bytes) -> tuple[str, bytes]:
    """By one who has another key, and knows the place and the subkey."""
    subkey = SECRET.subkey(place, OWNER)
    return subkey, SwarmSecret(bytes(32)).seal_record(place, subkey, PRIVATE_VALUE)


def test_a_member_stores_under_no_other_author_and_at_no_other_place() -> None:
    judge, place, wrong = private_validator(), private_place(), private_place("0" * 12)
    other = subkey_of(public_key_of(private_key(2)))
    assert judge.refusal(place, *sealed(place, PRIVATE_VALUE, other), EXPIRES) is Refusal.OWNER
    assert judge.refusal(wrong, *sealed(wrong, PRIVATE_VALUE), EXPIRES) is Refusal.KEY
    assert judge.refusal(place, *sealed(place, PRIVATE_VALUE), EXPIRES + 1) is Refusal.EXPIRY
    assert judge.refusal(place, *sealed(place, VALUE), EXPIRES) is Refusal.FOREIGN_SWARM


def test_a_clock_two_minutes_off_is_tolerated_and_more_is_not() -> None:
    made = announcement(KEY, BUNDLE, created=NOW, life=600)
    place = key_id(shard_key(SWARM, bucket_of(NOW), ""))
    assert validator(NOW - 119).refusal(place, OWNER, made, NOW + 600) is None
    assert validator(NOW - 121).refusal(place, OWNER, made, NOW + 600) is Refusal.TOO_LATE
    short = announcement(KEY, BUNDLE, created=NOW, life=60)
    assert validator(NOW - 121).refusal(place, OWNER, short, NOW + 60) is Refusal.FUTURE


def test_an_older_announcement_never_displaces_a_newer_one() -> None:
    judge, store = validator(NOW + 10), RecordStore(lambda: NOW + 10)
    newer = announcement(KEY, BUNDLE, created=NOW + 5)
    assert judge.refusal(PLACE, OWNER, newer, EXPIRES + 5) is None
    assert store.put(PLACE, OWNER, newer, EXPIRES + 5)
    assert judge.refusal(PLACE, OWNER, VALUE, EXPIRES + 6) is Refusal.EXPIRY, "can't be prolonged"
    assert not store.put(PLACE, OWNER, VALUE, EXPIRES)
    assert store.get(PLACE) == {OWNER: Record(newer, EXPIRES + 5)}


def test_storing_the_same_record_again_is_acknowledged_and_another_of_its_time_is_not() -> None:
    store = RecordStore(lambda: NOW)
    assert store.put(PLACE, OWNER, b"a", NOW + 1)
    assert store.put(PLACE, OWNER, b"a", NOW + 1)
    assert not store.put(PLACE, OWNER, b"b", NOW + 1)
    assert len(store) == 1


def test_expired_records_are_gone() -> None:
    now = [NOW]
    store = RecordStore(lambda: now[0])
    store.put(PLACE, "a", b"a", NOW + 1)
    store.put(PLACE, "b", b"b", NOW + 2)
    now[0] = NOW + 1
    assert set(store.get(PLACE)) == {"b"}
    assert [subkey for _, subkey, _ in store.records()] == ["b"]
    assert len(store) == 1


def test_a_full_key_drops_its_soonest_to_expire_and_refuses_what_expires_sooner_still() -> None:
    store = RecordStore(lambda: NOW, records_per_key_max=2)
    assert store.put(PLACE, "a", b"", NOW + 1)
    assert store.put(PLACE, "b", b"", NOW + 2)
    assert store.put(PLACE, "c", b"", NOW + 3)
    assert set(store.get(PLACE)) == {"b", "c"}
    assert not store.put(PLACE, "d", b"", NOW + 1)
    assert set(store.get(PLACE)) == {"b", "c"}


def test_a_full_store_drops_the_soonest_to_expire_of_all_keys() -> None:
    store = RecordStore(lambda: NOW, records_max=32)
    for number in range(33):
        store.put(bytes([number]) * 20, "a", b"", NOW + 1 + number)
    held = {key[0] for key, _, _ in store.records()}
    assert held == set(range(3, 33))


@given(
    some.lists(
        some.tuples(
            some.integers(0, 4),
            some.integers(0, 9),
            some.integers(0, 400),
            some.integers(1, 50),
        ),
        max_size=120,
    )
)
def test_whatever_is_put_the_limits_hold_and_the_count_is_right(
    puts: list[tuple[int, int, int, int]],
) -> None:
    store = RecordStore(lambda: NOW, records_max=16, bytes_max=6000, records_per_key_max=5)
    for key, subkey, length, life in puts:
        held = store.put(bytes([key]), str(subkey), bytes(length), NOW + life)
        found = store.get(bytes([key])).get(str(subkey))
        assert held == (found == Record(bytes(length), NOW + life))
        assert len(store) == len(list(store.records())) <= 16
        assert 0 <= store.size <= 6000
        assert len(store.get(bytes([key]))) <= 5


def test_a_key_has_the_place_that_hivemind_gives_it() -> None:
    code = (
        "from swarmnode.network.light_hivemind import DHTID\n"
        "from swarmnode.network.dht_records import key_id\n"
        "assert DHTID.generate(source='a/b/1').to_bytes() == key_id('a/b/1')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def search(own: list[int], width: int = 3) -> Search[int]:
    return Search(0, own, width, lambda peer: peer)


def test_a_search_asks_the_nearest_of_our_own_table_first() -> None:
    assert search([50, 10, 40, 20]).next() == [10, 20, 40]


def test_a_liar_who_names_peers_that_do_not_answer_hides_nobody() -> None:
    looked = search([10, 20, 30])
    assert looked.next() == [10, 20, 30]
    looked.answered.update({10, 20, 30})
    looked.learn([1, 2, 3, 4, 5])
    looked.learn([11, 12])
    assert looked.next() == [1, 2, 3], "no more than the width of what one peer names"
    assert looked.next() == [11, 12]
    looked.answered.add(11)
    assert looked.next() == []
    assert looked.nearest_that_answered() == [10, 11, 20, 30]


def test_a_search_goes_on_to_nearer_peers_and_then_ends() -> None:
    looked = search([100, 200])
    looked.answered.update(looked.next())
    looked.learn([7, 8, 300])
    assert looked.next() == [7, 8]
    looked.answered.update({7, 8})
    looked.learn([100, 7])
    assert looked.next() == []
    assert looked.nearest_that_answered() == [7, 8, 100, 200]


def test_of_two_records_of_one_author_a_search_keeps_the_later() -> None:
    looked = search([])
    for value, expires in ((b"new", 2.0), (b"old", 1.0)):
        looked.find("a", Record(value, expires))
    assert looked.records == {"a": Record(b"new", 2.0)}


def test_a_search_reads_so_many_copies_and_replaces_those_who_fail() -> None:
    looked = Search(8, [8 ^ 1, 8 ^ 2, 8 ^ 3, 8 ^ 4], 4, lambda peer: peer, copies=2)
    asked = looked.next()
    assert [looked.place_for(peer) for peer in asked] == [8, 8, 9, 9]
    looked.answered.update(set(asked[:1] + asked[2:]))
    looked.failed(asked[1])
    assert looked.unread(4) == [asked[2]]
    assert looked.place_for(asked[2]) == 8
    assert looked.unread(4) == []


def test_what_was_read_from_peers_that_turn_out_to_be_far_does_not_count() -> None:
    looked = Search(0, [100, 200], 4, lambda peer: peer, copies=2)
    for peer in looked.next():
        assert looked.place_for(peer) == 0
    looked.answered.update({100, 200})
    looked.learn([5, 6, 7])
    near = looked.next()
    assert [looked.place_for(peer) for peer in near] == [1, 1, 1]
    looked.answered.update(near)
    assert looked.unread(3) == [5, 6]
