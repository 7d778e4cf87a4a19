"""Making announcements known, and finding those of others: over the DHT and over known peers.

Knows the shape of a peer, no hivemind. The DHT is asked for a few shards at random, where there is
one; peers that we stay connected to are asked what they know, which is cheaper, fresher and harder
to cut us off from. Beside the DHT, or instead of it, announcements are told by gossip.
What comes in is verified by Known. Source: network.md §4.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from swarmnode.clock import Clock
from swarmnode.network.known import Known, KnownAnnouncement
from swarmnode.network.peer import PeerUnreachable, Swarm
from swarmnode.network.shards import (
    BUCKET_SECONDS,
    SizeEstimate,
    bucket_of,
    keys_of,
    publishing_keys,
    readable_buckets,
    shard_key,
    subkey_of,
)
from swarmproto import (
    ANNOUNCEMENT_BYTES_MAX,
    DISCOVER_PROTOCOL,
    Announcement,
    DiscoverRequest,
    WireError,
    decode_discover_response,
    encode_discover_request,
)

ENOUGH_PEERS: Final = 8
"""From so many connected peers on the DHT is looked at SETTLED_FACTOR times as seldom."""
SETTLED_FACTOR: Final = 4
HANDED_OUT_REMEMBERED: Final = 4096
OWN_REMEMBERED: Final = 64
ENTRY_BYTES_MAX: Final = ANNOUNCEMENT_BYTES_MAX + 8


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the swarm is looked at, in seconds: this is what a node's traffic consists of."""

    dht_seconds: float = 15.0
    peers_seconds: float = 4.0
    peers_asked: int = 1
    asked_count: int = 12
    wait_seconds: float = 2.0
    """How long a discover call waits for looks that are under way."""
    call_seconds: float = 8.0
    retry_seconds: float = 5.0
    """Until an announcement that nobody acknowledged is stored again."""
    idle_seconds: float = 30.0
    """Until looks are made though nobody calls discover, so that others can ask us."""


class Rendezvous:
    """One node's announcing and discovering; `run` must be running for it to stay announced.

    Built inside the running loop.
    """

    def __init__(
        self,
        *,
        swarm_id: bytes,
        public_key: bytes,
        peer: Swarm,
        known: Known,
        clock: Clock,
        rng: random.Random,
        refused: Callable[[str], bool] = lambda peer_id: False,
        tell: Callable[[Announcement], Awaitable[int]] | None = None,
        pace: Pace | None = None,
    ) -> None:
        """`tell` makes an announcement known by gossip: to how many peers it was handed."""
        self._swarm_id = swarm_id
        self._public_key = public_key
        self._peer = peer
        self._known = known
        self._clock = clock
        self._rng = rng
        self._refused = refused
        self._tell = tell
        self._pace = pace or Pace()
        self._latest: Announcement | None = None
        self._told: Announcement | None = None
        self._stored_bucket: int | None = None
        self._retry_at = 0.0
        self._own: deque[bytes] = deque(maxlen=OWN_REMEMBERED)
        self._handed_out: OrderedDict[bytes, None] = OrderedDict()
        self._looked_at = {"dht": -1e9, "peers": -1e9}
        self._looks: dict[str, asyncio.Task[None]] = {}
        self._storing = asyncio.Lock()
        self._begun = clock.now()
        self._since: dict[str, float] = {}
        self.estimate = SizeEstimate()
        self.last_acknowledged: float | None = None
        """When another peer last acknowledged a record of ours, or was handed an announcement,
        seconds since 1970."""
        self.counts: Counter[str] = Counter()
        """Looks, and what they brought: `dht/looks`, `dht/new`, `peers/looks`, `peers/new`,
        `peers/unreachable`, `wire/REASON`, `stores`, `stores_unacknowledged`, `told`."""

    def adopt(self, data: bytes) -> Announcement | None:
        """Know an announcement as our own: peers that ask hear of it, our daemon doesn't.

        None where it is not one that others would keep, which is our own mistake or our clock's.
        """
        self._own.append(data)
        return self._known.learn(data, "")

    async def announce(self, announcement: Announcement) -> bool:
        """Tell and store an announcement of ours; whether another peer has it."""
        self._latest = announcement
        async with self._storing:
            return await self._make_known(announcement)

    async def run(self) -> None:
        """Keep our latest announcement stored while it is fresh, until cancelled."""
        while True:
            await self._clock.sleep(1.0)
            async with self._storing:
                now, latest = self._clock.now(), self._latest
                if latest is not None and latest.expires > (now + 1) * 1000 and self._due(now):
                    await self._make_known(latest)
            if now - max(self._begun, *self._looked_at.values()) > self._pace.idle_seconds:
                self._begin_looks()

    def restored(self) -> None:
        """The peer was built anew: what was stored before may be gone."""
        self._stored_bucket = None
        self._retry_at = 0.0

    async def discover(self, count: int) -> Sequence[KnownAnnouncement]:
        """At most `count` fresh announcements, rather ones not handed out yet; none of our own."""
        self._begin_looks()
        if self._looks:
            await asyncio.wait(self._looks.values(), timeout=self._pace.wait_seconds)
        own = {data for data in self._own}
        new = self._known.sample(count + len(own), self._rng, without=self._handed_out)
        found = [entry for entry in new if entry.announcement.encoded not in own][:count]
        if len(found) < count:
            bundles = {entry.announcement.bundle_id for entry in found}
            more = self._known.sample(count + len(own), self._rng, without=bundles)
            found.extend(entry for entry in more if entry.announcement.encoded not in own)
        for entry in found[:count]:
            self._handed_out[entry.announcement.bundle_id] = None
        while len(self._handed_out) > HANDED_OUT_REMEMBERED:
            self._handed_out.popitem(last=False)
        return found[:count]

    async def close(self) -> None:
        """End looks that are under way."""
        looks = list(self._looks.values())
        for look in looks:
            look.cancel()
        await asyncio.gather(*looks, return_exceptions=True)

    def _due(self, now: float) -> bool:
        """Whether our latest is to be made known again: in the DHT once a minute."""
        if now < self._retry_at:
            return False
        if self._peer.has_dht:
            return self._stored_bucket != bucket_of(now)
        return self._told is not self._latest

    async def _make_known(self, announcement: Announcement) -> bool:
        told = False
        if self._tell is not None and self._told is not announcement:
            told = await self._tell(announcement) > 0
        if told:
            self._told = announcement
            self.counts["told"] += 1
            self.last_acknowledged = self._clock.now()
        if self._peer.has_dht:
            return await self._store(announcement) or told
        if not told:
            self._retry_at = self._clock.now() + self._pace.retry_seconds
        return told

    async def _store(self, announcement: Announcement) -> bool:
        # A clock that was set back must not lead to a bucket before the announcement's own.
        bucket = max(bucket_of(self._clock.now()), bucket_of(announcement.created / 1000))
        keys = publishing_keys(self._swarm_id, self._public_key, bucket, self.estimate.level)
        expires = announcement.expires / 1000
        self.counts["stores"] += len(keys)
        acknowledgements = await asyncio.gather(
            *(
                self._peer.store(key, subkey_of(self._public_key), announcement.encoded, expires)
                for key in keys
            )
        )
        if not any(acknowledgements):
            self.counts["stores_unacknowledged"] += len(keys)
            self._retry_at = self._clock.now() + self._pace.retry_seconds
            return False
        self._stored_bucket = bucket
        # Not all nodes at the turn of the minute.
        self._retry_at = (bucket + 1) * BUCKET_SECONDS + self._rng.uniform(0.0, 10.0)
        self.last_acknowledged = self._clock.now()
        return True

    def _begin_looks(self) -> None:
        now = self._clock.now()
        settled = len(self._since) >= ENOUGH_PEERS
        dht_seconds = self._pace.dht_seconds * (SETTLED_FACTOR if settled else 1)
        for name, every, look in (
            ("dht", dht_seconds, self._look_at_dht),
            ("peers", self._pace.peers_seconds, self._look_at_peers),
        ):
            # A clock set back must not stop the looking.
            due = not 0 <= now - self._looked_at[name] < every
            if name == "dht" and not self._peer.has_dht:
                continue
            if due and name not in self._looks:
                self._looked_at[name] = now
                self._looks[name] = asyncio.ensure_future(look())
                self._looks[name].add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._looks = {name: look for name, look in self._looks.items() if look is not task}

    async def _look_at_dht(self) -> None:
        now = self._clock.now()
        this, before, *skewed = readable_buckets(now)
        # Each shard is read from several replicas: one is enough for those who know somebody.
        if not self._known.authors() - {self._public_key}:
            buckets = [this, before]
        elif self.estimate.has_seen(this):
            buckets = [self._rng.choice((this, before))]
        else:
            # The one that the estimate is made from: who looks once a minute has no other chance.
            buckets = [before]
        if self._rng.random() < 1 / 4:
            buckets.append(self._rng.choice(skewed))
        level = self.estimate.level
        shards = [(bucket, f"{self._rng.getrandbits(16):016b}"[:level]) for bucket in buckets]
        while shards:
            found = await self._read(shards)
            for bucket, prefix in shards:
                # The minute before has them all; parents would count an empty shard twice.
                if bucket == before and len(prefix) == level:
                    self.estimate.observe(this, level, found[bucket, prefix])
            # An empty shard's parent has its publishers as well.
            shards = [
                (bucket, prefix[:-1])
                for bucket, prefix in shards
                if prefix and not found[bucket, prefix]
            ]

    async def _read(self, shards: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int]:
        """Learn what lies in these shards; the number of publishers in each."""
        by_key = {shard_key(self._swarm_id, *shard): shard for shard in shards}
        self.counts["dht/looks"] += 1
        values = await self._peer.get(list(by_key))
        found: dict[tuple[int, str], int] = {}
        for key, shard in by_key.items():
            authors = set()
            for data in values.get(key, {}).values():
                announcement = self._learn(data, "", "dht")
                if announcement is not None and key in keys_of(announcement):
                    authors.add(announcement.public_key)
            found[shard] = len(authors)
        return found

    async def _look_at_peers(self) -> None:
        now = self._clock.now()
        connected = [
            peer_id for peer_id, _ in await self._peer.connected() if not self._refused(peer_id)
        ]
        self._since = {peer_id: self._since.get(peer_id, now) for peer_id in connected}
        if not connected:
            self._looked_at["peers"] = -1e9  # whoever comes is asked at once
            return
        # Every other time one that we have known for long, which an attacker can't make up today.
        # Not every time: eight attackers who were there first would be all that is ever asked.
        oldest = sorted(connected, key=lambda peer_id: self._since[peer_id])[:ENOUGH_PEERS]
        first = self._rng.choice(oldest if self._rng.random() < 0.5 else connected)
        others = self._rng.sample(connected, min(len(connected), self._pace.peers_asked))
        asked = list(dict.fromkeys([first, *others]))[: self._pace.peers_asked]
        self.counts["peers/looks"] += len(asked)
        await asyncio.gather(*(self._ask(peer_id) for peer_id in asked))

    async def _ask(self, peer_id: str) -> None:
        count = self._pace.asked_count
        request = encode_discover_request(DiscoverRequest(self._swarm_id, count))
        limit = count * ENTRY_BYTES_MAX + ENTRY_BYTES_MAX
        try:
            answer = await self._peer.call(
                peer_id, DISCOVER_PROTOCOL, request, limit, self._pace.call_seconds
            )
            announcements = decode_discover_response(answer).announcements
        except PeerUnreachable:
            self.counts["peers/unreachable"] += 1
            return
        except WireError as error:
            self.counts[f"wire/{error.reason.value}"] += 1
            return
        for data in announcements[:count]:
            self._learn(data, peer_id, "peers")

    def _learn(self, data: bytes, delivered_by: str, source: str) -> Announcement | None:
        new = self._known.counts["new"]
        announcement = self._known.learn(data, delivered_by)
        self.counts[f"{source}/new"] += self._known.counts["new"] - new
        return announcement
