"""What the status socket answers: a node's vitals, peers, and the bundles that left it.

Gathers; swarmnode.api says what the documents are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from swarmnode.api.documents import (
    BundleDocument,
    PeersDocument,
    PeerStatus,
    RolloutsDocument,
    WhyDocument,
)
from swarmnode.api.status import Documents
from swarmnode.clock import Clock
from swarmnode.memories import Memories
from swarmnode.network.transport import Delivered, Transport
from swarmnode.selection.standing import Standing
from swarmnode.store.records import PublishedBundle
from swarmnode.store.store import Store
from swarmnode.vitals import Vitals
from swarmproto import Bundle, FetchRequest, FetchResponse, bundle_id


class Connected(Protocol):
    """Who is connected now."""

    async def peers(self) -> Sequence[Mapping[str, Any]]:
        """Plain values: peer_id, address, seconds_connected, fetched_bytes, served_bytes."""


class NobodyConnected:
    """Of a node on its own."""

    async def peers(self) -> Sequence[Mapping[str, Any]]:
        """None."""
        return ()


class Recording:
    """A transport that keeps the exact bytes of everything that leaves; else the one within."""

    def __init__(self, within: Transport, store: Store, clock: Clock) -> None:
        self._within = within
        self._store = store
        self._clock = clock

    @property
    def holders(self) -> Sequence[str]:
        """See Transport."""
        return self._within.holders

    async def start(self) -> None:
        """See Transport."""
        await self._within.start()

    async def announce(self, announcement: bytes, bundle: Bundle, expires: float) -> None:
        """See Transport."""
        self._store.record_bundle(
            PublishedBundle(
                created=self._clock.now(),
                sequence=bundle.header.sequence,
                bundle_id=bundle_id(bundle.header_bytes),
                announcement=announcement,
                header=bundle.header_bytes,
                groups=tuple(bundle.group_bytes),
            )
        )
        await self._within.announce(announcement, bundle, expires)

    async def discover(self, count: int) -> Sequence[Delivered]:
        """See Transport."""
        return await self._within.discover(count)

    async def fetch(self, holder: str, request: FetchRequest) -> FetchResponse:
        """See Transport."""
        return await self._within.fetch(holder, request)

    async def hold(
        self, announcement: bytes, bundle_header: bytes, groups: Mapping[int, bytes], expires: float
    ) -> None:
        """See Transport."""
        await self._within.hold(announcement, bundle_header, groups, expires)

    async def health(self) -> Mapping[str, Any]:
        """See Transport."""
        return await self._within.health()

    async def close(self) -> None:
        """See Transport."""
        await self._within.close()


def documents_of(
    vitals: Vitals,
    memories: Memories,
    transport: Transport,
    connected: Connected,
    store: Store,
    clock: Clock,
) -> Documents:
    """The four documents."""

    async def status() -> object:
        vitals.heard(await transport.health(), clock.now())
        return vitals.document(clock.now()).as_json()

    async def peers() -> object:
        near = {str(peer["peer_id"]): peer for peer in await connected.peers()}
        standing, now = memories.standing, clock.now()
        known = dict.fromkeys((*near, *standing.peers(now)))
        document = PeersDocument(
            peers=tuple(_peer(name, near.get(name), standing, now) for name in known)
        )
        return document.model_dump(mode="json")

    async def rollouts(count: int) -> object:
        bundles = await store.bundles(count)
        return RolloutsDocument(bundles=tuple(map(BundleDocument.of, bundles))).as_json()

    async def why(peer: str) -> object:
        standing, now = memories.standing, clock.now()
        near = [str(each["peer_id"]) for each in await connected.peers()]
        found = [name for name in (*standing.peers(now), *near) if name.startswith(peer)]
        name = found[0] if found else peer
        lines = tuple(standing.why(name, now))
        return WhyDocument(peer=name, lines=lines).model_dump(mode="json")

    return Documents(status=status, peers=peers, rollouts=rollouts, why=why)


def _peer(name: str, near: Mapping[str, Any] | None, standing: Standing, now: float) -> PeerStatus:
    near = near or {}
    return PeerStatus(
        peer=name,
        address=near.get("address") or "",
        connected=bool(near),
        seconds_connected=near.get("seconds_connected"),
        fetched_bytes=near.get("fetched_bytes") or 0,
        served_bytes=near.get("served_bytes") or 0,
        admitted=standing.admitted(name, now),
        dropped=standing.dropped(name, now),
        muted_seconds=standing.muted_seconds(name, now),
    )
