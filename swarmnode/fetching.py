"""Fetching the groups of one announced bundle, from as many of its holders as it takes.

The second stage of admission: what a holder answers is verified to the last group, and everything
refused is counted for whom it concerns. Scoring and pooling are the caller's.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from swarmnode.clock import Clock
from swarmnode.conduct import Conduct, peer_at
from swarmnode.keys import peer_id_of
from swarmnode.network.transport import Transport, TransportError
from swarmnode.selection.admission import AdmissionRules, Concerned, Reason, Refused
from swarmnode.selection.bundles import Opened, open_answer
from swarmnode.selection.remembered import Remembered
from swarmnode.types import Group
from swarmnode.wire import received_group
from swarmproto import Announcement, FetchRequest, FetchResponse

FETCHES_AT_ONCE = 4
PROMPT_SECONDS = 2.0
"""After so long a fetch gives its place to another, so that slow holders keep nobody else's groups
away; it is waited for all the same, unless many are."""
SLOW_FETCHES = 8
"""So many fetches are waited for that take longer, one of a holder."""

HOLDERS_TRIED = 3
"""Holders of a bundle that are asked for it: a stranger may name eight that never answer."""

TRYING_SECONDS = 5.0
"""After so long in a look nobody is asked for what a first holder didn't give."""


@dataclass(frozen=True, slots=True)
class Received:
    """Groups that one holder served, verified, by position."""

    holder: str
    opened: Opened
    groups: Mapping[int, Group]


Take = Callable[[Announcement, Received], Awaitable[None]]


class Fetching:
    """One node's fetches; groups and bytes go into `counts`.

    At most FETCHES_AT_ONCE at a time, and SLOW_FETCHES that take long.
    """

    def __init__(
        self,
        *,
        own_name: str,
        rules: AdmissionRules,
        transport: Transport,
        conduct: Conduct,
        remembered: Remembered,
        clock: Clock,
        rng: random.Random,
        counts: Counter[str],
    ) -> None:
        self._own_name = own_name
        self._rules = rules
        self._transport = transport
        self._conduct = conduct
        self._remembered = remembered
        self._clock = clock
        self._rng = rng
        self._slots = asyncio.Semaphore(FETCHES_AT_ONCE)
        self._slow: set[str] = set()
        """Holders that are waited for beyond PROMPT_SECONDS."""
        self._counts = counts

    def in_order(self, holders: Sequence[str]) -> Sequence[str]:
        """Each once, in random order, ourselves last."""
        distinct = list(dict.fromkeys(holders))
        order = self._rng.sample(distinct, len(distinct))
        return sorted(order, key=lambda holder: peer_at(holder) == self._own_name)

    async def fetch(
        self,
        announcement: Announcement,
        positions: Sequence[int],
        holders: Sequence[str],
        take: Take,
    ) -> None:
        """Fetch groups of one bundle, and hand over what each holder gave, `take` after `take`."""
        left, tried, until = set(positions), 0, self._clock.now() + TRYING_SECONDS
        for holder in holders:
            peer = peer_at(holder)
            async with _Place(self._slots) as place:
                if tried == HOLDERS_TRIED or (tried and self._clock.now() > until):
                    return
                if self._conduct.muted(peer):
                    continue
                tried += 1
                try:
                    received = await self._ask(announcement, sorted(left), holder, place)
                except Refused as refusal:
                    self._conduct.drop(refusal, peer)
                    if refusal.reason.concerns is Concerned.AUTHOR:
                        return
                    continue
            left.difference_update(received.opened.group_bytes)
            await take(announcement, received)
            if not left:
                return
            self._conduct.drop(Refused(Reason.MISSING), peer)
        if not tried:
            self._conduct.drop(Refused(Reason.MUTED if holders else Reason.UNREACHABLE))

    async def _ask(
        self, announcement: Announcement, positions: Sequence[int], holder: str, place: _Place
    ) -> Received:
        """What one holder answers. Raises Refused where nothing is usable."""
        request = FetchRequest(self._rules.swarm_id, announcement.bundle_id, tuple(positions))
        try:
            response = await self._response(holder, request, place)
        except TransportError as error:
            raise Refused(Reason.UNREACHABLE) from error
        # Nothing is awaited from here on, so that no bundle is judged by what is outdated.
        author, now = announcement.public_key, self._clock.now()
        sizes = [len(data) for _, data in response.groups]
        self._counts.update(fetched=len(sizes), fetched_bytes=sum(sizes))
        if self._conduct.muted(peer_id_of(author)):
            raise Refused(Reason.MUTED, author)
        window = self._remembered.window(author)
        opened = open_answer(announcement, response, positions, window, self._rules, now)
        bundle = (author, opened.header.sequence, announcement.bundle_id)
        if self._remembered.of_an_earlier_life(*bundle):
            raise Refused(Reason.GROUP_REPEATED, author)
        self._remembered.accept(*bundle)
        self._conduct.quality.note(
            peer_id_of(author), now, fetched=len(opened.groups) + len(opened.left_out)
        )
        for refusal in opened.left_out:
            self._conduct.drop(refusal)
        groups = {
            position: received_group(record, opened.header)
            for position, record in opened.groups.items()
        }
        new = {position: group for position, group in groups.items() if self._spend(group)}
        return Received(holder, opened, new)

    async def _response(self, holder: str, request: FetchRequest, place: _Place) -> FetchResponse:
        """Raises TransportError, and Refused where the holder or too many others are slow."""
        peer = peer_at(holder)
        if peer in self._slow:
            raise Refused(Reason.BUSY)
        asked = asyncio.ensure_future(self._transport.fetch(holder, request))
        try:
            await asyncio.wait([asked], timeout=PROMPT_SECONDS)
            if asked.done():
                return asked.result()
            place.leave()
            if peer in self._slow or len(self._slow) >= SLOW_FETCHES:
                raise Refused(Reason.BUSY)
            self._slow.add(peer)
            try:
                return await asked
            finally:
                self._slow.discard(peer)
        finally:
            asked.cancel()

    def _spend(self, group: Group) -> bool:
        """A key may answer each index of its stream once."""
        question = group.question
        new = self._remembered.spend(group.publisher, question.task, question.level, question.index)
        if not new:
            self._conduct.drop(Refused(Reason.GROUP_REPEATED, group.publisher))
        return new


class _Place:
    """One of the places of a semaphore, which may be left early."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._held = False

    async def __aenter__(self) -> _Place:
        await self._places.acquire()
        self._held = True
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Let another have it; once is enough."""
        if self._held:
            self._held = False
            self._places.release()
