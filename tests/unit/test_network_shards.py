"""Shards: where announcements lie, and how large a swarm is taken to be."""

from __future__ import annotations

import random

from swarmnode.keys import peer_id_of
from swarmnode.network.peer import peer_id_in
from swarmnode.network.shards import (
    LEVEL_MAX,
    SizeEstimate,
    bucket_of,
    keys_of,
    level_for,
    prefix_of,
    publishing_keys,
    readable_buckets,
    shard_key,
)
from swarmproto import open_announcement, public_key_of
from tests.unit.network_made import NOW, SWARM, announcement, bundle, private_key


def test_a_reader_whose_clock_is_a_minute_off_reads_where_a_publisher_publishes() -> None:
    for skew in (-60.0, 0.0, 60.0):
        assert bucket_of(NOW) in readable_buckets(NOW + skew)
    assert bucket_of(NOW) not in readable_buckets(NOW + 600)


def test_each_key_that_an_announcement_is_published_under_is_among_its_keys() -> None:
    key = private_key(1)
    opened = open_announcement(announcement(key, bundle(key), life=150.0), SWARM)
    keys = keys_of(opened)
    for level in range(LEVEL_MAX + 1):
        for bucket in range(bucket_of(NOW), bucket_of(NOW + 150.0) + 1):
            assert set(publishing_keys(SWARM, public_key_of(key), bucket, level)) <= keys
    assert shard_key(SWARM, bucket_of(NOW) - 1, "") not in keys
    assert shard_key(SWARM, bucket_of(NOW + 150.0) + 1, "") not in keys


def test_two_levels_one_apart_share_a_key() -> None:
    key = public_key_of(private_key(2))
    for level in range(LEVEL_MAX):
        here = set(publishing_keys(SWARM, key, 7, level))
        there = set(publishing_keys(SWARM, key, 7, level + 1))
        assert here & there


def test_a_prefix_is_the_beginning_of_the_longer_one() -> None:
    key = public_key_of(private_key(3))
    assert prefix_of(key, 0) == ""
    assert prefix_of(key, 5).startswith(prefix_of(key, 4))


def test_shards_are_split_when_they_have_more_than_their_target() -> None:
    assert [level_for(size) for size in (0, 1, 32, 33, 64, 65, 1000)] == [0, 0, 0, 1, 1, 2, 5]
    assert level_for(1e12) == LEVEL_MAX


def test_the_estimate_follows_a_swarm_that_grows() -> None:
    rng, estimate = random.Random(0), SizeEstimate()
    for bucket in range(12):
        for _ in range(4):
            level = estimate.level
            estimate.observe(bucket, level, rng.randint(900, 1100) >> level)
    assert 800 <= estimate.value <= 1200
    assert estimate.level == 5


def test_one_flooded_bucket_does_not_move_the_estimate() -> None:
    estimate = SizeEstimate()
    for bucket in range(5):
        estimate.observe(bucket, 0, 20)
    for _ in range(100):
        estimate.observe(5, 0, 100_000)
    assert estimate.value == 20


def test_one_emptied_bucket_does_not_move_the_estimate() -> None:
    estimate = SizeEstimate()
    for bucket in range(8):
        estimate.observe(bucket, 3, 30)
    before = estimate.value
    for _ in range(100):
        estimate.observe(8, 3, 0)
    assert estimate.value == before == 240


def test_a_newcomer_is_led_astray_by_at_most_four_targets() -> None:
    estimate = SizeEstimate()
    estimate.observe(0, 0, 10**6)
    assert estimate.value == 128


def test_the_peer_id_of_a_key_is_that_of_libp2p() -> None:
    # The key 00..1f of the worked example; the id was made by go-libp2p.
    assert peer_id_of(public_key_of(bytes(range(32)))).startswith("12D3KooW")
    assert peer_id_in("/ip4/127.0.0.1/tcp/1/p2p/12D3x") == "12D3x"
    assert peer_id_in("/ip4/127.0.0.1/tcp/1") == ""
    assert peer_id_in("/ip4/1.2.3.4/tcp/1/p2p/Qa/p2p-circuit") == ""
