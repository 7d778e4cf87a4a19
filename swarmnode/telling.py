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
from swarmnode.network.transport import Transport
from swarmnode.selection.standing import Standing
from swarmnode.store.store import Store
from swarmnode.vitals import Vitals


class ConnectedTransport(Transport, Protocol):
    """A transport that tells who is connected now."""

    async def peers(self) -> Sequence[Mapping[str, Any]]:
        """Plain values: peer_id, address, seconds_connected, fetched_bytes, served_bytes."""


def documents_of(
    vitals: Vitals,
    memories: Memories,
    transport: ConnectedTransport,
    store: Store,
    clock: Clock,
) -> Documents:
    """The four documents."""

    async def status() -> object:
        vitals.heard(await transport.health(), clock.now())
        return vitals.document(clock.now()).as_json()

    async def peers() -> object:
        near = {str(peer["peer_id"]): peer for peer in await transport.peers()}
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
        near = [str(each["peer_id"]) for each in await transport.peers()]
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
