"""The four protocols as every node serves them, to honest peers and to others."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmnode.buckets import Rate
from swarmnode.network.doors import Doors, Limit, Limits
from swarmnode.network.known import Known
from swarmnode.network.serving import Serving
from swarmnode.network.shelf import Shelf
from swarmnode.network.whereabouts import Whereabouts
from swarmproto import (
    DISCOVER_PROTOCOL,
    FETCH_PROTOCOL,
    OFFER_PROTOCOL,
    SWARM_PROTOCOL,
    Bundle,
    DiscoverRequest,
    FetchRequest,
    FetchResponse,
    OfferRequest,
    OfferResponse,
    SwarmRequest,
    bundle_id,
    bundle_size,
    decode_discover_response,
    decode_fetch_response,
    decode_offer_response,
    decode_swarm_response,
    encode_discover_request,
    encode_fetch_request,
    encode_offer_request,
    encode_swarm_request,
)
from tests.unit.network_made import (
    NOW,
    RULES,
    RULES_BYTES,
    SWARM,
    announcement,
    bundle,
    private_key,
)
from tests.unit.network_time import FixedClock

KEY = private_key(1)
PEERS = ("asker", "another", "giver", *map(str, range(20)))
MUCH = Rate(1e9, 1e9)
BOOTSTRAP = ("/ip4/192.0.2.1/tcp/4001/p2p/boot",)


@dataclass
class Node:
    """A serving node."""

    clock: FixedClock
    known: Known
    shelf: Shelf
    doors: Doors
    serving: Serving

    def offer(
        self, of: Bundle, peer: str = "giver", announced: bytes | None = None
    ) -> OfferResponse:
        announced = announcement(KEY, of) if announced is None else announced
        request = OfferRequest(announced, of.header_bytes, of.group_bytes)
        return decode_offer_response(self.serving.offer(peer, encode_offer_request(request)))

    def fetch(self, of: Bundle, *positions: int, peer: str = "asker") -> FetchResponse:
        request = FetchRequest(SWARM, bundle_id(of.header_bytes), positions)
        return decode_fetch_response(self.serving.fetch(peer, encode_fetch_request(request)))

    def discover(self, count: int = 64, peer: str = "asker", swarm: bytes = SWARM) -> int:
        request = encode_discover_request(DiscoverRequest(swarm, count))
        return len(decode_discover_response(self.serving.discover(peer, request)).announcements)


def node(limits: Limits | None = None, *, knows_rules: bool = True) -> Node:
    clock = FixedClock()
    # Nobody has the same address as another, unless a test says so.
    whereabouts = Whereabouts()
    whereabouts.listed({peer: f"/ip4/{at}.0.2.1/tcp/1" for at, peer in enumerate(PEERS, 1)})
    doors = Doors(clock, whereabouts, limits)
    known, shelf = Known(SWARM, clock), Shelf(clock, quota_bytes=10**6)
    serving = Serving(
        swarm_id=SWARM,
        rules=RULES if knows_rules else None,
        rules_bytes=RULES_BYTES if knows_rules else b"",
        bootstrap=lambda: BOOTSTRAP,
        known=known,
        shelf=shelf,
        clock=clock,
        rng=random.Random(0),
        doors=doors,
    )
    return Node(clock, known, shelf, doors, serving)


def test_an_offer_is_held_served_and_made_known() -> None:
    here, made = node(), bundle(KEY)
    assert here.offer(made) == OfferResponse("held", int((NOW + 300) * 1000))
    assert here.fetch(made, 0, 1).groups == tuple(enumerate(made.group_bytes))
    assert here.discover() == 1
    assert here.serving.served.of("asker") == bundle_size(made)


def refusals() -> dict[str, tuple[Bundle, bytes | None]]:
    made, other = bundle(KEY), bundle(private_key(2))
    unruled = bundle(KEY, task="bf")
    tampered = replace(made, group_bytes=(made.group_bytes[0], other.group_bytes[0]))
    fewer = replace(made, group_bytes=made.group_bytes[:1])
    return {
        "hash": (tampered, announcement(KEY, tampered)),
        "rules": (unruled, announcement(KEY, unruled, task="bf")),
        "another_task": (unruled, None),
        "rules_many": (bundle(KEY, groups=9), None),
        "another_size": (fewer, announcement(KEY, made)),
        "another_bundle": (made, announcement(KEY, other)),
        "another_key": (made, announcement(private_key(2), made)),
        "expired": (made, announcement(KEY, made, created=NOW - 400)),
        "early": (made, announcement(KEY, made, created=NOW + 400)),
        "truncated": (made, b"x"),
    }


@pytest.mark.parametrize("reason", refusals())
def test_an_offer_that_is_not_what_it_says_is_refused_and_nothing_is_held(reason: str) -> None:
    here = node()
    made, announced = refusals()[reason]
    assert here.offer(made, announced=announced) == OfferResponse("refused", 0)
    assert here.serving.counts == {f"offer/{reason.removesuffix('_many')}": 1}
    assert here.shelf.bytes_held("offered") == 0
    assert here.discover() == 0


def test_offers_are_refused_while_the_rules_are_unknown() -> None:
    here = node(knows_rules=False)
    assert here.offer(bundle(KEY)).status == "refused"
    answer = here.serving.swarm("asker", encode_swarm_request(SwarmRequest(SWARM)))
    assert decode_swarm_response(answer).rules is None


def test_a_peer_that_offers_too_often_hears_full() -> None:
    here = node(Limits(offers=Limit(Rate(0.1, 2.0), MUCH, MUCH)))
    made = [bundle(KEY, sequence=number) for number in range(4)]
    assert [here.offer(each).status for each in made[:3]] == ["held", "held", "full"]
    assert here.offer(made[3], peer="another").status == "held"
    here.clock.seconds += 10
    assert here.offer(made[2]).status == "held"


def test_a_peer_that_fetches_too_much_hears_busy_and_others_do_not() -> None:
    made = bundle(KEY)
    here = node(Limits(bytes=Limit(Rate(0.0, 1.5 * bundle_size(made)), MUCH, MUCH)))
    here.shelf.put(made, NOW + 60)
    assert [here.fetch(made, 0, 1).status for _ in range(2)] == ["ok", "busy"]
    assert here.fetch(made, 0, 1, peer="another").status == "ok"
    assert here.serving.served.of("asker") == bundle_size(made)


def test_all_together_are_limited_however_many_ids_they_have() -> None:
    made = bundle(KEY)
    here = node(Limits(bytes=Limit(MUCH, MUCH, Rate(0.0, 5.5 * bundle_size(made)))))
    here.shelf.put(made, NOW + 60)
    answers = [here.fetch(made, 0, 1, peer=str(number)).status for number in range(20)]
    assert answers.count("ok") == 5


def test_discover_gives_no_more_than_asked_for_and_nothing_of_another_swarm() -> None:
    here = node()
    for number in range(1, 11):
        key = private_key(number)
        here.known.learn(announcement(key, bundle(key)), "")
    assert here.discover(3) == 3
    assert here.discover(64) == 10
    assert here.discover(3, swarm=bytes(32)) == 0


def test_who_asks_too_often_learns_nothing_for_a_while() -> None:
    here = node(Limits(calls=Limit(Rate(1.0, 2.0), MUCH, MUCH)))
    here.known.learn(announcement(KEY, bundle(KEY)), "")
    assert [here.discover() for _ in range(3)] == [1, 1, 0]
    here.clock.seconds += 1
    assert here.discover() == 1


def test_a_refused_peer_is_served_nothing_until_its_time_is_over() -> None:
    here, made = node(), bundle(KEY)
    here.shelf.put(made, NOW + 600)
    here.doors.refuse("asker", 60)
    assert here.fetch(made).status == "busy"
    assert here.offer(made, peer="asker").status == "refused"
    assert here.discover() == 0
    assert here.fetch(made, peer="another").status == "ok"
    here.clock.seconds += 60
    assert here.fetch(made).status == "ok"


def test_the_swarm_file_is_for_those_who_know_the_id() -> None:
    here = node()
    known = here.serving.swarm("asker", encode_swarm_request(SwarmRequest(SWARM)))
    assert decode_swarm_response(known).rules == RULES_BYTES
    assert decode_swarm_response(known).bootstrap == BOOTSTRAP
    unknown = here.serving.swarm("asker", encode_swarm_request(SwarmRequest(bytes(32))))
    assert decode_swarm_response(unknown).rules is None


@given(
    st.sampled_from([DISCOVER_PROTOCOL, FETCH_PROTOCOL, OFFER_PROTOCOL, SWARM_PROTOCOL]),
    st.binary(max_size=200),
)
def test_whatever_bytes_come_the_answer_is_well_formed(protocol: str, request: bytes) -> None:
    decode = {
        DISCOVER_PROTOCOL: decode_discover_response,
        FETCH_PROTOCOL: decode_fetch_response,
        OFFER_PROTOCOL: decode_offer_response,
        SWARM_PROTOCOL: decode_swarm_response,
    }
    here = node()
    decode[protocol](here.serving.handlers[protocol]("asker", request))
    assert here.serving.counts.total() == 1
