"""What a relay carries for whom: reservations and circuits, under limits. Pure.

A node that nobody can dial reserves a place, for an hour at most, and others may then have circuits
to it. Places are few and keys are free, so that an address prefix has a share of both. Times are
any clock's seconds. Source: libp2p's circuit relay v2; the limits are those of p2pd.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

PLACES_MAX: Final = 128
PLACES_OF_PREFIX_MAX: Final = 8
PLACE_SECONDS: Final = 3600.0
CIRCUITS_MAX: Final = 64
CIRCUITS_OF_PEER_MAX: Final = 16
"""To one peer, and from one."""
CIRCUITS_OF_PREFIX_MAX: Final = 32
"""From all peers of one address prefix."""
CIRCUITS_OF_PREFIX_TO_PEER_MAX: Final = 8
"""From all peers of one address prefix to one peer, so that its places are not all taken there."""
CIRCUIT_SECONDS: Final = 1800.0
CIRCUIT_BYTES_MAX: Final = 256 * 1024 * 1024
"""In each direction."""


@dataclass(frozen=True, slots=True)
class Circuit:
    """Who began it, by id and address prefix, and to whom it leads."""

    source: str
    prefix: str
    target: str


class Circuits:
    """Of one relay. `prefix_of` gives a connected peer's address prefix."""

    def __init__(self, prefix_of: Callable[[str], str]) -> None:
        self._prefix_of = prefix_of
        self._until: dict[str, float] = {}
        self._prefixes: dict[str, str] = {}
        self._open: list[Circuit] = []

    def reserve(self, peer_id: str, now: float) -> bool:
        """Whether this peer has a place for PLACE_SECONDS from now; it may be asked for anew."""
        for other in [each for each in self._until if not self.has_place(each, now)]:
            self.leave(other)
        prefix = self._prefix_of(peer_id)
        others = [each for name, each in self._prefixes.items() if name != peer_id]
        if len(others) >= PLACES_MAX or others.count(prefix) >= PLACES_OF_PREFIX_MAX:
            return False
        self._until[peer_id], self._prefixes[peer_id] = now + PLACE_SECONDS, prefix
        return True

    def has_place(self, peer_id: str, now: float) -> bool:
        """Whether circuits may lead to this peer."""
        return now < self._until.get(peer_id, now)

    def leave(self, peer_id: str) -> None:
        """The peer has gone, and its place with it."""
        self._until.pop(peer_id, None)
        self._prefixes.pop(peer_id, None)

    def begin(self, source: str, target: str) -> Circuit | None:
        """A circuit to a peer that has a place; None where it would be one too many."""
        prefix = self._prefix_of(source)
        ends = Counter(end for each in self._open for end in (each.source, each.target))
        near = [each.target for each in self._open if each.prefix == prefix]
        if (
            max(ends[source], ends[target]) >= CIRCUITS_OF_PEER_MAX
            or near.count(target) >= CIRCUITS_OF_PREFIX_TO_PEER_MAX
            or len(near) >= CIRCUITS_OF_PREFIX_MAX
            or len(self._open) >= CIRCUITS_MAX
        ):
            return None
        circuit = Circuit(source, prefix, target)
        self._open.append(circuit)
        return circuit

    def end(self, circuit: Circuit) -> None:
        """It is carried no more."""
        self._open.remove(circuit)

    def places(self) -> tuple[str, ...]:
        """Ids of those who have one, or had until it lapsed."""
        return tuple(self._until)

    @property
    def carried(self) -> int:
        """Circuits that are open."""
        return len(self._open)
