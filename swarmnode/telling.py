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
from swarmnode.observe.status import StatusDocument
from swarmnode.prefixes import EXEMPT
from swarmnode.selection.quality import Shares
from swarmnode.store.store import Store
from swarmnode.vitals import Vitals


class ConnectedTransport(Transport, Protocol):
    """A transport that tells who is connected now."""

    async def peers(self) -> Sequence[Mapping[str, Any]]:
        """Plain values: peer_id, address, seconds_connected, fetched_bytes, served_bytes, prefix,
        left, turned_away, refused."""


def documents_of(
    vitals: Vitals,
    memories: Memories,
    transport: ConnectedTransport,
    store: Store,
    clock: Clock,
) -> Documents:
    """The four documents."""

    async def status() -> object:
        return (await status_of(vitals, transport, clock)).as_json()

    async def peers() -> object:
        return (await peers_of(memories, transport, clock)).model_dump(mode="json")

    async def rollouts(count: int) -> object:
        bundles = await store.bundles(count)
        return RolloutsDocument(bundles=tuple(map(BundleDocument.of, bundles))).as_json()

    async def why(peer: str) -> object:
        now = clock.now()
        near = {str(each["peer_id"]): each for each in await transport.peers()}
        known = (*memories.standing.peers(now), *near)
        name = next((each for each in known if each.startswith(peer)), peer)
        status = _peer(near.get(name, {"peer_id": name}), memories, now)
        lines = (
            *memories.standing.why(name, now),
            *_quality_lines(memories.quality.of(name, now)),
            *door_lines(status),
        )
        return WhyDocument(peer=name, lines=lines).model_dump(mode="json")

    return Documents(status=status, peers=peers, rollouts=rollouts, why=why)


async def status_of(vitals: Vitals, transport: ConnectedTransport, clock: Clock) -> StatusDocument:
    """What the node tells of itself now."""
    vitals.heard(await transport.health(), clock.now())
    return vitals.document(clock.now())


async def peers_of(
    memories: Memories, transport: ConnectedTransport, clock: Clock
) -> PeersDocument:
    """Whom it knows now: those that are connected, and those that something is known of."""
    near = {str(peer["peer_id"]): peer for peer in await transport.peers()}
    now = clock.now()
    known = dict.fromkeys((*near, *memories.standing.peers(now)))
    return PeersDocument(
        peers=tuple(_peer(near.get(name, {"peer_id": name}), memories, now) for name in known)
    )


def near_peer(near: Mapping[str, Any]) -> PeerStatus:
    """What the network process tells of a peer."""
    return PeerStatus(
        peer=str(near["peer_id"]),
        address=near.get("address") or "",
        connected=near.get("seconds_connected") is not None,
        seconds_connected=near.get("seconds_connected"),
        fetched_bytes=near.get("fetched_bytes") or 0,
        served_bytes=near.get("served_bytes") or 0,
        prefix=near.get("prefix") or "",
        left=near.get("left") or {},
        turned_away=near.get("turned_away") or 0,
        refused=near.get("refused") or False,
    )


def _peer(near: Mapping[str, Any], memories: Memories, now: float) -> PeerStatus:
    status = near_peer(near)
    quality = memories.quality.of(status.peer, now)
    return status.model_copy(
        update={
            "admitted": memories.standing.admitted(status.peer, now),
            "dropped": memories.standing.dropped(status.peer, now),
            "muted_seconds": memories.standing.muted_seconds(status.peer, now),
            "quality": None if quality is None else quality.score,
        }
    )


def _quality_lines(quality: Shares | None) -> Sequence[str]:
    if quality is None:
        return ()
    return (
        f"Quality {quality.score:.2f}, by what came of it lately: of {quality.groups:.1f} groups "
        f"(older ones count less) {quality.held:.0%} held, {quality.live:.0%} were live, "
        f"{quality.admitted:.0%} were admitted. Nobody is muted for this.",
    )


def door_lines(peer: PeerStatus) -> Sequence[str]:
    """How it stands in the network process."""
    lines = ["Not connected: it shares with all whom we know through others."]
    if peer.connected and peer.prefix.startswith(EXEMPT):
        lines = ["Connected from a network of network.exempt_networks: it shares with nobody."]
    elif peer.connected:
        lines = [
            f"Connected from {peer.prefix}, with whose peers it shares what they may have of us."
        ]
    if peer.left:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in peer.left.items())
        lines.append(f"Left to it: {shares}.")
    if peer.turned_away:
        lines.append(f"Messages turned away unread, since they were too many: {peer.turned_away}.")
    if peer.refused and not peer.muted_seconds:
        lines.append("It went on sending what was turned away, and is refused for a minute.")
    return lines
