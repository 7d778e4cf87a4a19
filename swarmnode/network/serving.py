"""The four protocols that every node serves: request bytes in, response bytes out.

Knows no sockets. A handler never raises, whatever it is given: bytes that break the protocol get
the negative answer of its kind, and everything is counted by reason. Peers that ask too much hear
`busy`, `full` or nothing; nothing leaves that was not verified. Source: protocol/README.md, 10.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from swarmnode.clock import Clock
from swarmnode.network.allowance import BytesByPeer
from swarmnode.network.doors import Doors
from swarmnode.network.known import Known
from swarmnode.network.offers import OfferRefused, opened_offer
from swarmnode.network.shelf import Shelf
from swarmproto import (
    BOOTSTRAP_ADDRESSES_MAX,
    DISCOVER_PROTOCOL,
    FETCH_PROTOCOL,
    OFFER_PROTOCOL,
    SWARM_PROTOCOL,
    DiscoverResponse,
    FetchResponse,
    OfferResponse,
    OfferStatus,
    SwarmResponse,
    SwarmRules,
    WireError,
    decode_discover_request,
    decode_fetch_request,
    decode_offer_request,
    decode_swarm_request,
    encode_discover_response,
    encode_fetch_response,
    encode_offer_response,
    encode_swarm_response,
)

_MISSING: Final = FetchResponse("missing", None, ())
_BUSY: Final = FetchResponse("busy", None, ())
_OFFER_STATUSES: Final[Mapping[str, OfferStatus]] = {"held": "held", "full": "full"}


class Serving:
    """The answers of one node; `rules` are its swarm's, none while it has yet to ask for them."""

    def __init__(
        self,
        *,
        swarm_id: bytes,
        rules: SwarmRules | None,
        rules_bytes: bytes,
        bootstrap: Callable[[], Sequence[str]],
        known: Known,
        shelf: Shelf,
        clock: Clock,
        rng: random.Random,
        doors: Doors,
    ) -> None:
        self._swarm_id = swarm_id
        self._rules = rules
        self._rules_bytes = rules_bytes
        self._bootstrap = bootstrap
        self._known = known
        self._shelf = shelf
        self._clock = clock
        self._rng = rng
        self._doors = doors
        self.counts: Counter[str] = Counter()
        """Answers by PROTOCOL/OUTCOME, where an outcome is a status or the reason of a refusal."""
        self.served = BytesByPeer()
        """Bytes of bundles that left."""

    @property
    def handlers(self) -> Mapping[str, Callable[[str, bytes], bytes]]:
        """By protocol id: the answer to a peer's request."""
        return {
            DISCOVER_PROTOCOL: self.discover,
            FETCH_PROTOCOL: self.fetch,
            OFFER_PROTOCOL: self.offer,
            SWARM_PROTOCOL: self.swarm,
        }

    def discover(self, peer_id: str, request: bytes) -> bytes:
        """Fresh announcements, a random choice; none to those who may ask nothing now."""
        chosen: tuple[bytes, ...] = ()
        if self._admitted("discover", peer_id):
            try:
                asked = decode_discover_request(request)
            except WireError as error:
                self.counts[f"discover/{error.reason.value}"] += 1
            else:
                if asked.swarm_id == self._swarm_id:
                    entries = self._known.sample(asked.count, self._rng)
                    chosen = tuple(entry.announcement.encoded for entry in entries)
                self.counts["discover/ok"] += 1
        return encode_discover_response(DiscoverResponse(chosen))

    def fetch(self, peer_id: str, request: bytes) -> bytes:
        """A header and groups that are held, or `missing`; `busy` when too much is asked."""
        if not self._admitted("fetch", peer_id):
            return encode_fetch_response(_BUSY)
        try:
            response = self._shelf.answer(decode_fetch_request(request))
        except WireError as error:
            self.counts[f"fetch/{error.reason.value}"] += 1
            return encode_fetch_response(_MISSING)
        size = len(response.header_bytes or b"") + sum(len(group) for _, group in response.groups)
        if not self._doors.bytes.spend(peer_id, size):
            response = _BUSY
        elif size:
            self.served.add(peer_id, size)
        self.counts[f"fetch/{response.status}"] += 1
        return encode_fetch_response(response)

    def offer(self, peer_id: str, request: bytes) -> bytes:
        """Verify a peer's bundle to the last group, then hold it until it expires."""
        outcome, until = self._offered(peer_id, request)
        self.counts[f"offer/{outcome}"] += 1
        status = _OFFER_STATUSES.get(outcome, "refused")
        return encode_offer_response(OfferResponse(status, until))

    def swarm(self, peer_id: str, request: bytes) -> bytes:
        """The rules of our swarm and addresses to begin with, to those who know its id."""
        response = SwarmResponse(None, ())
        if self._admitted("swarm", peer_id):
            try:
                if (
                    self._rules is not None
                    and decode_swarm_request(request).swarm_id == self._swarm_id
                ):
                    addresses = tuple(self._bootstrap())[:BOOTSTRAP_ADDRESSES_MAX]
                    response = SwarmResponse(self._rules_bytes, addresses)
                self.counts["swarm/ok" if response.rules else "swarm/unknown"] += 1
            except WireError as error:
                self.counts[f"swarm/{error.reason.value}"] += 1
        return encode_swarm_response(response)

    def _offered(self, peer_id: str, request: bytes) -> tuple[str, int]:
        if self._doors.refuses(peer_id) or self._rules is None:
            return "peer_refused" if self._rules else "rules_unknown", 0
        if not self._doors.offers.spend(peer_id, 1.0):
            return "full", 0
        try:
            asked = decode_offer_request(request)
            now = self._clock.now()
            announcement, bundle = opened_offer(asked, self._swarm_id, self._rules, now)
        except WireError as error:
            return error.reason.value, 0
        except OfferRefused as error:
            return error.reason, 0
        if not self._shelf.offer(bundle, announcement.expires / 1000, peer_id):
            return "full", 0
        self._known.learn(announcement.encoded, peer_id)
        return "held", announcement.expires

    def _admitted(self, protocol: str, peer_id: str) -> bool:
        if self._doors.refuses(peer_id):
            self.counts[f"{protocol}/peer_refused"] += 1
            return False
        if not self._doors.calls.spend(peer_id, 1.0):
            self.counts[f"{protocol}/busy"] += 1
            return False
        return True
