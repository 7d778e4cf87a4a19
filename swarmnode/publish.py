"""Publishing: what a round shares is sealed and handed to the transport, which holds and tells it.

`put` can't fail and never waits; the sealing and announcing happen beside the rounds. When the
queue is full the oldest round's groups are given up and counted: fresh ones are worth more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from swarmnode.clock import Clock
from swarmnode.network.transport import Transport
from swarmnode.types import Scored
from swarmnode.wire import announced_group, group_record, policy_label
from swarmproto import (
    ANNOUNCEMENT_BYTES_MAX,
    AnnouncementDraft,
    Bundle,
    WireError,
    bundle_id,
    bundle_size,
    encode_group,
    next_sequence,
    seal_announcement,
    seal_bundle,
)

QUEUED_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Identity:
    """Who publishes: a key, and the home it lives in (16 random bytes)."""

    private_key: bytes = field(repr=False)
    public_key: bytes
    instance: bytes


class Numbers(Protocol):
    """Sequence numbers of a key's bundles; none is ever given twice, over restarts too."""

    async def next(self, now_ms: int) -> int:
        """The number of the next bundle; `now_ms` is in unix milliseconds."""


Published = Callable[[bytes, Bundle], None]
"""Hears of everything that leaves, an announcement with its bundle, just before."""


class AscendingNumbers:
    """Sequence numbers of one run: right where the key or the clock's time is never used again."""

    def __init__(self) -> None:
        self._last = -1

    async def next(self, now_ms: int) -> int:
        """The number of the next bundle."""
        self._last = next_sequence(self._last, now_ms)
        return self._last


class Publisher:
    """One node's outgoing side; `run` must be running for anything to leave."""

    def __init__(
        self,
        *,
        identity: Identity,
        swarm_id: bytes,
        transport: Transport,
        clock: Clock,
        fingerprints: Mapping[tuple[str, str], bytes],
        announcement_seconds: float,
        numbers: Numbers | None = None,
        published: Published | None = None,
        announcement_bytes_max: int = ANNOUNCEMENT_BYTES_MAX,
    ) -> None:
        self._identity = identity
        self._swarm_id = swarm_id
        self._transport = transport
        self._clock = clock
        self._fingerprints = fingerprints
        self._announcement_seconds = announcement_seconds
        self._queue: asyncio.Queue[Sequence[Scored]] = asyncio.Queue(QUEUED_ROUNDS)
        self._numbers = numbers or AscendingNumbers()
        self._published = published
        self._announcement_bytes_max = announcement_bytes_max
        self.started_ms = int(clock.now() * 1000)
        """When this run began, unix milliseconds: of two with one key, the later keeps silent."""
        self.paused = False
        """Whether nothing is published, as while another process publishes under the same key."""
        self.counts: Counter[str] = Counter()
        """Bundles, groups and bytes published; rounds given up, or withheld while paused; groups
        that may not travel."""

    def put(self, groups: Sequence[Scored]) -> None:
        """Hand over what a round shares; nothing is published of an empty round."""
        if not groups:
            return
        if self._queue.full():
            self._queue.get_nowait()
            self.counts["given_up"] += 1
        self._queue.put_nowait(groups)

    async def run(self) -> None:
        """Publish what is put, until cancelled."""
        while True:
            await self.publish(await self._queue.get())

    async def publish(self, groups: Sequence[Scored]) -> None:
        """Seal, hold and announce groups of one policy: in one bundle, or in parts."""
        if self.paused:
            self.counts["withheld"] += 1
            return
        if sendable := list(self._encoded(groups)):
            await self._publish(sendable)

    async def _publish(self, sendable: Sequence[tuple[Scored, bytes]]) -> None:
        now = self._clock.now()
        expires = now + self._announcement_seconds
        try:
            bundle = self._sealed(sendable, now, await self._numbers.next(int(now * 1000)))
            announcement = self._announcement(sendable, bundle, now, expires)
        except WireError:
            await self._publish_in_parts(sendable)
            return
        if self._published is not None:
            self._published(announcement, bundle)
        await self._transport.announce(announcement, bundle, expires)
        self.counts.update(bundles=1, groups=len(sendable), bytes=bundle_size(bundle))

    async def _publish_in_parts(self, sendable: Sequence[tuple[Scored, bytes]]) -> None:
        """Halves of what exceeds a bundle, or an announcement, with its many tasks."""
        if len(sendable) == 1:
            self.counts["unsendable"] += 1
            return
        middle = len(sendable) // 2
        for half in (sendable[:middle], sendable[middle:]):
            await self._publish(half)

    def _sealed(self, sendable: Sequence[tuple[Scored, bytes]], now: float, number: int) -> Bundle:
        return seal_bundle(
            self._identity.private_key,
            self._swarm_id,
            number,
            int(now * 1000),
            policy_label(sendable[0][0].group.policy),
            [encoded for _, encoded in sendable],
        )

    def _announcement(
        self, sendable: Sequence[tuple[Scored, bytes]], bundle: Bundle, now: float, expires: float
    ) -> bytes:
        """An announcement with as many holders as fit beside all the groups, the best first."""
        holders = tuple(self._transport.holders)
        while len(holders) > 1:
            with contextlib.suppress(WireError):
                return self._naming(holders, sendable, bundle, now, expires)
            holders = holders[:-1]
        return self._naming(holders, sendable, bundle, now, expires)

    def _naming(
        self,
        holders: tuple[str, ...],
        sendable: Sequence[tuple[Scored, bytes]],
        bundle: Bundle,
        now: float,
        expires: float,
    ) -> bytes:
        return seal_announcement(
            self._identity.private_key,
            self._swarm_id,
            AnnouncementDraft(
                instance=self._identity.instance,
                bundle_id=bundle_id(bundle.header_bytes),
                size=bundle_size(bundle),
                groups=tuple(announced_group(scored) for scored, _ in sendable),
                policy_version=sendable[0][0].group.policy.version,
                created=int(now * 1000),
                expires=int(expires * 1000),
                holders=holders,
                started=self.started_ms,
            ),
            self._announcement_bytes_max,
        )

    def _encoded(self, groups: Sequence[Scored]) -> Iterator[tuple[Scored, bytes]]:
        """The groups that fit the wire; a model may write what may not travel, such as U+0000."""
        for scored in groups:
            question = scored.group.question
            fingerprint = self._fingerprints[question.task, question.level]
            try:
                yield scored, encode_group(group_record(scored.group, fingerprint))
            except WireError:
                self.counts["unsendable"] += 1
