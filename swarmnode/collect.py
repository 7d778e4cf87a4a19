"""Collecting, beside the rounds: discover → fetch → admission → regenerate and score → pool.

Everything that is dropped is counted under its reason, and for the peer that the reason concerns;
muted peers are neither listened to nor fetched from. Nothing of a peer's is trusted: claims in
announcements only decide what is fetched first. Bundles are fetched beside each other, and each is
scored as soon as it is there, and no look waits long for what another has asked for: a slow holder
delays nobody else's groups. What is fetched and pooled is shared out by address prefix first, then
by peer.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Sequence, Set
from typing import Protocol

from swarmnode.clock import Clock
from swarmnode.conduct import Conduct, Notices
from swarmnode.fetching import Fetching, Received
from swarmnode.keys import peer_id_of
from swarmnode.network.transport import Delivered, Transport
from swarmnode.selection.admission import (
    AdmissionRules,
    Reason,
    Refused,
    open_delivered,
    wanted_positions,
)
from swarmnode.selection.budget import Preference, Wanted, groups_of, indifferent, within_budget
from swarmnode.selection.pool import Pool
from swarmnode.selection.quality import Quality
from swarmnode.selection.remembered import Remembered
from swarmnode.selection.standing import Standing
from swarmnode.selection.twins import Twins
from swarmnode.selection.weight import cut
from swarmnode.store.records import Evidence
from swarmnode.types import Group, Scored
from swarmproto import COMPLETIONS_MAX, Announcement

LOOK_SECONDS = 3.0
"""After so long a look ends, though bundles that it asked for are still on their way."""

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
        quality: Quality | None = None,
        notices: Notices | None = None,
        prefers: Preference = indifferent,
    ) -> None:
        self._own_key = own_key
        self._rules = rules
        self._transport = transport
        self._rewards = rewards
        self._pool = pool
        self._clock = clock
        self._rng = rng
        self._every_seconds = every_seconds
        self._discover_count = discover_count
        self._groups_per_look = groups_per_look
        self._prefers = prefers
        self._completions_kept = completions_kept
        self._notices = notices or Notices()
        self._twins = Twins(own_key, own_instance)
        self._stopped = False
        self._late: set[asyncio.Task[None]] = set()
        """Fetches that an earlier look began."""
        self._looked = clock.now()
        self.standing = Standing() if standing is None else standing
        self.remembered = Remembered() if remembered is None else remembered
        self.quality = Quality() if quality is None else quality
        own_name = peer_id_of(own_key)
        self._conduct = Conduct(own_name, self.standing, self.quality, self._notices, clock)
        self.counts: Counter[str] = Counter()
        """Groups and bytes fetched, groups admitted."""
        self._fetching = Fetching(
            own_name=own_name,
            rules=rules,
            transport=transport,
            conduct=self._conduct,
            remembered=self.remembered,
            clock=clock,
            rng=rng,
            counts=self.counts,
        )

    @property
    def dropped(self) -> Counter[Reason]:
        """What was dropped since the start, by reason."""
        return self._conduct.dropped

    async def run(self) -> None:
        """Look for groups again and again, until cancelled."""
        try:
            while True:
                await self.look()
                await self._clock.sleep(self._every_seconds)
        finally:
            for task in self._late:
                task.cancel()

    def stop(self) -> None:
        """Take nothing of peers any more, what is under way included; what was pooled goes."""
        self._stopped = True
        self._pool.clear()

    async def look(self) -> None:
        """One look: discover, fetch what is worth having, admit, score, pool.

        While the pool is full nothing is fetched but what takes a place of a prefix that has too
        many, and that seldom, since nobody would train on it; another node with our key is looked
        for all the same. Raises what the rewards raise, in this look or since the last.
        """
        await self._wait_for(self._late, seconds=0.0)
        now = self._clock.now()
        self._pool.fresh(now)
        full = self._pool.room == 0
        if self._stopped or (full and 0 <= now - self._looked < FULL_SECONDS):
            return
        self._looked = now
        delivered = await self._transport.discover(self._discover_count)
        if full:
            delivered = await self._placed(delivered)
        found = await self._wanted(self._worth_fetching(delivered))
        chosen = within_budget(
            found,
            groups=self._groups_per_look,
            announced_bytes=BYTES_PER_LOOK,
            places=self._pool.places(),
            rng=self._rng,
            prefers=self._prefers,
        )
        if left := groups_of(found) - groups_of(chosen):
            self.dropped[Reason.OVER_BUDGET] += left
        await self._wait_for(
            {
                asyncio.create_task(
                    self._fetching.fetch(
                        each.announcement,
                        each.positions,
                        self._fetching.in_order(each.announcement.holders),
                        self._admit,
                    )
                )
                for each in chosen
            },
            seconds=LOOK_SECONDS,
        )

    async def _wait_for(self, tasks: set[asyncio.Task[None]], seconds: float) -> None:
        """Wait for some fetches; who is late goes on. Raises what one that has ended raised."""
        ended: set[asyncio.Task[None]] = set()
        try:
            if tasks:
                ended, _ = await asyncio.wait(
                    tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION
                )
        finally:
            self._late = (self._late | tasks) - ended
        errors = [error for task in ended if (error := task.exception())]
        if errors:
            raise errors[0]

    def _worth_fetching(
        self, delivered: Sequence[Delivered]
    ) -> list[tuple[Announcement, tuple[int, ...]]]:
        found = []
        for each in delivered:
            try:
                if judged := self._judged(each):
                    found.append(judged)
            except Refused as refusal:
                self._conduct.drop(refusal, each.peer)
        return found

    def _judged(self, delivered: Delivered) -> tuple[Announcement, tuple[int, ...]] | None:
        """The first stage: what is worth fetching, if it is new. Raises Refused."""
        if self._conduct.muted(delivered.peer):
            raise Refused(Reason.MUTED)
        if not self.remembered.first_sight(delivered.data):
            return None
        announcement = open_delivered(delivered.data, self._rules.swarm_id)
        if announcement.public_key == self._own_key:
            self._note_own(announcement)
            return None
        if self._conduct.muted(peer_id_of(announcement.public_key)):
            raise Refused(Reason.MUTED, announcement.public_key)
        return announcement, wanted_positions(announcement, self._rules, self._clock.now())

    async def _wanted(self, found: Sequence[tuple[Announcement, tuple[int, ...]]]) -> list[Wanted]:
        prefixes = await self._prefixes([announcement for announcement, _ in found])
        return [
            Wanted(announcement, positions, prefix)
            for (announcement, positions), prefix in zip(found, prefixes, strict=True)
        ]

    async def _prefixes(self, announcements: Sequence[Announcement]) -> Sequence[str]:
        """Where their authors are connected to us from."""
        names = [peer_id_of(announcement.public_key) for announcement in announcements]
        return await self._transport.prefixes_of(names) if names else []

    def _note_own(self, announcement: Announcement) -> None:
        if (began := self._twins.noted(announcement, self._clock.now())) is not None:
            self._notices.duplicate(announcement.instance, began / 1000)

    async def _placed(self, delivered: Sequence[Delivered]) -> list[Delivered]:
        """What would get a place in a full pool; our own is noted.

        The others are not remembered: they may be worth fetching as soon as there is room.
        """
        opened: list[tuple[Delivered, Announcement]] = []
        for each in delivered:
            with contextlib.suppress(Refused):
                announcement = open_delivered(each.data, self._rules.swarm_id)
                if announcement.public_key == self._own_key:
                    self._note_own(announcement)
                else:
                    opened.append((each, announcement))
        prefixes = await self._prefixes([announcement for _, announcement in opened])
        places = self._pool.places()
        return [
            each
            for (each, _), prefix in zip(opened, prefixes, strict=True)
            if places.open_to(prefix)
        ]

    async def _admit(self, announcement: Announcement, received: Received) -> None:
        """Score, and pool what holds; what was pooled may be served to others."""
        if not received.groups:
            return
        # Asked again, since fetching from an author connects us to it.
        (prefix,) = await self._prefixes([announcement])
        groups = list(received.groups.values())
        scored, reasons = await self._rewards.score_external(groups, prefix)
        if self._stopped:
            return
        author = announcement.public_key
        for reason in reasons:
            self._conduct.drop(Refused(reason, author))
        # What an announcement claims may be a lie, and dead groups would push out live ones.
        admitted = [each for each in scored if each.live or self._rules.wants_dead]
        evidence = {
            _index(group): Evidence(
                received.holder, received.opened.header_bytes, received.opened.group_bytes[position]
            )
            for position, group in received.groups.items()
        }
        for each in admitted:
            self._conduct.admit(author)
            pooled = cut(each, self._completions_kept, self._rng)
            self._pool.add(pooled)
            self._notices.admitted(pooled, evidence[_index(pooled.group)])
        for _ in range(len(scored) - len(admitted)):
            self._conduct.drop(Refused(Reason.NOTHING_WANTED, author))
        self.counts["admitted"] += len(admitted)
        live = sum(each.live for each in scored)
        name, now = peer_id_of(author), self._clock.now()
        self.quality.note(name, now, held=len(scored), live=live, admitted=len(admitted))
        await self._pass_on(announcement, received, {_index(each.group) for each in admitted})

    async def _pass_on(
        self, announcement: Announcement, received: Received, admitted: Set[tuple[str, str, int]]
    ) -> None:
        held = {
            position: received.opened.group_bytes[position]
            for position, group in received.groups.items()
            if _index(group) in admitted
        }
        if held:
            self._notices.served(received.holder)
            header, expires = received.opened.header_bytes, announcement.expires / 1000
            await self._transport.hold(announcement.encoded, header, held, expires)


def _index(group: Group) -> tuple[str, str, int]:
    return group.question.task, group.question.level, group.question.index
