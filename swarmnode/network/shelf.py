"""The bundles that a node holds and serves, until they expire or the quota pushes them out."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from swarmnode.clock import Clock
from swarmproto import Bundle, FetchRequest, FetchResponse, bundle_id, bundle_size

_MISSING = FetchResponse(status="missing", header_bytes=None, groups=())


@dataclass(frozen=True, slots=True)
class _Held:
    bundle: Bundle
    expires: float


class Shelf:
    """Bundles by id, at most `quota_bytes` of them; the oldest goes first."""

    def __init__(self, clock: Clock, *, quota_bytes: int) -> None:
        self._clock = clock
        self._quota_bytes = quota_bytes
        self._held: OrderedDict[bytes, _Held] = OrderedDict()
        self._bytes = 0

    def put(self, bundle: Bundle, expires: float) -> bytes:
        """Hold a bundle until `expires` (seconds since 1970); returns its id."""
        name = bundle_id(bundle.header_bytes)
        if name not in self._held:
            self._held[name] = _Held(bundle, expires)
            self._bytes += bundle_size(bundle)
        now = self._clock.now()
        while self._held:
            oldest = next(iter(self._held.values()))
            if oldest.expires > now and self._bytes <= self._quota_bytes:
                break
            self._held.popitem(last=False)
            self._bytes -= bundle_size(oldest.bundle)
        return name

    def answer(self, request: FetchRequest) -> FetchResponse:
        """Serve one fetch: the header and those asked-for groups that the bundle has."""
        held = self._held.get(request.bundle_id)
        if held is None or held.expires <= self._clock.now():
            return _MISSING
        bundle = held.bundle
        if held.bundle.header.swarm_id != request.swarm_id:
            return _MISSING
        groups = tuple(
            (position, bundle.group_bytes[position])
            for position in request.positions
            if position < len(bundle.group_bytes)
        )
        return FetchResponse(status="ok", header_bytes=bundle.header_bytes, groups=groups)
