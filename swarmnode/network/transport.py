"""The one interface between a node and a swarm.

A transport moves bytes that swarmproto has sealed and knows nothing of tasks, rewards or policies.
Every implementation is interchangeable; none is trusted: what it brings is opened and verified by
the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from swarmproto import Bundle, FetchRequest, FetchResponse


class TransportError(Exception):
    """A peer could not be reached, or the message was lost. Trying again later is the remedy."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """An announcement as it was received, not verified."""

    data: bytes
    peer: str
    """Id of the peer that delivered it; empty when unknown, and for the author's own record."""


UNKNOWN_HEALTH: Mapping[str, Any] = {
    "state": "starting",
    "peer_id": "",
    "addresses": [],
    "reachable": None,
    "reach": "unknown",
    "relays": [],
    "peers": 0,
    "strangers": 0,
    "known_announcements": 0,
    "last_acknowledgement_seconds": None,
    "restarts": 0,
    "swarm_size": 0,
    "shard_level": 0,
    "clock_offset_seconds": None,
    "bytes_in": 0,
    "bytes_out": 0,
    "bootstrap": [],
    "next_attempt_seconds": None,
    "error": "",
    "lan": None,
    "asked_for": [],
}
"""Health of which nothing is known yet; all values are plain.

`state` is starting, alone, connected or down; `reachable` a bool or None (unknown), by those who
have tried to dial us; `reach` how others get to us: unknown, reachable, nearby (nobody has tried
who is not on our local networks), relayed (through `relays`, by id), unreachable; `peers` those
connected, `strangers` those of them that are no members of a private swarm;
`last_acknowledgement_seconds` an age or None (never); `swarm_size` an estimate, and `shard_level`
the bits of prefix that follow, by which announcements are spread over the DHT;
`clock_offset_seconds` the median of the peers' clocks minus ours or None (unknown); `bootstrap`
mappings of address, connected and failures; `next_attempt_seconds` until one of those that are not
connected is dialled, or None (all are, or unknown); `error` one line, empty for none; `lan`
where this node is on local networks and whom it found there, None where it does not look: a mapping
of addresses (host and port), connected, error and counts; `asked_for` which of the settings
`public` and `relay` are on.
"""


class Transport(Protocol):
    """A node's access to one swarm. Every call ends within the transport's own time limit."""

    @property
    def holders(self) -> Sequence[str]:
        """Addresses to name in the next announcement, the best first, at most HOLDERS_MAX.

        Our own, if others can dial us, else those of peers that will be offered the bundle.
        """

    async def start(self) -> None:
        """Join, and serve what is held until `close`."""

    async def announce(self, announcement: bytes, bundle: Bundle, expires: float) -> None:
        """Hold our own bundle, offer it to the other holders, make its announcement known.

        All of it until `expires` (seconds since 1970). Never raises.
        """

    async def discover(self, count: int) -> Sequence[Delivered]:
        """At most `count` announcements that others know, rather new ones, none verified."""

    async def fetch(self, holder: str, request: FetchRequest) -> FetchResponse:
        """Fetch a header and chosen groups from `holder`. Raises TransportError."""

    async def prefixes_of(self, peers: Sequence[str]) -> Sequence[str]:
        """Where each of these peers, by id, is connected to us from: see prefixes.py.

        By their own authenticated connections, not by what anybody says. Never raises.
        """

    async def hold(
        self, announcement: bytes, bundle_header: bytes, groups: Mapping[int, bytes], expires: float
    ) -> None:
        """What the node admitted of a peer's bundle, by position: it may be served to others.

        Never raises.
        """

    async def health(self) -> Mapping[str, Any]:
        """How it stands, at once: the keys of UNKNOWN_HEALTH, and perhaps more."""

    async def close(self) -> None:
        """Leave."""
