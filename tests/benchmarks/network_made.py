"""A node of the network benchmark: real sealing, collecting and admission, no model.

Each round it publishes one bundle of about 20 KB (4 live groups of 8 completions with log-probs),
sealed with its own key, and trains on 4 groups out of its pool. The scorer is a fixed delay. The
node runs on any transport and clock; what it observes of both is in `seen`.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence

from swarmnode.clock import Clock
from swarmnode.collect import Collector
from swarmnode.network.transport import Transport, TransportError
from swarmnode.publish import Identity, Publisher
from swarmnode.selection.admission import AdmissionRules, Reason
from swarmnode.selection.filters import draw_rule, load_filter
from swarmnode.types import Completion, Group, PolicyInfo, Question, Scored
from swarmnode.wire import group_record
from swarmproto import (
    Announcement,
    FetchRequest,
    SwarmRules,
    encode_group,
    encode_rules,
    open_announcement,
    public_key_of,
    swarm_id,
)
from tests.benchmarks.network_seen import Seen, TimedPool, WatchedTransport

RULES = SwarmRules("network benchmark", (("basic_arithmetic", "easy"),), 2, 16, 512, 8)
RULES_BYTES = encode_rules(RULES)
SWARM = swarm_id(RULES)
FINGERPRINTS = {("basic_arithmetic", "easy"): b"f" * 32}

ROUND_SECONDS = 30.0
LOOK_SECONDS = 1.0
DISCOVER_COUNT = 64
GROUPS_PUBLISHED = 4
GROUPS_TRAINED = 4
SCORE_SECONDS = 0.005
"""For each group."""

CROWDED_PUBLISHERS = 2
"""A shard's, in the crowded swarm."""

_COMPLETIONS = 8
_COMPLETION_CHARACTERS = 330
_COMPLETION_TOKENS = 64


def identity(number: int) -> Identity:
    """A key by number, fit for a benchmark alone."""
    private = random.Random(f"network benchmark/{number}").randbytes(32)
    return Identity(private, public_key_of(private), private[:16])


def groups(who: Identity, round_number: int) -> list[Scored]:
    """What a node publishes in a round: half of each group's completions are right."""
    rng = random.Random(f"{who.public_key.hex()}/{round_number}")
    return [
        _scored(who, round_number * GROUPS_PUBLISHED + place, rng)
        for place in range(GROUPS_PUBLISHED)
    ]


def _scored(who: Identity, index: int, rng: random.Random) -> Scored:
    question = Question("basic_arithmetic", "easy", index, _text(rng, 120), _text(rng, 8))
    completions = tuple(
        Completion(
            _text(rng, _COMPLETION_CHARACTERS),
            "stop",
            _COMPLETION_TOKENS,
            logprobs=tuple(-rng.random() for _ in range(_COMPLETION_TOKENS)),
        )
        for _ in range(_COMPLETIONS)
    )
    group = Group(question, completions, who.public_key, PolicyInfo("tiny", 3, bytes(32)))
    return Scored(group, _half_right(completions), "local", 0.0)


def _text(rng: random.Random, length: int) -> str:
    return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz 0123456789+-=", k=length))


def _half_right(completions: Sequence[Completion]) -> tuple[float, ...]:
    return tuple(float(place % 2) for place in range(len(completions)))


class FixedScorer:
    """Takes SCORE_SECONDS a group and finds half of its completions right."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def score_external(
        self, groups: Sequence[Group], prefix: str
    ) -> tuple[Sequence[Scored], Sequence[Reason]]:
        """Every group holds."""
        await self._clock.sleep(SCORE_SECONDS * len(groups))
        now = self._clock.now()
        found = [
            Scored(each, _half_right(each.completions), "external", now, prefix=prefix)
            for each in groups
        ]
        return found, []


class Node:
    """What it does, each for ever: publish, look without fetching, collect, train."""

    def __init__(self, number: int, transport: Transport, clock: Clock) -> None:
        self.seen = Seen()
        self._clock = clock
        self._rng = random.Random(f"node/{number}")
        self._identity = identity(number)
        self._round = 0
        self._transport = WatchedTransport(transport, clock, self.seen)
        self._pool = TimedPool(clock, self.seen)
        self._filter = load_filter("nonzero-advantage", draw_rule("peers"))
        self._publisher = Publisher(
            identity=self._identity,
            swarm_id=SWARM,
            transport=self._transport,
            clock=clock,
            fingerprints=FINGERPRINTS,
            announcement_seconds=300.0,
        )
        self._collector = Collector(
            own_key=self._identity.public_key,
            own_instance=self._identity.instance,
            rules=AdmissionRules(SWARM, FINGERPRINTS, 512, 120.0, wants_dead=False),
            transport=self._transport,
            rewards=FixedScorer(clock),
            pool=self._pool,
            clock=clock,
            rng=random.Random(f"collector/{number}"),
            every_seconds=LOOK_SECONDS,
            discover_count=DISCOVER_COUNT,
            groups_per_look=8,
        )

    async def publish(self) -> None:
        """One bundle a round, at the same moment of each round."""
        await self._clock.sleep(self._rng.uniform(0.0, ROUND_SECONDS))
        while True:
            self._round += 1
            began = self._clock.now()
            await self._publisher.publish(groups(self._identity, self._round))
            await self._clock.sleep(max(0.0, began + ROUND_SECONDS - self._clock.now()))

    async def look(self) -> None:
        """Discover as often as a collector does at most, and fetch nothing."""
        while True:
            await self._transport.discover(DISCOVER_COUNT)
            await self._clock.sleep(LOOK_SECONDS)

    async def fetch_bundles(self, announcements: Sequence[Announcement]) -> None:
        """Fetch whole bundles, one after the other, and drop them."""
        for announcement in announcements:
            positions = tuple(range(len(announcement.groups)))
            request = FetchRequest(SWARM, announcement.bundle_id, positions)
            with contextlib.suppress(TransportError):
                await self._transport.fetch(announcement.holders[0], request)

    async def announced(self, count: int) -> Sequence[Announcement]:
        """At most so many announcements of others."""
        found = await self._transport.discover(count)
        return [open_announcement(each.data, SWARM) for each in found]

    async def collect(self) -> None:
        """Fill the pool as a node does."""
        await self._collector.run()

    async def train(self) -> None:
        """Take what a round trains on, at the same moment of each round."""
        await self._clock.sleep(self._rng.uniform(0.0, ROUND_SECONDS))
        while True:
            candidates = self._pool.fresh(self._clock.now())
            chosen = self._filter.select(candidates, GROUPS_TRAINED, self._rng)
            self._pool.take(chosen)
            self.seen.trained_groups += len(chosen)
            for each in chosen:
                record = group_record(each.group, FINGERPRINTS["basic_arithmetic", "easy"])
                self.seen.trained_bytes += len(encode_group(record))
            await self._clock.sleep(ROUND_SECONDS)
