"""Collecting, beside the rounds: discover → fetch → admission → regenerate and score → pool.

Everything that is dropped is counted under its reason, and for the peer that the reason concerns;
muted peers are neither listened to nor fetched from. Nothing of a peer's is trusted: claims in
announcements only decide what is fetched first. Bundles are fetched beside each other, and each is
scored as soon as it is there: a slow holder delays nobody else's groups.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from swarmnode.clock import Clock
from swarmnode.keys import peer_id_of
from swarmnode.network.peer import peer_id_in
from swarmnode.network.transport import Delivered, Transport, TransportError
from swarmnode.selection.admission import (
    AdmissionRules,
    Concerned,
    Reason,
    Refused,
    open_delivered,
    wanted_positions,
)
from swarmnode.selection.budget import Wanted, groups_of, within_budget
from swarmnode.selection.bundles import Opened, open_answer
from swarmnode.selection.pool import Pool
from swarmnode.selection.remembered import Remembered
from swarmnode.selection.standing import Standing
from swarmnode.selection.twins import Twins
from swarmnode.selection.weight import cut
from swarmnode.types import Group, Scored
from swarmnode.wire import received_group
from swarmproto import COMPLETIONS_MAX, Announcement, FetchRequest

FETCHES_AT_ONCE = 4
HOLDERS_TRIED = 3
"""Holders of a bundle that are asked for it: a stranger may name eight that never answer."""

TRYING_SECONDS = 5.0
"""After so long in a look nobody is asked for what a first holder didn't give."""

FULL_SECONDS = 30.0
"""From look to look while the pool is full: the network process makes one in that time anyway."""

BYTES_PER_LOOK = 8 * 1024 * 1024
"""Bytes that a look fetches at most, by what is announced."""


class ExternalRewards(Protocol):
    """Regenerates and scores peers' groups."""

    async def score_external(
        self, groups: Sequence[Group], prefix: str
    ) -> tuple[Sequence[Scored], Sequence[Reason]]:
        """The groups that hold, scored, with their regenerated questions; reasons of the others.

        Both in the order of `groups`, which are of one author, connected to us from `prefix`.
        """


@dataclass(frozen=True, slots=True)
class Notices:
    """Whom the collector tells of what; each is called at once and must not raise."""

    duplicate: Callable[[bytes, float], None] = lambda _instance, _started_seconds: None
    """Our key is used by another instance too, which began at that moment in seconds since 1970,
    or before; told again where an earlier moment becomes known."""
    muted: Callable[[str, float], None] = lambda _peer, _seconds: None
    """A peer is muted for so many seconds: hang up and refuse it."""
    served: Callable[[str], None] = lambda _holder: None
    """The holder at this address served groups that were admitted."""


@dataclass(frozen=True, slots=True)
class _Received:
    """Groups that one holder served, verified, by position."""

    holder: str
    opened: Opened
    groups: Mapping[int, Group]


class Collector:
    """One node's incoming side; `run` must be running for anything to come in."""

    def __init__(
        self,
        *,
        own_key: bytes,
        rules: AdmissionRules,
        transport: Transport,
        rewards: ExternalRewards,
        pool: Pool,
        clock: Clock,
        rng: random.Random,
        every_seconds: float,
        discover_count: int,
        groups_per_look: int,
        own_instance: bytes | None = None,
        completions_kept: int = COMPLETIONS_MAX,
        standing: Standing | None = None,
        remembered: Remembered | None = None,
        notices: Notices | None = None,
    ) -> None:
        self._own_key = own_key
        self._own_name = peer_id_of(own_key)
        self._rules = rules
        self._transport = transport
        self._rewards = rewards
        self._pool = pool
        self._clock = clock
        self._rng = rng
        self._every_seconds = every_seconds
        self._discover_count = discover_count
        self._groups_per_look = groups_per_look
        self._completions_kept = completions_kept
        self._notices = notices or Notices()
        self._twins = Twins(own_key, own_instance)
        self._stopped = False
        self._looked = clock.now()
        self._slots = asyncio.Semaphore(FETCHES_AT_ONCE)
        self.standing = Standing() if standing is None else standing
        self.remembered = Remembered() if remembered is None else remembered
        self.dropped: Counter[Reason] = Counter()
        """What was dropped since the start, by reason."""
        self.counts: Counter[str] = Counter()
        """Groups and bytes fetched, groups admitted."""

    async def run(self) -> None:
        """Look for groups again and again, until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(self._every_seconds)

    def stop(self) -> None:
        """Take nothing of peers any more, what is under way included; what was pooled goes."""
        self._stopped = True
        self._pool.clear()

    async def look(self) -> None:
        """One look: discover, fetch what is worth having, admit, score, pool.

        Nothing is fetched while the pool is full, since nobody would train on it: all that is
        looked for then, and seldom, is another node with our key. Raises what the rewards raise.
        """
        now = self._clock.now()
        self._pool.fresh(now)
        full = self._pool.room == 0
        if self._stopped or (full and 0 <= now - self._looked < FULL_SECONDS):
            return
        self._looked = now
        delivered = await self._transport.discover(self._discover_count)
        if full:
            self._note_own_among(delivered)
            return
        found = self._worth_fetching(delivered)
        budget = min(self._pool.room, self._groups_per_look)
        chosen = within_budget(found, groups=budget, announced_bytes=BYTES_PER_LOOK, rng=self._rng)
        if left := groups_of(found) - groups_of(chosen):
            self.dropped[Reason.OVER_BUDGET] += left
        try:
            async with asyncio.TaskGroup() as tasks:
                for announcement, positions in chosen:
                    holders = self._in_order(announcement.holders)
                    tasks.create_task(self._collect(announcement, positions, holders))
        except ExceptionGroup as group:
            # The scorer that is lost is what the caller knows how to handle, not the group.
            raise group.exceptions[0] from None

    def _worth_fetching(self, delivered: Sequence[Delivered]) -> list[Wanted]:
        found: list[Wanted] = []
        for each in delivered:
            try:
                if wanted := self._judged(each):
                    found.append(wanted)
            except Refused as refusal:
                self._drop(refusal, each.peer)
        return found

    def _judged(self, delivered: Delivered) -> Wanted | None:
        """The first stage: what is worth fetching, if it is new. Raises Refused."""
        if self._muted(delivered.peer):
            raise Refused(Reason.MUTED)
        if not self.remembered.first_sight(delivered.data):
            return None
        announcement = open_delivered(delivered.data, self._rules.swarm_id)
        if announcement.public_key == self._own_key:
            self._note_own(announcement)
            return None
        if self._muted(peer_id_of(announcement.public_key)):
            raise Refused(Reason.MUTED, announcement.public_key)
        return announcement, wanted_positions(announcement, self._rules, self._clock.now())

    def _note_own(self, announcement: Announcement) -> None:
        if (began := self._twins.noted(announcement, self._clock.now())) is not None:
            self._notices.duplicate(announcement.instance, began / 1000)

    def _note_own_among(self, delivered: Sequence[Delivered]) -> None:
        """Without remembering the others, which may be worth fetching as soon as there is room."""
        for each in delivered:
            with contextlib.suppress(Refused):
                announcement = open_delivered(each.data, self._rules.swarm_id)
                if announcement.public_key == self._own_key:
                    self._note_own(announcement)

    def _in_order(self, holders: Sequence[str]) -> Sequence[str]:
        """Each once, in random order, ourselves last."""
        distinct = list(dict.fromkeys(holders))
        order = self._rng.sample(distinct, len(distinct))
        return sorted(order, key=lambda holder: _peer_at(holder) == self._own_name)

    async def _collect(
        self, announcement: Announcement, positions: Sequence[int], holders: Sequence[str]
    ) -> None:
        """Fetch, score and pool groups of one bundle, from as many holders as it takes."""
        left, tried, until = set(positions), 0, self._clock.now() + TRYING_SECONDS
        for holder in holders:
            peer = _peer_at(holder)
            async with self._slots:
                if tried == HOLDERS_TRIED or (tried and self._clock.now() > until):
                    return
                if self._muted(peer):
                    continue
                tried += 1
                try:
                    received = await self._ask(announcement, sorted(left), holder)
                except Refused as refusal:
                    self._drop(refusal, peer)
                    if refusal.reason.concerns is Concerned.AUTHOR:
                        return
                    continue
            left.difference_update(received.opened.group_bytes)
            await self._admit(announcement, received)
            if not left:
                return
            self._drop(Refused(Reason.MISSING), peer)
        if not tried:
            self._drop(Refused(Reason.MUTED if holders else Reason.UNREACHABLE))

    async def _ask(
        self, announcement: Announcement, positions: Sequence[int], holder: str
    ) -> _Received:
        """The second stage, on what one holder answers. Raises Refused where nothing is usable."""
        request = FetchRequest(self._rules.swarm_id, announcement.bundle_id, tuple(positions))
        try:
            response = await self._transport.fetch(holder, request)
        except TransportError as error:
            raise Refused(Reason.UNREACHABLE) from error
        # Nothing is awaited from here on, so that no bundle is judged by what is outdated.
        author, now = announcement.public_key, self._clock.now()
        sizes = [len(data) for _, data in response.groups]
        self.counts.update(fetched=len(sizes), fetched_bytes=sum(sizes))
        if self._muted(peer_id_of(author)):
            raise Refused(Reason.MUTED, author)
        window = self.remembered.window(author)
        opened = open_answer(announcement, response, positions, window, self._rules, now)
        bundle = (author, opened.header.sequence, announcement.bundle_id)
        if self.remembered.of_an_earlier_life(*bundle):
            raise Refused(Reason.GROUP_REPEATED, author)
        self.remembered.accept(*bundle)
        for refusal in opened.left_out:
            self._drop(refusal)
        groups = {
            position: received_group(record, opened.header)
            for position, record in opened.groups.items()
        }
        new = {position: group for position, group in groups.items() if self._spend(group)}
        return _Received(holder, opened, new)

    def _spend(self, group: Group) -> bool:
        """A key may answer each index of its stream once."""
        question = group.question
        new = self.remembered.spend(group.publisher, question.task, question.level, question.index)
        if not new:
            self._drop(Refused(Reason.GROUP_REPEATED, group.publisher))
        return new

    async def _admit(self, announcement: Announcement, received: _Received) -> None:
        """Score, and pool what holds; what was pooled may be served to others."""
        if not received.groups:
            return
        author = announcement.public_key
        # Asked now, since fetching from an author connects us to it.
        (prefix,) = await self._transport.prefixes_of([peer_id_of(author)])
        groups = list(received.groups.values())
        scored, reasons = await self._rewards.score_external(groups, prefix)
        if self._stopped:
            return
        for reason in reasons:
            self._drop(Refused(reason, author))
        admitted: set[tuple[str, str, int]] = set()
        for each in scored:
            # What an announcement claims may be a lie, and dead groups would push out live ones.
            if each.live or self._rules.wants_dead:
                self.counts["admitted"] += 1
                self.standing.admit(peer_id_of(author), self._clock.now())
                self._pool.add(cut(each, self._completions_kept, self._rng))
                admitted.add(_index(each.group))
            else:
                self._drop(Refused(Reason.NOTHING_WANTED, author))
        held = {
            position: received.opened.group_bytes[position]
            for position, group in received.groups.items()
            if _index(group) in admitted
        }
        if held:
            self._notices.served(received.holder)
            header, expires = received.opened.header_bytes, announcement.expires / 1000
            await self._transport.hold(announcement.encoded, header, held, expires)

    def _muted(self, peer: str) -> bool:
        return self.standing.muted_seconds(peer, self._clock.now()) > 0.0

    def _drop(self, refusal: Refused, deliverer: str = "") -> None:
        """Count what is dropped, and hold it against the peer that it concerns, if it is known."""
        reason = refusal.reason
        self.dropped[reason] += 1
        author = peer_id_of(refusal.author) if refusal.author else ""
        peer = deliverer if reason.concerns is Concerned.DELIVERER else author
        if not peer or peer == self._own_name:
            return
        if seconds := self.standing.note(peer, reason, self._clock.now()):
            self._notices.muted(peer, seconds)


def _index(group: Group) -> tuple[str, str, int]:
    return group.question.task, group.question.level, group.question.index


def _peer_at(holder: str) -> str:
    """The peer that an address leads to; an address of no peer id stands for itself.

    Empty where a stranger wrote what no terminal should see: nothing is reached there.
    """
    name = peer_id_in(holder) or holder
    return name if name.isprintable() else ""
