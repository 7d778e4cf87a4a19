"""What a node must answer, one check for each promise of the specification, in order.

A check returns when the promise is kept, and raises Broken or Skipped.
"""

import hashlib
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import msgpack
import trio
from asking import Asking, NoAnswer, framed
from made import Made, Maker

import swarmproto as wire

DIAL_BACK = "/swarmnode/dial-back/1"
LOOKS = 12
FEW_LOOKS = 3
"""Times that a node is asked for what it knows: its choice is random."""


class Broken(Exception):
    """The node does not keep the promise; one line."""


class Skipped(Exception):
    """The node need not keep it, and doesn't."""


@dataclass
class Trial:
    """One run: the node under test, its swarm, and what was offered to it."""

    asking: Asking
    maker: Maker
    rules_bytes: bytes
    own_key: bytes
    offered: Made | None = field(default=None)

    @property
    def swarm_id(self) -> bytes:
        """Of the node's swarm."""
        return self.maker.swarm_id

    async def discovered(self, count: int = 64, swarm_id: bytes = b"") -> tuple[bytes, ...]:
        """What it says that it knows."""
        request = wire.DiscoverRequest(swarm_id or self.swarm_id, count)
        answer = await self.asking.ask(
            wire.DISCOVER_PROTOCOL, wire.encode_discover_request(request)
        )
        return wire.decode_discover_response(answer).announcements

    async def knows(self, announcement: bytes, looks: int = LOOKS) -> bool:
        """Whether it tells of an announcement, sooner or later."""
        for _ in range(looks):
            if announcement in await self.discovered():
                return True
            await trio.sleep(0.5)
        return False

    async def fetched(
        self, bundle_id: bytes, *positions: int, swarm_id: bytes = b""
    ) -> wire.FetchResponse:
        """What it serves of a bundle."""
        request = wire.FetchRequest(swarm_id or self.swarm_id, bundle_id, positions)
        answer = await self.asking.ask(wire.FETCH_PROTOCOL, wire.encode_fetch_request(request))
        return wire.decode_fetch_response(answer)

    async def offer(self, request: bytes) -> str:
        """What becomes of an offer."""
        answer = await self.asking.ask(wire.OFFER_PROTOCOL, request)
        return wire.decode_offer_response(answer).status

    async def swarm(self, swarm_id: bytes) -> bytes | None:
        """The rules that it tells."""
        request = wire.encode_swarm_request(wire.SwarmRequest(swarm_id))
        answer = await self.asking.ask(wire.SWARM_PROTOCOL, request)
        return wire.decode_swarm_response(answer).rules


def must(holds: bool, otherwise: str) -> None:
    """Raises Broken."""
    if not holds:
        raise Broken(otherwise)


async def tells_the_rules_to_who_knows_the_id(trial: Trial) -> None:
    told = await trial.swarm(trial.swarm_id)
    must(told == trial.rules_bytes, "other bytes than those whose hash is the id, or none")
    must(await trial.swarm(os.urandom(32)) is None, "rules of a swarm that does not exist")


async def holds_what_it_is_offered(trial: Trial) -> None:
    trial.offered = trial.maker.made(trial.own_key)
    status = await trial.offer(trial.offered.offer)
    must(status == "held", f"a bundle without fault: {status}")


async def refuses_a_group_that_is_not_the_one_in_the_header(trial: Trial) -> None:
    made, other = trial.maker.made(trial.own_key), trial.maker.made(os.urandom(32))
    groups = (made.bundle.group_bytes[0], b"\x80" + made.bundle.group_bytes[1][1:])
    request = wire.OfferRequest(made.announcement, made.bundle.header_bytes, groups)
    status = await trial.offer(wire.encode_offer_request(request))
    must(status == "refused", f"a group of another hash: {status}")
    swapped = wire.OfferRequest(
        other.announcement, made.bundle.header_bytes, made.bundle.group_bytes
    )
    status = await trial.offer(wire.encode_offer_request(swapped))
    must(status == "refused", f"an announcement of another bundle: {status}")
    refused = await trial.knows(made.announcement, FEW_LOOKS)
    must(not refused, "it tells of a bundle that it refused")


async def refuses_what_is_of_another_swarm(trial: Trial) -> None:
    made = trial.maker.made(trial.own_key, swarm_id=os.urandom(32))
    must(await trial.offer(made.offer) == "refused", "a bundle of another swarm was held")


async def tells_of_what_it_holds(trial: Trial) -> None:
    assert trial.offered is not None
    must(await trial.knows(trial.offered.announcement), "it does not tell of what it holds")


async def tells_only_of_fresh_announcements_of_its_swarm(trial: Trial) -> None:
    found = await trial.discovered()
    for data in found:
        try:
            wire.open_announcement(data, trial.swarm_id)
        except wire.WireError as error:
            raise Broken(f"an announcement that is none: {error}") from None
    must(len(set(found)) == len(found), "one announcement twice")
    must(len(await trial.discovered(1)) <= 1, "more than was asked for")
    must(not await trial.discovered(swarm_id=os.urandom(32)), "announcements for another swarm")


async def serves_the_header_and_the_groups_that_are_asked_for(trial: Trial) -> None:
    assert trial.offered is not None
    bundle = trial.offered.bundle
    alone = await trial.fetched(trial.offered.bundle_id)
    must((alone.status, alone.header_bytes) == ("ok", bundle.header_bytes), "no header")
    must(alone.groups == (), "groups that nobody asked for")
    second = await trial.fetched(trial.offered.bundle_id, 1, 7)
    must(second.groups == ((1, bundle.group_bytes[1]),), "not the group that was asked for")


async def misses_what_it_does_not_hold(trial: Trial) -> None:
    assert trial.offered is not None
    must((await trial.fetched(os.urandom(32), 0)).status == "missing", "a bundle that is nobody's")
    foreign = await trial.fetched(trial.offered.bundle_id, 0, swarm_id=os.urandom(32))
    must(foreign.status == "missing", "a bundle, asked for as another swarm's")


def _garbage() -> tuple[bytes, ...]:
    nested: object = 1
    for _ in range(40):
        nested = [nested]
    return b"", b"\xc1", os.urandom(40), msgpack.packb(nested), msgpack.packb({"swarm": 1})


async def answers_garbage_with_the_negative_answer_of_its_kind(trial: Trial) -> None:
    for garbage in _garbage():
        discover = await trial.asking.ask(wire.DISCOVER_PROTOCOL, garbage)
        must(not wire.decode_discover_response(discover).announcements, "garbage found something")
        fetch = await trial.asking.ask(wire.FETCH_PROTOCOL, garbage)
        must(wire.decode_fetch_response(fetch).status == "missing", "garbage fetched something")
        swarm = await trial.asking.ask(wire.SWARM_PROTOCOL, garbage)
        must(wire.decode_swarm_response(swarm).rules is None, "garbage was told the rules")


async def refuses_a_request_beyond_its_limit_unread(trial: Trial) -> None:
    for protocol, limit in (
        (wire.DISCOVER_PROTOCOL, wire.REQUEST_BYTES_MAX),
        (wire.OFFER_PROTOCOL, wire.RESPONSE_BYTES_MAX),
    ):
        announced = (limit + wire.SEAL_BYTES + 1).to_bytes(4, "big")
        try:
            await trial.asking.raw(protocol, announced + bytes(100))
        except NoAnswer:
            continue
        raise Broken(f"{protocol} answers a request of {limit + 1} bytes or more")


async def takes_a_request_in_pieces(trial: Trial) -> None:
    request = wire.encode_swarm_request(wire.SwarmRequest(trial.swarm_id))
    secret, asking = trial.asking.secret, trial.asking
    exchange = wire.Exchange(wire.SWARM_PROTOCOL, asking.own, asking.node)
    sealed = secret.seal_request(exchange, request) if secret else request
    answer = await asking.raw(wire.SWARM_PROTOCOL, framed(sealed), piece=1)
    opened = secret.open_response(exchange, sealed, answer) if secret else answer
    must(wire.decode_swarm_response(opened).rules == trial.rules_bytes, "another answer")


async def knows_no_protocol_that_does_not_exist(trial: Trial) -> None:
    try:
        await trial.asking.raw("/swarmnode/nothing/1", framed(b""))
    except NoAnswer:
        return
    raise Broken("it answers /swarmnode/nothing/1")


async def answers_what_does_not_open_with_nothing(trial: Trial) -> None:
    if trial.asking.secret is None:
        raise Skipped("the swarm is public")
    request = wire.encode_swarm_request(wire.SwarmRequest(trial.swarm_id))
    answer = await trial.asking.raw(wire.SWARM_PROTOCOL, framed(request))
    must(answer == b"", "an unsealed request had an answer")


async def hears_announcements_by_gossip(trial: Trial) -> None:
    topic = f"/swarmnode/announce/1/{trial.swarm_id.hex()}"
    made, secret = trial.maker.made(trial.own_key), trial.asking.secret
    data = made.announcement
    if secret is not None:
        topic = secret.place(topic)
        place_id = hashlib.sha1(msgpack.packb(topic), usedforsecurity=False).digest()
        data = secret.seal_record(place_id, secret.subkey(place_id, trial.asking.own), data)
    if not await trial.asking.told(topic, data):
        raise Skipped("it does not listen")
    must(await trial.knows(made.announcement), "it listens, and tells nobody of what it heard")


async def bears_what_is_no_announcement_as_gossip(trial: Trial) -> None:
    topic = f"/swarmnode/announce/1/{trial.swarm_id.hex()}"
    if trial.asking.secret is not None:
        raise Skipped("what is sealed is bound to its publisher")
    if not await trial.asking.told(topic, b"no announcement"):
        raise Skipped("it does not listen")
    await trial.discovered()


async def tries_back_whom_it_is_asked_to(trial: Trial) -> None:
    try:
        # Nobody listens on port 1.
        answer = await trial.asking.ask(DIAL_BACK, (1).to_bytes(2, "big"))
    except NoAnswer:
        raise Skipped("it does not serve dial-back") from None
    must(answer in (b"\x00", b""), f"it reached port 1: {answer!r}")


Check = Callable[[Trial], Awaitable[None]]

CHECKS: Mapping[str, Check] = {
    check.__name__.replace("_", " "): check
    for check in (
        tells_the_rules_to_who_knows_the_id,
        holds_what_it_is_offered,
        tells_of_what_it_holds,
        tells_only_of_fresh_announcements_of_its_swarm,
        serves_the_header_and_the_groups_that_are_asked_for,
        misses_what_it_does_not_hold,
        refuses_a_group_that_is_not_the_one_in_the_header,
        refuses_what_is_of_another_swarm,
        answers_garbage_with_the_negative_answer_of_its_kind,
        refuses_a_request_beyond_its_limit_unread,
        takes_a_request_in_pieces,
        knows_no_protocol_that_does_not_exist,
        answers_what_does_not_open_with_nothing,
        hears_announcements_by_gossip,
        bears_what_is_no_announcement_as_gossip,
        tries_back_whom_it_is_asked_to,
    )
}
