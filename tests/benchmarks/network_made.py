"""A node of the network benchmark: real sealing, collecting and admission, no model.

Each round it publishes one bundle of about 20 KB (4 live groups of 8 completions with log-probs),
sealed with its own key, and trains on 4 groups out of its pool. The scorer is a fixed delay. The
node runs on any transport and clock; what it observes of both is in `seen`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swarmnode.clock import Clock
from swarmnode.collect import Collector
from swarmnode.network.transport import Delivered, Transport, TransportError
from swarmnode.publish import Identity, Publisher
from swarmnode.selection.admission import AdmissionRules, Reason
from swarmnode.selection.filters import draw_rule, load_filter
from swarmnode.selection.pool import Pool
from swarmnode.types import Completion, Group, PolicyInfo, Question, Scored
from swarmnode.wire import group_record
from swarmproto import (
    Bundle,
    FetchRequest,
    FetchResponse,
    SwarmRules,
    encode_fetch_response,
    encode_group,
    encode_rules,
    public_key_of,
    swarm_id,
)
from tests.benchmarks.network_rows import percentile

RULES = SwarmRules("network benchmark", (("basic_arithmetic", "easy"),), 2, 16, 512, 8)
RULES_BYTES = encode_rules(RULES)
SWARM = swarm_id(RULES)
FINGERPRINTS = {("basic_arithmetic", "easy"): b"f" * 32}

ROUND_SECONDS = 30.0
LOOK_SECONDS = 1.0
DISCOVER_COUNT = 64
GROUPS_PUBLISHED = 4
GROUPS_TRAINED = 4
POOL_GROUPS = 12
SCORE_SECONDS = 0.005
"""For each group."""

CROWDED_PUBLISHERS = 2
"""A shard's, in the crowded swarm."""

_COMPLETIONS = 8
_COMPLETION_CHARACTERS = 330
_COMPLETION_TOKENS = 64
_PUBLIC_KEY = slice(37, 69)
"""Of an envelope (protocol/README.md, section 5)."""


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
        self, groups: Sequence[Group]
    ) -> tuple[Sequence[Scored], Sequence[Reason]]:
        """Every group holds."""
        await self._clock.sleep(SCORE_SECONDS * len(groups))
        now = self._clock.now()
        found = [Scored(each, _half_right(each.completions), "external", now) for each in groups]
        return found, []


@dataclass(slots=True)
class Seen:
    """What one node observed; times in seconds of its clock."""

    look_began: float = 0.0
    to_pool: list[float] = field(default_factory=list)
    """From a discover call to each group of that look in the pool."""
    fetch_seconds: list[float] = field(default_factory=list)
    announce_seconds: list[float] = field(default_factory=list)
    authors: set[bytes] = field(default_factory=set)
    """Whose announcements were delivered."""
    fetched_bytes: int = 0
    """Of fetch responses, whole."""
    failed_fetches: int = 0
    trained_groups: int = 0
    trained_bytes: int = 0
    """Of the groups trained on, as encoded."""

    def forget(self) -> None:
        """Count from here on; whom it heard of is remembered."""
        self.fetched_bytes = self.failed_fetches = self.trained_groups = self.trained_bytes = 0
        for times in (self.to_pool, self.fetch_seconds, self.announce_seconds):
            times.clear()


def fetch_figures(seen: Sequence[Seen], rounds: int) -> dict[str, float]:
    """What nodes fetched and trained on, each on average a round, and how long it took."""
    node_rounds = len(seen) * rounds
    return {
        "trained_groups": sum(each.trained_groups for each in seen) / node_rounds,
        "trained_bytes": sum(each.trained_bytes for each in seen) / node_rounds,
        "fetched_bytes": sum(each.fetched_bytes for each in seen) / node_rounds,
        "failed_fetches": float(sum(each.failed_fetches for each in seen)),
        **times("fetch", [s for each in seen for s in each.fetch_seconds]),
        **times("to_pool", [s for each in seen for s in each.to_pool]),
    }


def times(name: str, seconds: Sequence[float]) -> dict[str, float]:
    """Their number, median, ninth decile and greatest, by `name`."""
    if not seconds:
        return {f"{name}_count": 0.0}
    return {
        f"{name}_count": float(len(seconds)),
        f"{name}_p50": percentile(seconds, 0.5),
        f"{name}_p90": percentile(seconds, 0.9),
        f"{name}_max": max(seconds),
    }


class WatchedTransport:
    """A Transport that notes what passes through it."""

    def __init__(self, inner: Transport, clock: Clock, seen: Seen) -> None:
        self._inner = inner
        self._clock = clock
        self._seen = seen

    @property
    def holders(self) -> Sequence[str]:
        """As inside."""
        return self._inner.holders

    async def start(self) -> None:
        """As inside."""
        await self._inner.start()

    async def announce(self, announcement: bytes, bundle: Bundle, expires: float) -> None:
        """As inside, timed."""
        began = self._clock.now()
        await self._inner.announce(announcement, bundle, expires)
        self._seen.announce_seconds.append(self._clock.now() - began)

    async def discover(self, count: int) -> Sequence[Delivered]:
        """As inside; a look begins."""
        self._seen.look_began = self._clock.now()
        found = await self._inner.discover(count)
        self._seen.authors.update(each.data[_PUBLIC_KEY] for each in found)
        return found

    async def fetch(self, holder: str, request: FetchRequest) -> FetchResponse:
        """As inside, timed and weighed."""
        began = self._clock.now()
        try:
            response = await self._inner.fetch(holder, request)
        except TransportError:
            self._seen.failed_fetches += 1
            raise
        self._seen.fetch_seconds.append(self._clock.now() - began)
        self._seen.fetched_bytes += len(encode_fetch_response(response))
        return response

    async def hold(
        self, announcement: bytes, bundle_header: bytes, groups: Mapping[int, bytes], expires: float
    ) -> None:
        """As inside."""
        await self._inner.hold(announcement, bundle_header, groups, expires)

    async def health(self) -> Mapping[str, Any]:
        """As inside."""
        return await self._inner.health()

    async def close(self) -> None:
        """As inside."""
        await self._inner.close()


class TimedPool(Pool):
    """A pool that notes how long after its look's beginning each group arrives."""

    def __init__(self, clock: Clock, seen: Seen) -> None:
        super().__init__(capacity=POOL_GROUPS, age_seconds=600.0)
        self._clock = clock
        self._seen = seen

    def add(self, scored: Scored) -> Scored | None:
        """As any pool."""
        self._seen.to_pool.append(self._clock.now() - self._seen.look_began)
        return super().add(scored)


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
