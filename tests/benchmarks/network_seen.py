"""What one node of the network benchmark observes: a transport and a pool that take notes.

Both pass everything on as it is. Knows no network process and no page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swarmnode.clock import Clock
from swarmnode.network.transport import Delivered, Transport, TransportError
from swarmnode.selection.pool import Pool
from swarmnode.types import Scored
from swarmproto import Bundle, FetchRequest, FetchResponse, encode_fetch_response
from tests.benchmarks.network_rows import percentile

POOL_GROUPS = 12

_PUBLIC_KEY = slice(37, 69)
"""Of an envelope (protocol/README.md, section 5)."""


@dataclass(slots=True)
class Seen:
    """What one node observed; times in seconds of its clock."""

    look_began: float = 0.0
    to_pool: list[float] = field(default_factory=list)
    """From a discover call to each group of that look in the pool."""
    fetch_seconds: list[float] = field(default_factory=list)
    announce_seconds: list[float] = field(default_factory=list)
    authors: set[bytes] = field(default_factory=set)
    """Whose announcements were delivered."""
    fetched_bytes: int = 0
    """Of fetch responses, whole."""
    failed_fetches: int = 0
    trained_groups: int = 0
    trained_bytes: int = 0
    """Of the groups trained on, as encoded."""

    def forget(self) -> None:
        """Count from here on; whom it heard of is remembered."""
        self.fetched_bytes = self.failed_fetches = self.trained_groups = self.trained_bytes = 0
        for times in (self.to_pool, self.fetch_seconds, self.announce_seconds):
            times.clear()


def fetch_figures(seen: Sequence[Seen], rounds: int) -> dict[str, float]:
    """What nodes fetched and trained on, each on average a round, and how long it took."""
    node_rounds = len(seen) * rounds
    return {
        "trained_groups": sum(each.trained_groups for each in seen) / node_rounds,
        "trained_bytes": sum(each.trained_bytes for each in seen) / node_rounds,
        "fetched_bytes": sum(each.fetched_bytes for each in seen) / node_rounds,
        "failed_fetches": float(sum(each.failed_fetches for each in seen)),
        **times("fetch", [s for each in seen for s in each.fetch_seconds]),
        **times("to_pool", [s for each in seen for s in each.to_pool]),
    }


def times(name: str, seconds: Sequence[float]) -> dict[str, float]:
    """Their number, median, ninth decile and greatest, by `name`."""
    if not seconds:
        return {f"{name}_count": 0.0}
    return {
        f"{name}_count": float(len(seconds)),
        f"{name}_p50": percentile(seconds, 0.5),
        f"{name}_p90": percentile(seconds, 0.9),
        f"{name}_max": max(seconds),
    }


class WatchedTransport:
    """A Transport that notes what passes through it."""

    def __init__(self, inner: Transport, clock: Clock, seen: Seen) -> None:
        self._inner = inner
        self._clock = clock
        self._seen = seen

    @property
    def holders(self) -> Sequence[str]:
        """As inside."""
        return self._inner.holders

    async def start(self) -> None:
        """As inside."""
        await self._inner.start()

    async def announce(self, announcement: bytes, bundle: Bundle, expires: float) -> None:
        """As inside, timed."""
        began = self._clock.now()
        await self._inner.announce(announcement, bundle, expires)
        self._seen.announce_seconds.append(self._clock.now() - began)

    async def discover(self, count: int) -> Sequence[Delivered]:
        """As inside; a look begins."""
        self._seen.look_began = self._clock.now()
        found = await self._inner.discover(count)
        self._seen.authors.update(each.data[_PUBLIC_KEY] for each in found)
        return found

    async def fetch(self, holder: str, request: FetchRequest) -> FetchResponse:
        """As inside, timed and weighed."""
        began = self._clock.now()
        try:
            response = await self._inner.fetch(holder, request)
        except TransportError:
            self._seen.failed_fetches += 1
            raise
        self._seen.fetch_seconds.append(self._clock.now() - began)
        self._seen.fetched_bytes += len(encode_fetch_response(response))
        return response

    async def prefixes_of(self, peers: Sequence[str]) -> Sequence[str]:
        """As inside."""
        return await self._inner.prefixes_of(peers)

    async def hold(
        self, announcement: bytes, bundle_header: bytes, groups: Mapping[int, bytes], expires: float
    ) -> None:
        """As inside."""
        await self._inner.hold(announcement, bundle_header, groups, expires)

    async def health(self) -> Mapping[str, Any]:
        """As inside."""
        return await self._inner.health()

    async def close(self) -> None:
        """As inside."""
        await self._inner.close()


class TimedPool(Pool):
    """A pool that notes how long after its look's beginning each group arrives."""

    def __init__(self, clock: Clock, seen: Seen) -> None:
        super().__init__(capacity=POOL_GROUPS, age_seconds=600.0)
        self._clock = clock
        self._seen = seen

    def add(self, scored: Scored) -> Sequence[Scored]:
        """As any pool."""
        self._seen.to_pool.append(self._clock.now() - self._seen.look_began)
        return super().add(scored)
