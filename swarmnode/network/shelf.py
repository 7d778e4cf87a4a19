"""The bundles that a node holds and serves, whole or in part, until they expire.

Each origin has a quota of bytes. Our own bundles and those that we admitted and pass on make room
for newer ones, the oldest first; what was offered stays as long as was promised, so further offers
are turned away instead. Everything that comes in was verified by whoever puts it here.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from swarmnode.clock import Clock
from swarmproto import Bundle, BundleHeader, FetchRequest, FetchResponse, bundle_id

Origin = Literal["own", "offered", "relayed"]

OFFERED_QUOTA_BYTES: Final = 64 * 1024 * 1024
OFFERED_QUOTA_BYTES_PER_GIVER: Final = 8 * 1024 * 1024
RELAYED_QUOTA_BYTES: Final = 64 * 1024 * 1024
FORGOTTEN_SHARE: Final = 2
FORGOTTEN_LEAST: Final = 1024
"""Expiries of what has long been pushed out are forgotten beyond so many for each bundle held."""

_MISSING = FetchResponse(status="missing", header_bytes=None, groups=())


@dataclass(slots=True)
class _Held:
    header: BundleHeader
    header_bytes: bytes
    groups: dict[int, bytes]
    expires: float
    origin: Origin
    giver: str

    @property
    def size(self) -> int:
        return len(self.header_bytes) + sum(map(len, self.groups.values()))


class Shelf:
    """Bundles by id; `quota_bytes` is for our own."""

    def __init__(
        self,
        clock: Clock,
        *,
        quota_bytes: int,
        offered_quota_bytes: int = OFFERED_QUOTA_BYTES,
        offered_quota_bytes_per_giver: int = OFFERED_QUOTA_BYTES_PER_GIVER,
        relayed_quota_bytes: int = RELAYED_QUOTA_BYTES,
    ) -> None:
        self._clock = clock
        self._quotas: Mapping[Origin, int] = {
            "own": quota_bytes,
            "offered": offered_quota_bytes,
            "relayed": relayed_quota_bytes,
        }
        self._quota_per_giver = offered_quota_bytes_per_giver
        self._held: dict[bytes, _Held] = {}
        self._oldest_first: Mapping[Origin, OrderedDict[bytes, None]] = {
            origin: OrderedDict() for origin in self._quotas
        }
        self._expiries: list[tuple[float, bytes]] = []
        self._bytes: Counter[str] = Counter()
        self._bytes_by_giver: Counter[str] = Counter()

    def bytes_held(self, origin: Origin) -> int:
        """Bytes on the shelf from one origin."""
        return self._bytes[origin]

    def put(self, bundle: Bundle, expires: float) -> bytes:
        """Hold a bundle of our own until `expires` (seconds since 1970); returns its id."""
        groups = dict(enumerate(bundle.group_bytes))
        self._place(_Held(bundle.header, bundle.header_bytes, groups, expires, "own", ""))
        return bundle_id(bundle.header_bytes)

    def offer(self, bundle: Bundle, expires: float, giver: str) -> bool:
        """Hold a bundle for a peer until `expires`; False when its quota, or all of it, is full."""
        groups = dict(enumerate(bundle.group_bytes))
        offered = _Held(bundle.header, bundle.header_bytes, groups, expires, "offered", giver)
        name = bundle_id(bundle.header_bytes)
        self._drop_expired()
        if name in self._held and self._held[name].origin == "relayed":
            self._remove(name)  # may be in part, and nobody was promised that it stays
        if name not in self._held:
            room = self._quotas["offered"] - self._bytes["offered"]
            room = min(room, self._quota_per_giver - self._bytes_by_giver[giver])
            if offered.size > room:
                return False
        self._place(offered)
        return True

    def relay(
        self,
        header: BundleHeader,
        header_bytes: bytes,
        groups: Mapping[int, bytes],
        expires: float,
    ) -> None:
        """Hold what we admitted of a peer's bundle; more groups of it may follow."""
        self._place(_Held(header, header_bytes, dict(groups), expires, "relayed", ""))

    def answer(self, request: FetchRequest) -> FetchResponse:
        """Serve one fetch: the header and those asked-for groups that are held."""
        held = self._held.get(request.bundle_id)
        if held is None or held.expires <= self._clock.now():
            return _MISSING
        if held.header.swarm_id != request.swarm_id:
            return _MISSING
        groups = tuple(
            (position, held.groups[position])
            for position in request.positions
            if position in held.groups
        )
        return FetchResponse(status="ok", header_bytes=held.header_bytes, groups=groups)

    def _place(self, new: _Held) -> None:
        """Hold a bundle, or add its groups to what is held of it, under that one's origin."""
        name = bundle_id(new.header_bytes)
        held = self._held.get(name)
        if held is None:
            held = self._held[name] = new
            self._oldest_first[new.origin][name] = None
            self._charge(new, new.size)
        else:
            before = held.size
            held.groups = {**new.groups, **held.groups}
            held.expires = max(held.expires, new.expires)
            self._charge(held, held.size - before)
        heapq.heappush(self._expiries, (held.expires, name))
        self._drop_expired()
        self._make_room(held.origin)

    def _make_room(self, origin: Origin) -> None:
        oldest_first = self._oldest_first[origin]
        while oldest_first and self._bytes[origin] > self._quotas[origin]:
            self._remove(next(iter(oldest_first)))

    def _drop_expired(self) -> None:
        if len(self._expiries) > FORGOTTEN_SHARE * len(self._held) + FORGOTTEN_LEAST:
            self._expiries = [(held.expires, name) for name, held in self._held.items()]
            heapq.heapify(self._expiries)
        now = self._clock.now()
        while self._expiries and self._expiries[0][0] <= now:
            _, name = heapq.heappop(self._expiries)
            if name in self._held and self._held[name].expires <= now:
                self._remove(name)

    def _remove(self, name: bytes) -> None:
        held = self._held.pop(name)
        del self._oldest_first[held.origin][name]
        self._charge(held, -held.size)

    def _charge(self, held: _Held, size: int) -> None:
        self._bytes[held.origin] += size
        if held.giver:
            self._bytes_by_giver[held.giver] += size
            if not self._bytes_by_giver[held.giver]:
                del self._bytes_by_giver[held.giver]
