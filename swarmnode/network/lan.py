"""Finding others of the swarm on the local network, and being found, without any address given.

Asks by multicast who is there, answers those who ask, and dials who was named. Knows no hivemind;
links and interfaces are passed in. A node is dialled at the address that its message came from and
nowhere else, so that nobody can send us against third parties; the handshake proves its id. Peers
that were reached are known like any other from then on. Source: RFC 6762 and 6763; decision 0031.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from swarmnode.clock import Clock
from swarmnode.network.lan_links import Link, OpenLink
from swarmnode.network.neighbours import Neighbour, Neighbours
from swarmnode.network.premises import Place, Premises

if TYPE_CHECKING:  # a node that looks for nobody does without zeroconf
    from swarmnode.network.lan_messages import Language

LOOK_SECONDS: Final = 3.0
"""From one look at the interfaces to the next; what is new has to be there for two."""
ASLEEP_SECONDS: Final = 20.0
"""A look that comes so much too late: the machine has slept."""
FIRST_ASK_SECONDS: Final = 1.0
LAST_ASK_SECONDS: Final = 60.0
"""Until the second question, and between the later ones; the waits between double."""
ANSWER_DELAY_SECONDS: Final = (0.02, 0.12)
"""Drawn for each answer, so that not all answer at once (RFC 6762, 6)."""
ANSWER_SECONDS: Final = 1.0
"""Between two answers on one link, whoever asks."""
DIALS_AT_ONCE: Final = 8
DIAL_SECONDS: Final = 4.0
GREET_SECONDS: Final = 0.5

log = structlog.get_logger()


class Company(Protocol):
    """Whom we are connected to; see Connectedness."""

    @property
    def connected(self) -> Collection[str]:
        """Ids of the connected peers."""

    async def meet(self, address: str, /) -> bool:
        """Dial, and keep the address if its peer is there; whether it is."""

    def moved(self) -> None:
        """Our peer has to listen elsewhere."""


class Lan:
    """One membership's presence on the local network; `run` must be running."""

    def __init__(
        self,
        *,
        peer_id: str,
        language: Language,
        premises: Premises,
        open_link: OpenLink,
        probe: Callable[[str, int], Awaitable[bool]],
        clock: Clock,
        rng: random.Random,
    ) -> None:
        """`probe` tells whether libp2p is spoken at an address and port."""
        self._peer_id = peer_id
        self._language = language
        self._premises = premises
        self._open_link = open_link
        self._probe = probe
        self._clock = clock
        self._rng = rng
        self._company: Company | None = None
        self._links: dict[Place, Link] = {}
        self._answered: dict[Place, float] = {}
        self._ask_at = 0.0
        self._ask_wait = FIRST_ASK_SECONDS
        self._dropped: Counter[str] = Counter()
        self._errors: dict[Place, str] = {}
        self.neighbours = Neighbours(rng)

    async def run(self, company: Company) -> None:
        """Find and be found, until cancelled."""
        self._company = company
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_looking(company))
                group.create_task(self._keep_asking())
                group.create_task(self._keep_greeting(company))
        finally:
            self._close_links()

    def again(self) -> None:
        """Our peer is a new one, perhaps at other addresses: everything is due."""
        self.neighbours.again_at_once()
        self._ask_at, self._ask_wait = 0.0, FIRST_ASK_SECONDS

    def told(self, connected: Collection[str]) -> dict[str, Any]:
        """How it stands, in plain values."""
        dropped = self._dropped + sum((each.counts for each in self._links.values()), Counter())
        return {
            "addresses": [
                f"{place.host}:{self._premises.port}"
                for place in self._premises.listened
                if place in self._links
            ],
            "connected": self.neighbours.reached(connected),
            "error": "; ".join(self._errors.values()) or self._without_links(),
            "counts": dict(self.neighbours.counts + dropped),
        }

    def _without_links(self) -> str:
        return "" if self._links else "this machine is on no local network"

    async def _keep_looking(self, company: Company) -> None:
        looked, moved = self._clock.now(), False
        self._open_links(self._premises.present())
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            before, looked = looked, self._clock.now()
            present = self._premises.present()
            if looked - before > LOOK_SECONDS + ASLEEP_SECONDS:
                log.info("awake again: looking around anew")
                self._close_links()
            if set(present) != {*self._links, *self._errors} or self._errors:
                self._open_links(present)
            moved, before_moved = self._premises.moved, moved
            if moved and before_moved:
                log.info("other addresses", hosts=[place.host for place in present])
                company.moved()
                moved = False

    def _open_links(self, present: Collection[Place]) -> None:
        """Be on the links of these places alone, and begin to ask anew where one of them is new."""
        for place in [place for place in self._links if place not in present]:
            self._close(place)
        self._errors = {}
        for place in present:
            if place in self._links:
                continue
            try:
                self._links[place] = self._open_link(place, self._hearing(place))
            except OSError as error:
                self._errors[place] = f"{place.interface}: {error.strerror or error}"
                continue
            self.again()

    def _close_links(self) -> None:
        for place in list(self._links):
            self._close(place)

    def _close(self, place: Place) -> None:
        link = self._links.pop(place)
        self._dropped += link.counts
        link.close()

    async def _keep_asking(self) -> None:
        """Ask, and say that we are there, as often; what is lost on the air comes again."""
        while True:
            now = self._clock.now()
            # A clock that was set back must not keep us silent.
            if not 0 < self._ask_at - now <= LAST_ASK_SECONDS:
                for place in self._links:
                    self._links[place].say(self._language.question())
                    self._answer(place)
                self._ask_at = now + self._ask_wait
                self._ask_wait = min(2 * self._ask_wait, LAST_ASK_SECONDS)
            await self._clock.sleep(GREET_SECONDS)

    def _hearing(self, place: Place) -> Callable[[bytes, str], None]:
        def hear(message: bytes, host: str) -> None:
            heard = self._language.heard(message)
            if heard.asked:
                delay = self._rng.uniform(*ANSWER_DELAY_SECONDS)
                asyncio.get_running_loop().call_later(delay, self._answer, place)
            for seen in heard.seen:
                assert self._company is not None
                if seen.peer_id != self._peer_id and seen.peer_id not in self._company.connected:
                    self.neighbours.told(seen.peer_id, host, seen.port, self._clock.now())

        return hear

    def _answer(self, place: Place) -> None:
        """Say where our peer listens on this link, unless that was just done."""
        now = self._clock.now()
        link = self._links.get(place)
        if link is None or place not in self._premises.listened:
            return
        if not 0 <= now - self._answered.get(place, now - ANSWER_SECONDS) < ANSWER_SECONDS:
            self._answered[place] = now
            link.say(self._language.answer(self._peer_id, place.host, self._premises.port))

    async def _keep_greeting(self, company: Company) -> None:
        while True:
            now = self._clock.now()
            due = self.neighbours.due(now, company.connected, DIALS_AT_ONCE)
            await asyncio.gather(*(self._greet(each, company) for each in due))
            await self._clock.sleep(GREET_SECONDS)

    async def _greet(self, neighbour: Neighbour, company: Company) -> None:
        reached = False
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                reached = await self._probe(neighbour.host, neighbour.port)
                reached = reached and await company.meet(neighbour.address)
        except TimeoutError:
            reached = False
        self.neighbours.tried(neighbour, reached, self._clock.now())
