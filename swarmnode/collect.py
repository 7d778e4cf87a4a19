"""Collecting, beside the rounds: discover → fetch → admission → regenerate and score → pool.

Everything that is dropped is counted under its reason. Nothing of a peer's is trusted: claims in
announcements only decide what is fetched first.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter, OrderedDict
from collections.abc import Hashable, Sequence
from typing import Protocol, TypeVar

from swarmnode.clock import Clock
from swarmnode.network.transport import Transport, TransportError
from swarmnode.selection.admission import (
    AdmissionRules,
    Reason,
    Refused,
    open_bundle,
    open_group,
    wanted_positions,
)
from swarmnode.selection.pool import Pool
from swarmnode.types import Group, Scored
from swarmnode.wire import received_group
from swarmproto import Announcement, FetchRequest, ReplayWindow, WireError, open_announcement

REMEMBERED = 65_536
"""Announcements, and spent questions, that are remembered: at a look a second more than strangers
can show us before an announcement expires."""

REMEMBERED_KEYS = 4096
"""Keys whose sequence numbers are remembered; keys are free, so that floods of them come."""

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

Wanted = tuple[Announcement, tuple[int, ...]]


class ExternalRewards(Protocol):
    """Regenerates and scores peers' groups."""

    async def score_external(
        self, groups: Sequence[Group]
    ) -> tuple[Sequence[Scored], Sequence[Reason]]:
        """The groups that hold, scored, with their regenerated questions; reasons of the others."""


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
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self._spent: OrderedDict[tuple[bytes, str, str, int], None] = OrderedDict()
        self._windows: OrderedDict[bytes, ReplayWindow] = OrderedDict()
        self.dropped: Counter[Reason] = Counter()
        """What was dropped since the start, by reason."""
        self.counts: Counter[str] = Counter()
        """Groups and bytes fetched, groups admitted."""

    async def run(self) -> None:
        """Look for groups again and again, until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(self._every_seconds)

    async def look(self) -> None:
        """One look: discover, fetch what is worth having, admit, score, pool.

        Nothing is looked for while the pool is full, so that little is fetched that nobody trains
        on.
        """
        self._pool.fresh(self._clock.now())
        if self._pool.room == 0:
            return
        budget = min(self._pool.room, self._groups_per_look)
        found = self._worth_fetching(await self._transport.discover(self._discover_count))
        wanted = _within_budget(found, budget, self._rng)
        if left := _groups_of(found) - _groups_of(wanted):
            self.dropped[Reason.OVER_BUDGET] += left
        groups = [group for choice in wanted for group in await self._fetch(choice)]
        if not groups:
            return
        scored, reasons = await self._rewards.score_external(groups)
        self.dropped.update(reasons)
        for each in scored:
            # What an announcement claims may be a lie, and dead groups would push out live ones.
            if each.live or self._rules.wants_dead:
                self.counts["admitted"] += 1
                self._pool.add(each)
            else:
                self.dropped[Reason.NOTHING_WANTED] += 1

    def _worth_fetching(self, announcements: Sequence[bytes]) -> list[Wanted]:
        found: list[Wanted] = []
        for data in announcements:
            if not self._first_sight(data):
                continue
            try:
                announcement = open_announcement(data, self._rules.swarm_id)
                if announcement.public_key != self._own_key:
                    positions = wanted_positions(announcement, self._rules, self._clock.now())
                    found.append((announcement, positions))
            except WireError as error:
                self.dropped[Refused.by_wire(error).reason] += 1
            except Refused as refusal:
                self.dropped[refusal.reason] += 1
        return found

    def _first_sight(self, data: bytes) -> bool:
        digest = hashlib.sha256(data).digest()
        if digest in self._seen:
            return False
        _remember(self._seen, digest, None, REMEMBERED)
        return True

    async def _fetch(self, wanted: Wanted) -> list[Group]:
        announcement, positions = wanted
        if not announcement.holders:
            self.dropped[Reason.UNREACHABLE] += 1
            return []
        request = FetchRequest(self._rules.swarm_id, announcement.bundle_id, positions)
        window = self._windows.get(announcement.public_key, ReplayWindow())
        try:
            response = await self._transport.fetch(announcement.holders[0], request)
            header = open_bundle(announcement, response, window, self._rules.swarm_id)
        except TransportError:
            self.dropped[Reason.UNREACHABLE] += 1
            return []
        except Refused as refusal:
            self.dropped[refusal.reason] += 1
            return []
        window = window.accepting(header.sequence, announcement.bundle_id)
        _remember(self._windows, header.public_key, window, REMEMBERED_KEYS)
        answered = dict(response.groups)
        groups: list[Group] = []
        for position in filter(answered.__contains__, positions):
            self.counts.update(fetched=1, fetched_bytes=len(answered[position]))
            try:
                record = open_group(announcement, header, position, answered[position], self._rules)
                group = received_group(record, header)
                self._spend(group)
                groups.append(group)
            except Refused as refusal:
                self.dropped[refusal.reason] += 1
        return groups

    def _spend(self, group: Group) -> None:
        """A key may answer each index of its stream once. Raises Refused at the second time."""
        question = group.question
        spent = (group.publisher, question.task, question.level, question.index)
        if spent in self._spent:
            raise Refused(Reason.GROUP_REPEATED)
        _remember(self._spent, spent, None, REMEMBERED)


def _remember(memory: OrderedDict[Key, Value], key: Key, value: Value, most: int) -> None:
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > most:
        memory.popitem(last=False)


def _groups_of(wanted: Sequence[Wanted]) -> int:
    return sum(len(positions) for _, positions in wanted)


def _within_budget(found: Sequence[Wanted], groups: int, rng: random.Random) -> list[Wanted]:
    """Bundles in random order, cut so that at most `groups` groups are fetched.

    No key's second bundle comes before another's first, so that announcing much gains nothing.
    """
    shuffled = list(found)
    rng.shuffle(shuffled)
    turns: Counter[bytes] = Counter()
    by_turn: list[tuple[int, Wanted]] = []
    for wanted in shuffled:
        key = wanted[0].public_key
        by_turn.append((turns[key], wanted))
        turns[key] += 1
    by_turn.sort(key=lambda pair: pair[0])
    chosen: list[Wanted] = []
    for _, (announcement, positions) in by_turn:
        if groups <= 0:
            break
        kept = sorted(rng.sample(positions, min(groups, len(positions))))
        chosen.append((announcement, tuple(kept)))
        groups -= len(kept)
    return chosen
