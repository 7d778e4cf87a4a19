"""One node's presence in one swarm: what its daemon may ask of the network process.

Brings together the supervised peer, the rendezvous, what is known and what is held. Knows no
hivemind and no channel to the daemon. Whatever comes from a peer was decoded under the limits of
swarmproto before it is looked at; whatever is served was verified. Source: DESIGN.md §4 and §5.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from swarmnode.clock import Clock
from swarmnode.network.addresses import direct_ones, is_near, relayed_ones
from swarmnode.network.belonging import Belonging
from swarmnode.network.connectedness import Connectedness
from swarmnode.network.dialback import (
    DIAL_BACK_PROTOCOL,
    REQUEST_BYTES,
    DialBack,
    Probe,
)
from swarmnode.network.doors import Doors
from swarmnode.network.errands import Errands
from swarmnode.network.exchange import Exchange
from swarmnode.network.gossip import Gossip
from swarmnode.network.known import Known, KnownAnnouncement
from swarmnode.network.lan import Lan
from swarmnode.network.peer import Handler, peer_id_in
from swarmnode.network.rendezvous import Pace, Rendezvous
from swarmnode.network.saved_peers import DialBook, SavedPeers
from swarmnode.network.serving import Serving
from swarmnode.network.shelf import Shelf
from swarmnode.network.supervised import Build, Patience, Supervised
from swarmproto import (
    BOOTSTRAP_ADDRESSES_MAX,
    HOLDERS_MAX,
    OFFER_PROTOCOL,
    REQUEST_BYTES_MAX,
    RESPONSE_BYTES_MAX,
    Bundle,
    OfferRequest,
    encode_offer_request,
    open_header,
    public_key_of,
    verify_group,
)

OWN_QUOTA_BYTES: Final = 64 * 1024 * 1024
OFFERED_TO: Final = 3
"""Peers that hold our bundles when nobody can dial us."""
OWN_ADDRESSES: Final = 4
HEARD_AT_ONCE: Final = 8
RUDE_LOOK_SECONDS: Final = 0.25


class Membership:
    """Joins with `start`; `run` must be running from then on; `close` leaves."""

    def __init__(
        self,
        belonging: Belonging,
        build: Build,
        *,
        doors: Doors,
        clock: Clock,
        rng: random.Random,
        probe: Probe,
        pace: Pace | None = None,
        patience: Patience | None = None,
        lan: Lan | None = None,
    ) -> None:
        """`lan` finds others on the local network, where that is wanted."""
        self._belonging = belonging
        self._clock = clock
        self._rng = rng
        self.doors = doors
        self.known = Known(belonging.swarm_id, clock, prefix_of=doors.whereabouts.prefix_of)
        self.shelf = Shelf(clock, quota_bytes=OWN_QUOTA_BYTES)
        self.saved = SavedPeers(belonging.saved_peers)
        self.book = DialBook()
        for address in belonging.bootstrap:
            self.book.add(address, "bootstrap", clock.now())
        for address in belonging.saved_peers:
            self.book.add(address, "saved", clock.now())
        self.serving = Serving(
            swarm_id=belonging.swarm_id,
            rules=belonging.rules,
            rules_bytes=belonging.rules_bytes,
            bootstrap=self._begin_at,
            known=self.known,
            shelf=self.shelf,
            clock=clock,
            rng=rng,
            doors=doors,
        )
        self.sealing = belonging.sealing
        self.lan = lan
        self.peer = Supervised(
            self.sealing.around(build) if self.sealing else build,
            clock=clock,
            server=belonging.assumed_dialable,
            restored=self._restored,
            whereabouts=doors.whereabouts,
            patience=patience,
        )
        self.company = Connectedness(
            self.peer,
            book=self.book,
            saved=self.saved,
            clock=clock,
            rng=rng,
            assumed=belonging.assumed_dialable,
            may_demote=belonging.may_demote,
            heard=self._heard,
            patience=patience,
        )
        self.errands = Errands(self.peer, self.company, doors, self.sealing, belonging.bootstrap)
        self.gossip = Gossip(
            swarm_id=belonging.swarm_id,
            peer=self.peer,
            known=self.known,
            doors=doors,
            clock=clock,
            size=self.swarm_size,
        )
        self.rendezvous = Rendezvous(
            swarm_id=belonging.swarm_id,
            public_key=public_key_of(belonging.private_key),
            peer=self.peer,
            known=self.known,
            clock=clock,
            rng=rng,
            refused=self.errands.avoids,
            pace=pace,
            tell=self.gossip.publish,
        )
        self._exchange = Exchange(
            swarm_id=belonging.swarm_id,
            peer=self.peer,
            book=self.book,
            clock=clock,
            rng=rng,
            avoids=self.errands.avoids,
            may_dial=self.errands.may_dial,
        )
        dial_back = DialBack(self.peer.connected, doors.tries, probe, self._exchange.shown)
        self._serve_all(dial_back)

    async def start(self) -> None:
        """Start the peer; raises what building it raises."""
        await self.peer.start()

    async def run(self) -> None:
        """Stay in the swarm, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.peer.run())
            group.create_task(self.company.run())
            group.create_task(self.rendezvous.run())
            group.create_task(self.gossip.run())
            group.create_task(self._exchange.run())
            group.create_task(self._hang_up_on_the_rude())
            if self.lan is not None:
                group.create_task(self.lan.run(self.company))

    async def close(self) -> None:
        """Leave; no process stays behind."""
        await self.rendezvous.close()
        await self.peer.close()

    async def announce(
        self, announcement: bytes, header_bytes: bytes, groups: Sequence[bytes], expires: float
    ) -> tuple[bool, Sequence[str]]:
        """Hold a bundle of ours, offer it to the other holders named, make it known.

        Whether another peer acknowledged it, and the addresses that hold it. Raises WireError
        where header and groups are not what they should be.
        """
        header = open_header(header_bytes, self._belonging.swarm_id)
        bundle = Bundle(header, header_bytes, tuple(groups))
        for position, group in enumerate(groups):
            verify_group(header, position, group)
        self.shelf.put(bundle, expires)
        adopted = self.rendezvous.adopt(announcement)
        if adopted is None:
            return False, []
        others = [
            holder
            for holder in adopted.holders
            if peer_id_in(holder) not in ("", self.peer.peer_id)
        ]
        request = encode_offer_request(OfferRequest(announcement, header_bytes, tuple(groups)))
        held = await asyncio.gather(*(self.errands.offer(holder, request) for holder in others))
        acknowledged = await self.rendezvous.announce(adopted)
        return acknowledged, [holder for holder, ok in zip(others, held, strict=True) if ok]

    async def hold(
        self,
        announcement: bytes,
        header_bytes: bytes,
        groups: Mapping[int, bytes],
        expires: float,
    ) -> None:
        """Hold for others what our daemon admitted. Raises WireError on what it can't have."""
        header = open_header(header_bytes, self._belonging.swarm_id)
        for position, group in groups.items():
            verify_group(header, position, group)
        self.known.learn(announcement, "")
        self.shelf.relay(header, header_bytes, groups, expires)

    async def discover(self, count: int) -> Sequence[KnownAnnouncement]:
        """At most `count` fresh announcements of others, rather new ones."""
        return await self.rendezvous.discover(count)

    async def fetch(self, holder: str, request: bytes) -> bytes:
        """See Errands."""
        return await self.errands.fetch(holder, request)

    async def prefixes_of(self, peer_ids: Sequence[str]) -> Sequence[str]:
        """The address prefixes of peers, by the connections that p2pd has to them."""
        if any(peer_id not in self.peer.connections for peer_id in peer_ids):
            await self.peer.look()
        return list(map(self.doors.whereabouts.prefix_of, peer_ids))

    def holders(self) -> Sequence[str]:
        """Addresses for the next announcement: ours, or those of peers that we shall offer to."""
        # Who has an address by way of a relay was found to be out of reach.
        if self.company.dialable and not relayed_ones(self.peer.addresses):
            return self._own_addresses()[:HOLDERS_MAX]
        others = self.company.dialable_peers(len(self.peer.connections))
        asked = [each for each in others if not self.errands.avoids(peer_id_in(each))]
        offered = asked[:OFFERED_TO]
        # Those on our local network can come for it themselves; a relay is for want of others.
        near = filter(is_near, self._own_addresses()) if self.company.reachable_nearby else ()
        relayed = relayed_ones(self.peer.addresses)[: OFFERED_TO - len(offered)]
        return [*offered, *near, *relayed][:HOLDERS_MAX]

    def swarm_size(self) -> float:
        """Nodes in the swarm, by an estimate: at least those that we hear of."""
        return max(self.rendezvous.estimate.value, float(len(self.known.authors())))

    def good_peer(self, address: str) -> None:
        """Remember a peer for the next start, where its address is one that we would dial."""
        if self.errands.may_dial(address):
            self.saved.good(address)

    async def bad_peer(self, peer_id: str, seconds: float) -> None:
        """Neither serve nor ask a peer for a while, forget its addresses, and hang up."""
        self.saved.bad(peer_id)
        self.book.forget(peer_id)
        self.doors.refuse(peer_id, seconds)
        await self.peer.disconnect(peer_id)

    def saved_peers(self) -> Sequence[str]:
        """What to dial at the next start: good peers, then others that were dialled."""
        dialled = self.book.dialable(self.peer.connections)
        return list(dict.fromkeys([*self.saved.addresses, *dialled]))[:50]

    def _serve_all(self, dial_back: DialBack) -> None:
        for protocol, answer in self.serving.handlers.items():

            async def handler(peer_id: str, request: bytes, answer: Any = answer) -> bytes:
                response: bytes = answer(peer_id, request)
                return response

            limit = RESPONSE_BYTES_MAX if protocol == OFFER_PROTOCOL else REQUEST_BYTES_MAX
            self.peer.serve(protocol, handler, limit)
        answer_back: Handler = dial_back.answer
        self.peer.serve(DIAL_BACK_PROTOCOL, answer_back, REQUEST_BYTES)

    async def _hang_up_on_the_rude(self) -> None:
        while True:
            await self._clock.sleep(RUDE_LOOK_SECONDS)
            for peer_id in self.doors.rude():
                await self.peer.disconnect(peer_id)

    def _heard(self) -> Sequence[str]:
        entries = self.known.sample(HEARD_AT_ONCE, self._rng)
        holders = (holder for entry in entries for holder in entry.announcement.holders[:2])
        return [holder for holder in holders if self.errands.may_dial(holder)]

    def _begin_at(self) -> Sequence[str]:
        """Where somebody who knows us may begin: here, at our bootstrap peers, and, where that may
        be told, at good ones and at those who have shown that they can be dialled."""
        own = self._own_addresses() if self.company.dialable else ()
        good = filter(self.errands.may_dial, self.saved.addresses)
        known = [*self._belonging.bootstrap, *good]
        addresses = [*own, *known, *self._exchange.dialable()]
        return list(dict.fromkeys(addresses))[:BOOTSTRAP_ADDRESSES_MAX]

    def _own_addresses(self) -> Sequence[str]:
        return direct_ones(self.peer.addresses)[:OWN_ADDRESSES]

    def _restored(self) -> None:
        self.company.restarted()
        if self.lan is not None:
            self.lan.again()
        self.rendezvous.restored()
