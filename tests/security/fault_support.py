"""A swarm of publishers and collectors under faults drawn from a seed, in virtual time.

The real wire format, admission, replay windows and pools; no models and no scorer. Each node
publishes every few seconds, looks, and trains on what it has: it notes every group once it takes
it out of the pool. Faults: loss, delay, repeated and reordered announcements, answers cut short,
partitions that heal, clocks ten minutes off, and nodes that die and come back from what their
store had. Source: security.md section 4.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from swarmnode.clock import VirtualClock, VirtualLoop
from swarmnode.collect import Collector
from swarmnode.conduct import Notices
from swarmnode.network.memory import MemoryNetwork, MemoryTransport
from swarmnode.network.shelf import Shelf
from swarmnode.network.transport import Delivered, TransportError
from swarmnode.publish import Identity, Publisher
from swarmnode.selection.admission import AdmissionRules
from swarmnode.selection.pool import Pool
from swarmnode.selection.remembered import Remembered
from swarmnode.selection.standing import Standing
from swarmproto import FetchRequest, FetchResponse, public_key_of
from tests.unit.collecting_support import FINGERPRINTS, SWARM, FirstIsRight
from tests.unit.made import scored
from tests.unit.network_time import SkewedClock

NODES = 4
ROUNDS = 12
CALM_ROUNDS = 6
"""After the faults: what a node must have recovered within."""
ROUND_SECONDS = 10.0
SKEW_SECONDS = 600.0
RULES = AdmissionRules(
    swarm_id=SWARM,
    fingerprints=FINGERPRINTS,
    completion_tokens=16,
    clock_skew_seconds=120.0,
    wants_dead=False,
)


class Faults:
    """What goes wrong now: rates in [0, 1], drawn anew every round, and a line between nodes."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"faults {seed}")
        self.loss = self.repeated = self.cut = 0.0
        self.delay_seconds = 0.0
        self.apart: frozenset[str] = frozenset()
        self.counts: Counter[str] = Counter()
        self._seen: list[bytes] = []

    def draw(self) -> None:
        """The next round's faults."""
        self.loss, self.repeated, self.cut = (self.rng.uniform(0.0, 0.5) for _ in range(3))
        self.delay_seconds = self.rng.choice((0.0, 0.0, 1.0, 8.0))
        chosen = self.rng.sample(range(NODES), NODES // 2) if self.rng.random() < 0.4 else []
        self.apart = frozenset(map(str, chosen))
        self.counts["partitions"] += bool(chosen)

    def end(self) -> None:
        """From now on all is well."""
        self.loss = self.repeated = self.cut = self.delay_seconds = 0.0
        self.apart = frozenset()

    def strikes(self, rate: float, what: str) -> bool:
        """Whether a fault of this kind happens."""
        struck = self.rng.random() < rate
        self.counts[what] += struck
        return struck

    def between(self, one: str, other: str) -> bool:
        """Whether a partition lies between them."""
        return (one in self.apart) != (other in self.apart)

    def delivered(self, data: Sequence[bytes]) -> Sequence[bytes]:
        """Announcements as they arrive: some lost, some old ones again, in any order."""
        arriving = [each for each in data if not self.strikes(self.loss, "lost")]
        self._seen = [*self._seen, *data][-64:]
        arriving += [each for each in self._seen if self.strikes(self.repeated, "repeated")]
        self.rng.shuffle(arriving)
        return arriving


class FaultyTransport(MemoryTransport):
    """A node's end of a memory network, with the faults of the moment."""

    def __init__(self, name: str, swarm: Swarm) -> None:
        shelf = Shelf(swarm.clock, quota_bytes=64 * 1024 * 1024)
        super().__init__(swarm.network, name, shelf, random.Random(name))
        self.name = name
        self.owners = swarm.owners
        self.clock = swarm.clock
        self.faults = swarm.faults

    async def discover(self, count: int) -> Sequence[Delivered]:
        """What is known and comes through."""
        await self.clock.sleep(self.faults.delay_seconds)
        found = [each.data for each in await super().discover(count)]
        through = [
            data
            for data in self.faults.delivered(found)
            if not self.faults.between(self.name, self.owners[data[37:69]])
        ]
        return [Delivered(data, "") for data in through]

    async def fetch(self, holder: str, request: FetchRequest) -> FetchResponse:
        """An answer, late, cut short, or none."""
        await self.clock.sleep(self.faults.delay_seconds)
        lost = self.faults.strikes(self.faults.loss, "unanswered")
        if lost or self.faults.between(self.name, holder):
            raise TransportError("no answer")
        response = await super().fetch(holder, request)
        if response.groups and self.faults.strikes(self.faults.cut, "cut short"):
            return replace(response, groups=response.groups[:-1])
        return response


@dataclass
class Node:
    """A publisher and a collector; `restart` is a death and what follows it."""

    number: int
    swarm: Swarm
    skew_seconds: float = 0.0
    trained: Counter[tuple[bytes, int]] = field(default_factory=Counter)
    """By publisher and index."""
    last: dict[bytes, int] = field(default_factory=dict)
    """Round in which a group of that publisher was trained on last."""
    muted: list[str] = field(default_factory=list)
    windows: dict[bytes, bytes] = field(default_factory=dict)
    """What its store has."""
    index: int = 0

    def __post_init__(self) -> None:
        private = bytes([self.number + 1]) * 32
        self.identity = Identity(private, public_key_of(private), private[:16])
        self.clock = SkewedClock(self.swarm.clock, self.skew_seconds)
        self.transport = FaultyTransport(str(self.number), self.swarm)
        self.swarm.network.join(str(self.number), self.transport.shelf.answer)
        self.publisher = Publisher(
            identity=self.identity, swarm_id=SWARM, transport=self.transport, clock=self.clock,
            fingerprints=FINGERPRINTS, announcement_seconds=300,
        )  # fmt: skip
        self.restart(self.windows)

    def restart(self, windows: Mapping[bytes, bytes]) -> None:
        """Everything in memory is gone; the store has `windows`."""
        remembered = Remembered()
        assert remembered.restore_windows(windows) == 0
        self.pool = Pool(capacity=100, age_seconds=600)
        self.collector = Collector(
            own_key=self.identity.public_key, rules=RULES, transport=self.transport,
            rewards=FirstIsRight(self.swarm.clock), pool=self.pool, clock=self.clock,
            rng=random.Random(self.number), every_seconds=1.0, discover_count=64,
            groups_per_look=8, standing=Standing(), remembered=remembered,
            notices=Notices(muted=lambda peer, _seconds: self.muted.append(peer)),
        )  # fmt: skip

    async def round(self, number: int) -> None:
        """Publish two groups, look twice, train on what there is, keep what must be kept."""
        key = self.identity.public_key
        groups = [
            scored((1.0, 0.0), index=self.index + more, publisher=key, source="local")
            for more in range(2)
        ]
        self.index += 2
        self.publisher.put(groups)
        running = asyncio.ensure_future(self.publisher.run())
        await self.swarm.clock.sleep(1.0)
        for _ in range(2):
            await self.collector.look()
        running.cancel()
        chosen = list(self.pool.fresh(self.clock.now()))
        self.pool.take(chosen)
        for each in chosen:
            self.trained[each.group.publisher, each.group.question.index] += 1
            self.last[each.group.publisher] = number
        self.windows |= self.collector.remembered.changed_windows()


class Swarm:
    """Nodes and what goes wrong between them, all drawn from one seed."""

    def __init__(self, seed: int, clock: VirtualClock) -> None:
        self.clock = clock
        self.faults = Faults(seed)
        self.network = MemoryNetwork(clock, latency_seconds=0.1, loss=0.0, seed=seed)
        self.owners: dict[bytes, str] = {}
        skewed = self.faults.rng.randrange(NODES)
        sign = self.faults.rng.choice((-1, 1))
        self.nodes = [
            Node(number, self, sign * SKEW_SECONDS if number == skewed else 0.0)
            for number in range(NODES)
        ]
        self.owners |= {node.identity.public_key: str(node.number) for node in self.nodes}

    async def run(self) -> None:
        """Rounds with faults, then some without."""
        for number in range(ROUNDS + CALM_ROUNDS):
            if number < ROUNDS:
                self.faults.draw()
                for node in self.nodes:
                    if self.faults.strikes(0.1, "restarts"):
                        node.restart(node.windows)
            else:
                self.faults.end()
            before = self.clock.now()
            await asyncio.gather(*(node.round(number) for node in self.nodes))
            await self.clock.sleep(max(0.0, before + ROUND_SECONDS - self.clock.now()))


def faulty_swarm(seed: int) -> Swarm:
    """A swarm after all its rounds."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)

        async def scenario() -> Swarm:
            swarm = Swarm(seed, VirtualClock(loop))
            await swarm.run()
            return swarm

        return runner.run(scenario())
