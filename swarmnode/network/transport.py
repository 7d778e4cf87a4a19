"""The one interface between a node and a swarm.

A transport moves bytes that swarmproto has sealed and knows nothing of tasks, rewards or policies.
Every implementation is interchangeable; none is trusted: what it brings is opened and verified by
the node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from swarmproto import FetchRequest, FetchResponse

Serve = Callable[[FetchRequest], FetchResponse]
"""What a node answers to a peer that fetches."""


class TransportError(Exception):
    """A peer could not be reached, or the message was lost. Trying again later is the remedy."""


class Transport(Protocol):
    """A node's access to one swarm. Every call ends within the transport's own time limit."""

    @property
    def address(self) -> str:
        """Where others can fetch from this node."""

    async def start(self, serve: Serve) -> None:
        """Join; `serve` answers fetches until `close`."""

    async def announce(self, announcement: bytes, expires: float) -> None:
        """Make an announcement known until `expires` (seconds since 1970). Never raises."""

    async def discover(self, count: int) -> Sequence[bytes]:
        """At most `count` announcements that others know, rather new ones, none verified."""

    async def fetch(self, holder: str, request: FetchRequest) -> FetchResponse:
        """Fetch a header and chosen groups from `holder`. Raises TransportError."""

    async def close(self) -> None:
        """Leave."""
