"""The transport of a node on its own (`--solo`): nobody hears it, and it hears nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from swarmnode.network.transport import Delivered, TransportError
from swarmnode.prefixes import THROUGH_OTHERS
from swarmproto import Bundle, FetchRequest, FetchResponse


class Nobody:
    """See Transport."""

    @property
    def holders(self) -> Sequence[str]:
        """None."""
        return ()

    async def start(self) -> None:
        """Nothing to join."""

    async def announce(self, announcement: bytes, bundle: Bundle, expires: float) -> None:
        """Nothing leaves."""

    async def discover(self, count: int) -> Sequence[Delivered]:
        """Nothing."""
        return ()

    async def fetch(self, holder: str, request: FetchRequest) -> FetchResponse:
        """Raises TransportError."""
        raise TransportError("this node is on its own")

    async def prefixes_of(self, peers: Sequence[str]) -> Sequence[str]:
        """None is connected."""
        return [THROUGH_OTHERS] * len(peers)

    async def hold(
        self, announcement: bytes, bundle_header: bytes, groups: Mapping[int, bytes], expires: float
    ) -> None:
        """Nothing is served."""

    async def health(self) -> Mapping[str, Any]:
        """That no network is wanted."""
        return {"state": "off"}

    async def peers(self) -> Sequence[Mapping[str, Any]]:
        """None are connected."""
        return ()

    async def close(self) -> None:
        """Nothing to leave."""
