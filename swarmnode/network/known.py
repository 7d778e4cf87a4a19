"""The fresh announcements that a node knows: verified, bounded, one per key and bundle.

Knows no network: bytes come in with the id of the peer that delivered them ("" for the DHT and for
ourselves). Evicted first is what belongs to whoever gave most: the oldest of its author beyond
PER_AUTHOR; when all is full, what expires first among the announcements of the deliverer with the
most, at the address prefix with the most. Beside that it sees whose clocks differ from ours.
Source: network.md §4.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from swarmnode.clock import Clock
from swarmnode.keys import peer_id_of
from swarmnode.prefixes import own_prefix
from swarmnode.turns import in_turns
from swarmproto import Announcement, WireError, open_announcement

COUNT_MAX: Final = 4096
BYTES_MAX: Final = 8 * 1024 * 1024
"""Of memory, by an estimate: of an announcement of many groups it is mostly these."""
PER_AUTHOR: Final = 8
REFUSED_REMEMBERED: Final = 8192
AUTHORS_REMEMBERED: Final = 4096
FUTURE_SECONDS: Final = 120.0
"""How far ahead of our clock an announcement may have been made (protocol §9)."""


@dataclass(frozen=True, slots=True)
class KnownAnnouncement:
    """A verified announcement and the id of the peer that brought it first."""

    announcement: Announcement
    delivered_by: str


class Known:
    """The announcements of one swarm."""

    def __init__(
        self,
        swarm_id: bytes,
        clock: Clock,
        *,
        count_max: int = COUNT_MAX,
        bytes_max: int = BYTES_MAX,
        prefix_of: Callable[[str], str] = own_prefix,
    ) -> None:
        """`prefix_of` gives the address prefix of a deliverer, by its id."""
        self._swarm_id = swarm_id
        self._clock = clock
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._prefix_of = prefix_of
        self._entries: dict[tuple[bytes, bytes], KnownAnnouncement] = {}
        self._places: dict[bytes, tuple[bytes, bytes]] = {}
        self._bytes = 0
        self._refused: OrderedDict[bytes, None] = OrderedDict()
        self.clocks = PeerClocks()
        self.counts: Counter[str] = Counter()
        """What became of announcements: `new`, `known`, `older`, `expired`, `early`, `evicted`,
        or `wire/REASON`."""

    def __len__(self) -> int:
        return len(self._entries)

    def learn(self, data: bytes, delivered_by: str) -> Announcement | None:
        """Verify and keep an announcement; None unless it is one that we may keep or have.

        What was kept or refused is remembered, so that it costs no second verification.
        """
        name = hashlib.sha256(data).digest()
        if name in self._places:
            self.counts["known"] += 1
            return self._entries[self._places[name]].announcement
        if name in self._refused:
            self.counts["refused_again"] += 1
            return None
        try:
            announcement = open_announcement(data, self._swarm_id)
        except WireError as error:
            self._refuse(name, f"wire/{error.reason.value}")
            return None
        now = self._clock.now()
        self.clocks.note(announcement, now)
        if announcement.expires <= now * 1000:
            self._refuse(name, "expired")
            return None
        if announcement.created > (now + FUTURE_SECONDS) * 1000:
            self.counts["early"] += 1  # not remembered: a little later it is in time
            return None
        return self._keep(KnownAnnouncement(announcement, delivered_by), now)

    def sample(
        self, count: int, rng: random.Random, *, without: Collection[bytes] = ()
    ) -> Sequence[KnownAnnouncement]:
        """At most `count` fresh ones, whose bundle ids are not in `without`: a random choice.

        The deliverers' address prefixes take turns, and so do the deliverers at each, so that none
        fills the sample while others have something; and each author's newest comes before
        anybody's second newest, since the older ones are known.
        """
        self._drop_expired(self._clock.now())
        piles: dict[str, list[KnownAnnouncement]] = defaultdict(list)
        for entry in self._entries.values():
            if entry.announcement.bundle_id not in without:
                piles[entry.delivered_by].append(entry)
        near: dict[str, list[list[KnownAnnouncement]]] = defaultdict(list)
        for deliverer, pile in piles.items():
            near[self._prefix_of(deliverer)].append(_newest_last(pile, rng))
        of_prefixes = [in_turns(each, rng, count)[::-1] for each in near.values()]
        return in_turns(of_prefixes, rng, count)

    def authors(self) -> set[bytes]:
        """Public keys of those who are heard of."""
        self._drop_expired(self._clock.now())
        return {key for key, _ in self._entries}

    def _keep(self, entry: KnownAnnouncement, now: float) -> Announcement:
        announcement = entry.announcement
        place = announcement.public_key, announcement.bundle_id
        before = self._entries.get(place)
        if before is not None:
            if before.announcement.created >= announcement.created:
                self.counts["older"] += 1
                return before.announcement
            self._remove(place)
        self._entries[place] = entry
        self._places[hashlib.sha256(announcement.encoded).digest()] = place
        self._bytes += _held_bytes(announcement)
        self.counts["new"] += 1
        self._make_room(announcement.public_key, now)
        return announcement

    def _make_room(self, author: bytes, now: float) -> None:
        of_author = [place for place in self._entries if place[0] == author]
        if len(of_author) > PER_AUTHOR:
            self._evict(min(of_author, key=lambda at: self._entries[at].announcement.created))
        if self._full():
            self._drop_expired(now)
        while self._full():
            given = Counter(entry.delivered_by for entry in self._entries.values())
            near = Counter[str]()
            for deliverer, count in given.items():
                near[self._prefix_of(deliverer)] += count
            most = max(given, key=lambda peer: (near[self._prefix_of(peer)], given[peer]))
            places = [at for at, entry in self._entries.items() if entry.delivered_by == most]
            self._evict(min(places, key=lambda at: self._entries[at].announcement.expires))

    def _full(self) -> bool:
        return len(self._entries) > self._count_max or self._bytes > self._bytes_max

    def _drop_expired(self, now: float) -> None:
        over = [
            place
            for place, entry in self._entries.items()
            if entry.announcement.expires <= now * 1000
        ]
        for place in over:
            self._remove(place)

    def _evict(self, place: tuple[bytes, bytes]) -> None:
        self._remove(place)
        self.counts["evicted"] += 1

    def _remove(self, place: tuple[bytes, bytes]) -> None:
        announcement = self._entries.pop(place).announcement
        del self._places[hashlib.sha256(announcement.encoded).digest()]
        self._bytes -= _held_bytes(announcement)

    def _refuse(self, name: bytes, reason: str) -> None:
        self.counts[reason] += 1
        self._refused[name] = None
        while len(self._refused) > REFUSED_REMEMBERED:
            self._refused.popitem(last=False)


def _held_bytes(announcement: Announcement) -> int:
    texts = len(announcement.encoded) + sum(map(len, announcement.holders))
    return 1024 + texts + 96 * len(announcement.groups)


def _newest_last(pile: Sequence[KnownAnnouncement], rng: random.Random) -> list[KnownAnnouncement]:
    """In random order, but each author's newest after all second newest, and so on."""
    ranks: Counter[bytes] = Counter()
    ranked: list[tuple[int, float, KnownAnnouncement]] = []
    for entry in sorted(pile, key=lambda entry: -entry.announcement.created):
        author = entry.announcement.public_key
        ranked.append((-ranks[author], rng.random(), entry))
        ranks[author] += 1
    ranked.sort(key=lambda one: one[:2])
    return [entry for _, _, entry in ranked]


class PeerClocks:
    """How far the clocks of authors are ahead of ours, from when their announcements arrive.

    The first announcement of an author says nothing, since it may have been under way for minutes;
    each later one was made while we were looking, and is as old as a look at most.
    """

    def __init__(self) -> None:
        self._last_created: OrderedDict[str, int] = OrderedDict()
        self._ahead_seconds: dict[str, float] = {}

    def note(self, announcement: Announcement, now: float) -> None:
        """An announcement arrived, fresh by our clock or not."""
        author = peer_id_of(announcement.public_key)
        last = self._last_created.get(author)
        if last is not None and announcement.created > last:
            self._ahead_seconds[author] = announcement.created / 1000 - now
        self._last_created[author] = max(announcement.created, last or 0)
        self._last_created.move_to_end(author)
        while len(self._last_created) > AUTHORS_REMEMBERED:
            forgotten, _ = self._last_created.popitem(last=False)
            self._ahead_seconds.pop(forgotten, None)

    def offset(self, peers: Collection[str]) -> float | None:
        """Median over these peers of their clocks minus ours, in seconds; None if none is known.

        Only peers that we are connected to should be asked about: keys alone are free.
        """
        ahead = [self._ahead_seconds[peer] for peer in peers if peer in self._ahead_seconds]
        return median(ahead) if ahead else None
