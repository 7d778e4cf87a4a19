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

    async def hold(
        self, announcement: bytes, bundle_header: bytes, groups: Mapping[int, bytes], expires: float
    ) -> None:
        """What the node admitted of a peer's bundle, by position: it may be served to others.

        Never raises.
        """

    async def health(self) -> Mapping[str, Any]:
        """Plain values, at once.

        `state` (starting, alone, connected or down), `peer_id`, `addresses`, `reachable` (None:
        unknown), `peers` (connected), `known_announcements`, `last_acknowledgement_seconds` (age;
        None: never), `restarts`, `swarm_size` (estimate), `clock_offset_seconds` (median of the
        peers' clocks minus ours; None: unknown), `bytes_in`, `bytes_out`, `bootstrap` (mappings of
        address, connected, failures), `error` (one line; empty: none).
        """

    async def close(self) -> None:
        """Leave."""
