"""Staying connected: dialling for ever, pinging, finding out whether others can dial us.

Knows the supervised peer and the book of addresses, nothing of announcements. Bootstrap peers are
dialled even by nodes that have company: two halves of a swarm that started at once meet there.
Source: network.md §4, §6.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Collection, Sequence
from typing import Final

from swarmnode.clock import Clock
from swarmnode.network.addresses import is_near, tcp_part
from swarmnode.network.connections import Connection
from swarmnode.network.dialback import DIAL_BACK_PROTOCOL, RESPONSE_BYTES, Reachability
from swarmnode.network.peer import PeerUnreachable, peer_id_in
from swarmnode.network.saved_peers import DialBook, SavedPeers
from swarmnode.network.supervised import Patience, Supervised

WANTED_PEERS: Final = 16
"""From so many on only bootstrap peers are dialled without need."""
DIALS_AT_ONCE: Final = 4
PINGS_AT_ONCE: Final = 8
ASKED_AT_ONCE: Final = 3
PROVE_SECONDS_MAX: Final = 300.0
PINGS_MISSED_MAX: Final = 3
VOTES_TO_DEMOTE: Final = 3


class Connectedness:
    """Whom we are connected to; `run` must be running for that to get better.

    `assumed`: whether we take it that others can dial us while nobody has tried; `may_demote`:
    whether we believe VOTES_TO_DEMOTE who have tried in vain. Peers of our local networks are
    believed only while there are no others: who is behind the same router can dial us anyway.
    `heard` gives addresses out of announcements.
    """

    def __init__(
        self,
        peer: Supervised,
        *,
        book: DialBook,
        saved: SavedPeers,
        clock: Clock,
        rng: random.Random,
        assumed: bool,
        may_demote: bool,
        heard: Callable[[], Sequence[str]],
        patience: Patience | None = None,
    ) -> None:
        self._peer = peer
        self._book = book
        self._saved = saved
        self._clock = clock
        self._rng = rng
        self._assumed = assumed
        self._may_demote = may_demote
        self._heard = heard
        self._patience = patience or Patience()
        self._nearby = Reachability()
        self._outside = Reachability()

    @property
    def connected(self) -> Collection[str]:
        """Ids of the connected peers."""
        return self._peer.connections

    @property
    def reachable(self) -> bool | None:
        """Whether others can dial us; None while nobody has tried."""
        return self._found.proven

    @property
    def only_nearby(self) -> bool:
        """Whether nobody but peers of our local networks counts, since there are no others."""
        return self._found is self._nearby

    @property
    def reachable_nearby(self) -> bool:
        """Whether peers of our local networks have dialled us."""
        return self._nearby.proven is True

    @property
    def dialable(self) -> bool:
        """Whether our own addresses are for others: found so, or assumed until found otherwise."""
        proven = self._found.proven
        if proven is None or (
            not proven and (self._found.votes < VOTES_TO_DEMOTE or not self._may_demote)
        ):
            return self._assumed
        return proven

    def restarted(self) -> None:
        """Our peer is a new one: everything is due."""
        self._book.own_peer_id = self._peer.peer_id
        self._book.again_at_once(self._clock.now())

    async def run(self) -> None:
        """Dial, ping and ask to be dialled, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for keeping in (self._keep_dialling, self._keep_pinging, self._keep_proving):
                group.create_task(keeping())

    def moved(self) -> None:
        """Our peer has to listen elsewhere, so that it must be another one."""
        self._peer.renew("this machine's addresses have changed")

    async def meet(self, address: str) -> bool:
        """Connect to somebody who may be kept: dialled again after a loss and a restart."""
        if not await self.connect(address):
            return False
        self._book.add(address, "saved", self._clock.now())
        self._book.tried(address, True, self._clock.now())
        return True

    async def connect(self, address: str) -> bool:
        """Dial an address now, whatever the book says; whether we are connected to its peer."""
        peer_id = peer_id_in(address)
        connected = await self._peer.connect(address)
        now = self._clock.now()
        self._book.tried(address, connected, now)
        if connected:
            self._peer.connections.setdefault(peer_id, Connection(address, now))
        return connected

    def dialable_peers(self, count: int) -> Sequence[str]:
        """Addresses of connected peers that others can dial as well: good ones first."""
        addresses = list(self._book.dialable(self._peer.connections))
        self._rng.shuffle(addresses)
        good = set(self._saved.addresses)
        addresses.sort(key=lambda address: address not in good)
        by_peer: dict[str, str] = {}
        for address in addresses:
            by_peer.setdefault(peer_id_in(address), address)
        return list(by_peer.values())[:count]

    async def _keep_dialling(self) -> None:
        while True:
            connected = self._peer.connections
            enough = len(connected) >= WANTED_PEERS
            if not enough:
                now = self._clock.now()
                for address in self._heard():
                    self._book.add(address, "heard", now)
            due = self._book.due(self._clock.now(), connected, DIALS_AT_ONCE)
            dials = [dial for dial in due if dial.source == "bootstrap" or not enough]
            await asyncio.gather(*(self.connect(dial.address) for dial in dials))
            await self._clock.sleep(1.0)

    async def _keep_pinging(self) -> None:
        while True:
            await self._clock.sleep(self._patience.ping_every)
            known = list(self._peer.connections.items())
            chosen = self._rng.sample(known, min(len(known), PINGS_AT_ONCE))
            await asyncio.gather(*(self._ping(peer_id, each) for peer_id, each in chosen))

    async def _ping(self, peer_id: str, connection: Connection) -> None:
        answered = await self._peer.ping(peer_id)
        connection.missed_pings = 0 if answered else connection.missed_pings + 1
        bootstrap = any(dial.peer_id == peer_id for dial in self._book.of("bootstrap"))
        if connection.missed_pings >= PINGS_MISSED_MAX and bootstrap:
            # Connected, yet silent: a new connection is all that we can try.
            await self._peer.disconnect(peer_id)

    async def _keep_proving(self) -> None:
        while True:
            every = self._patience.prove_every * self._found.votes
            await self._clock.sleep(min(max(every, 2.0), PROVE_SECONDS_MAX))
            part = next(filter(None, map(tcp_part, self._peer.addresses)), None)
            connected = list(self._peer.connections)
            if part is None:
                continue
            asked = self._rng.sample(connected, min(len(connected), ASKED_AT_ONCE))
            await asyncio.gather(*(self._ask_back(peer_id, part[1]) for peer_id in asked))
            self._peer.become(server=self.dialable)

    async def _ask_back(self, peer_id: str, port: int) -> None:
        with contextlib.suppress(PeerUnreachable):
            answer = await self._peer.call(
                peer_id, DIAL_BACK_PROTOCOL, port.to_bytes(2), RESPONSE_BYTES, self._patience.dial
            )
            if answer:
                near = self._is_near(peer_id)
                (self._nearby if near else self._outside).vote(peer_id, answer == b"\x01")

    def _is_near(self, peer_id: str) -> bool:
        connection = self._peer.connections.get(peer_id)
        return connection is None or is_near(connection.address)

    @property
    def _found(self) -> Reachability:
        """What those have found whose word counts."""
        outside = self._outside.votes or not all(map(self._is_near, self._peer.connections))
        return self._outside if outside else self._nearby
