"""What a membership tells its daemon of itself, in plain values that cross a channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from swarmnode.clock import Clock
from swarmnode.network.addresses import relay_in, relayed_ones
from swarmnode.network.membership import Membership

TURNED_AWAY_TOLD: Final = 64


def health_of(member: Membership, clock: Clock) -> dict[str, Any]:
    """How we are connected; the keys of Transport.health, and counters beside them."""
    peer, now = member.peer, clock.now()
    last = member.rendezvous.last_acknowledged
    connected = set(peer.connections)
    told, seen = peer.clock_offset, member.known.clocks.offset(connected)
    return {
        "state": peer.state,
        "peer_id": peer.peer_id,
        "addresses": list(peer.addresses),
        "reachable": member.company.reachable,
        "reach": _reach(member),
        "relays": _relays(member),
        "peers": len(connected),
        "strangers": sum(map(member.sealing.is_stranger, connected)) if member.sealing else 0,
        "known_announcements": len(member.known),
        "last_acknowledgement_seconds": None if last is None else max(0.0, now - last),
        "restarts": peer.restarts,
        "swarm_size": member.swarm_size(),
        "shard_level": member.rendezvous.estimate.level,
        "clock_offset_seconds": seen if told is None else told,
        "bytes_in": peer.bytes_in,
        "bytes_out": peer.bytes_out,
        "bootstrap": [
            {
                "address": dial.address,
                "connected": dial.peer_id in connected,
                "failures": dial.failures,
            }
            for dial in member.book.of("bootstrap")
        ],
        "next_attempt_seconds": member.book.wait_seconds(now, connected),
        "error": peer.error,
        "lan": None if member.lan is None else member.lan.told(connected),
        "calls": dict(+peer.calls),
        "announcements": dict(member.known.counts),
        "served": dict(member.serving.counts),
        "turned_away": dict(member.doors.counts),
        "relayed": dict(member.doors.relayed),
        "looks": dict(member.rendezvous.counts),
        "gossip": dict(member.gossip.counts) | {"listening": int(member.gossip.listening)},
        "unopened": dict(member.sealing.counts) if member.sealing else {},
        "held_bytes": {
            origin: member.shelf.bytes_held(origin) for origin in ("own", "offered", "relayed")
        },
    }


def _reach(member: Membership) -> str:
    """How others get to us, in one word; see UNKNOWN_HEALTH."""
    if member.company.reachable:
        return "nearby" if member.company.only_nearby else "reachable"
    if _relays(member):
        return "relayed"
    return "unknown" if member.company.reachable is None else "unreachable"


def _relays(member: Membership) -> list[str]:
    return list(dict.fromkeys(map(relay_in, relayed_ones(member.peer.addresses))))


def peers_of(member: Membership, clock: Clock) -> Sequence[dict[str, Any]]:
    """Each connected peer, and the TURNED_AWAY_TOLD latest others that were turned away."""
    now, connections = clock.now(), member.peer.connections
    away = [each for each in member.doors.turned_away() if each not in connections]
    connected = [
        {
            "peer_id": peer_id,
            "address": connection.address,
            "seconds_connected": max(0.0, now - connection.since),
            "missed_pings": connection.missed_pings,
            **_traffic_with(member, peer_id),
        }
        for peer_id, connection in connections.items()
    ]
    others = [
        {
            "peer_id": peer_id,
            "address": "",
            "seconds_connected": None,
            "missed_pings": 0,
            **_traffic_with(member, peer_id),
        }
        for peer_id in away[:TURNED_AWAY_TOLD]
    ]
    return [*connected, *others]


def _traffic_with(member: Membership, peer_id: str) -> dict[str, Any]:
    return {
        "fetched_bytes": member.errands.fetched.of(peer_id),
        "served_bytes": member.serving.served.of(peer_id),
        **member.doors.told(peer_id),
    }
