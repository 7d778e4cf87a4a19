"""A collector among strangers that sign, announce and serve whatever a test writes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from swarmnode.clock import VirtualClock, VirtualLoop
from swarmnode.collect import Collector, ExternalRewards
from swarmnode.conduct import Notices
from swarmnode.keys import peer_id_of
from swarmnode.network.transport import Delivered, TransportError
from swarmnode.prefixes import own_prefix
from swarmnode.selection.admission import AdmissionRules, Reason
from swarmnode.selection.budget import Preference, indifferent
from swarmnode.selection.pool import Pool
from swarmnode.selection.quality import Quality
from swarmnode.selection.remembered import Remembered
from swarmnode.selection.standing import Standing
from swarmnode.store.records import Evidence
from swarmnode.types import Group, PolicyInfo, Scored
from swarmnode.wire import group_record, policy_label
from swarmproto import (
    AnnouncedGroup,
    AnnouncementDraft,
    Bundle,
    FetchRequest,
    FetchResponse,
    bundle_id,
    bundle_size,
    encode_group,
    public_key_of,
    seal_announcement,
    seal_bundle,
)
from tests.unit.made import scored

SWARM = b"s" * 32
FINGERPRINTS = {("basic_arithmetic", "easy"): b"f" * 32}
LIVE = AnnouncedGroup("basic_arithmetic", "easy", 1, 2)
RELAY = "12D3KooWRelay"
OWN_KEY = public_key_of(bytes(32))
FETCH_SECONDS = 0.1

RULES = AdmissionRules(
    swarm_id=SWARM,
    fingerprints=FINGERPRINTS,
    completion_tokens=16,
    clock_skew_seconds=120.0,
    wants_dead=False,
)

Serve = Callable[[FetchRequest], FetchResponse]


@dataclass
class ScriptedTransport:
    """Delivers `known` at every look, and answers fetches by `serving`, by address."""

    clock: VirtualClock
    holders: Sequence[str] = ()
    known: list[Delivered] = field(default_factory=list)
    serving: dict[str, Serve] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    """How long a holder takes, unless FETCH_SECONDS."""
    prefixes: dict[str, str] = field(default_factory=dict)
    """By peer, where it is not one of its own."""
    asked: list[tuple[str, FetchRequest]] = field(default_factory=list)
    held: list[tuple[bytes, bytes, Mapping[int, bytes], float]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    async def start(self) -> None:
        raise AssertionError

    async def announce(self, announcement: bytes, bundle: Bundle, expires: float) -> None:
        raise AssertionError

    async def discover(self, count: int) -> Sequence[Delivered]:
        return list(self.known)

    async def fetch(self, holder: str, request: FetchRequest) -> FetchResponse:
        self.asked.append((holder, request))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.clock.sleep(self.seconds.get(holder, FETCH_SECONDS))
        finally:
            self.at_once -= 1
        if holder not in self.serving:
            raise TransportError("no answer")
        return self.serving[holder](request)

    async def prefixes_of(self, peers: Sequence[str]) -> Sequence[str]:
        return [self.prefixes.get(peer, own_prefix(peer)) for peer in peers]

    async def hold(
        self, announcement: bytes, bundle_header: bytes, groups: Mapping[int, bytes], expires: float
    ) -> None:
        self.held.append((announcement, bundle_header, groups, expires))

    async def health(self) -> Mapping[str, Any]:
        raise AssertionError

    async def close(self) -> None:
        raise AssertionError

    def deliver(self, *announcements: bytes, peer: str = RELAY) -> None:
        """Let these be all that is known."""
        self.known = [Delivered(data, peer) for data in announcements]


class FirstIsRight:
    """Scores the first completion of every group 1 and the others 0, unless told otherwise."""

    def __init__(self, clock: VirtualClock, reasons: Sequence[Reason] = ()) -> None:
        self._clock = clock
        self._reasons = list(reasons)

    async def score_external(
        self, groups: Sequence[Group], prefix: str
    ) -> tuple[Sequence[Scored], Sequence[Reason]]:
        refused = self._reasons[: len(groups)]
        return [
            Scored(
                group,
                (1.0, *([0.0] * (len(group.completions) - 1))),
                "external",
                self._clock.now(),
                prefix=prefix,
            )
            for group in groups[len(refused) :]
        ], refused


@dataclass
class Stranger:
    """A peer that signs what it likes and serves it under its address."""

    number: int
    clock: VirtualClock
    sequence: int = 0

    @property
    def private_key(self) -> bytes:
        return bytes([self.number]) * 32

    @property
    def key(self) -> bytes:
        return public_key_of(self.private_key)

    @property
    def name(self) -> str:
        return peer_id_of(self.key)

    @property
    def address(self) -> str:
        return f"/ip4/192.0.2.{self.number}/tcp/4001/p2p/{self.name}"

    def group(self, index: int, completions: int = 2, tokens: int = 2) -> bytes:
        """A group at an index of this peer's stream, encoded."""
        scores = [1.0] + [0.0] * (completions - 1)
        group = scored(scores, index=index, publisher=self.key).group
        texts = [
            replace(each, token_count=tokens, logprobs=(-0.5,) * tokens)
            for each in group.completions
        ]
        fingerprint = FINGERPRINTS["basic_arithmetic", "easy"]
        return encode_group(group_record(replace(group, completions=tuple(texts)), fingerprint))

    def bundle(self, *groups: bytes, created: float | None = None) -> Bundle:
        """The groups under the next sequence number."""
        self.sequence += 1
        created = self.clock.now() if created is None else created
        label = policy_label(PolicyInfo("tiny", 3, bytes(32)))
        created_ms = int(created * 1000)
        return seal_bundle(self.private_key, SWARM, self.sequence, created_ms, label, groups)

    def announcement(
        self,
        bundle: Bundle,
        claimed: Sequence[AnnouncedGroup] | None = None,
        holders: Sequence[str] | None = None,
        **changes: Any,
    ) -> bytes:
        """What announces a bundle, of live groups of two completions unless told otherwise."""
        created = int(self.clock.now() * 1000)
        draft = AnnouncementDraft(
            instance=self.private_key[:16],
            bundle_id=bundle_id(bundle.header_bytes),
            size=bundle_size(bundle),
            groups=(LIVE,) * len(bundle.group_bytes) if claimed is None else tuple(claimed),
            policy_version=0,
            created=created,
            expires=created + 300_000,
            holders=(self.address,) if holders is None else tuple(holders),
        )
        return seal_announcement(
            self.private_key, changes.pop("swarm_id", SWARM), replace(draft, **changes)
        )


def honestly(*bundles: Bundle) -> Serve:
    """Serves what is asked for, of these bundles."""
    held = {bundle_id(bundle.header_bytes): bundle for bundle in bundles}

    def answer(request: FetchRequest) -> FetchResponse:
        if request.bundle_id not in held:
            return FetchResponse("missing", None, ())
        bundle = held[request.bundle_id]
        asked = (at for at in request.positions if at < len(bundle.group_bytes))
        groups = tuple((at, bundle.group_bytes[at]) for at in asked)
        return FetchResponse("ok", bundle.header_bytes, groups)

    return answer


@dataclass
class Scene:
    """A collector, what is around it, and what it told."""

    clock: VirtualClock
    transport: ScriptedTransport
    collector: Collector
    pool: Pool
    duplicates: list[tuple[bytes, float]]
    muted: list[tuple[str, float]]
    served: list[str]
    admitted: list[tuple[Scored, Evidence]]

    async def look(self, *announcements: bytes, peer: str = RELAY) -> None:
        """Let these announcements be delivered, and look once."""
        self.transport.deliver(*announcements, peer=peer)
        await self.collector.look()

    async def hears_of(self, stranger: Stranger, *indices: int) -> None:
        """An honest bundle of a stranger is announced, served, and looked for."""
        bundle = stranger.bundle(*(stranger.group(index) for index in indices))
        self.transport.serving[stranger.address] = honestly(bundle)
        await self.look(stranger.announcement(bundle), peer=stranger.name)

    def mutes(self, peer: str) -> bool:
        return self.collector.standing.muted_seconds(peer, self.clock.now()) > 0


def scene(
    clock: VirtualClock,
    *,
    rewards: ExternalRewards | None = None,
    standing: Standing | None = None,
    remembered: Remembered | None = None,
    quality: Quality | None = None,
    pool_groups: int = 100,
    completions_kept: int = 64,
    groups_per_look: int = 8,
    prefers: Preference = indifferent,
    **rules: Any,
) -> Scene:
    """A collector with nothing around it yet; `rules` change RULES."""
    transport = ScriptedTransport(clock)
    pool = Pool(capacity=pool_groups, age_seconds=600)
    duplicates: list[tuple[bytes, float]] = []
    muted: list[tuple[str, float]] = []
    served: list[str] = []
    admitted: list[tuple[Scored, Evidence]] = []
    collector = Collector(
        own_key=OWN_KEY,
        own_instance=b"i" * 16,
        rules=replace(RULES, **rules),
        transport=transport,
        rewards=rewards or FirstIsRight(clock),
        pool=pool,
        clock=clock,
        rng=random.Random(1),
        every_seconds=1.0,
        discover_count=64,
        groups_per_look=groups_per_look,
        prefers=prefers,
        completions_kept=completions_kept,
        standing=standing,
        remembered=remembered,
        quality=quality,
        notices=Notices(
            duplicate=lambda instance, created: duplicates.append((instance, created)),
            muted=lambda peer, seconds: muted.append((peer, seconds)),
            served=served.append,
            admitted=lambda pooled, evidence: admitted.append((pooled, evidence)),
        ),
    )
    return Scene(clock, transport, collector, pool, duplicates, muted, served, admitted)


def simulate(scenario: Callable[[VirtualClock], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        runner.run(scenario(VirtualClock(loop)))
