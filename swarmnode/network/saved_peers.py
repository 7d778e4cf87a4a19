"""Addresses of other peers: which to dial when, and which to remember for the next start.

Pure: time and outcomes come in. Bootstrap addresses are dialled for ever, saved ones ever more
seldom, those only heard of until they have failed three times. go-libp2p itself refuses to dial
an address again within 5 to 6 s of a failure, so no wait is shorter. Source: network.md §1, §6.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from swarmnode.network.addresses import RELAYED
from swarmnode.network.peer import peer_id_in
from swarmproto import ADDRESS_BYTES_MAX

SAVED_MAX: Final = 50
HEARD_MAX: Final = 256
FIRST_WAIT_SECONDS: Final = 7.0
WAIT_SECONDS_MAX: Final = {"bootstrap": 60.0, "saved": 600.0, "heard": 60.0}
HEARD_TRIES: Final = 3

Source = Literal["bootstrap", "saved", "heard"]
_ORDER: Final[tuple[Source, ...]] = ("bootstrap", "saved", "heard")


class SavedPeers:
    """At most 50 addresses of peers that were good to us, one a peer, the newest good first."""

    def __init__(self, addresses: Iterable[str] = ()) -> None:
        self._by_peer: dict[str, str] = {}
        for address in reversed(list(addresses)[:SAVED_MAX]):
            self.good(address)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The newest good first."""
        return tuple(reversed(self._by_peer.values()))

    def good(self, address: str) -> None:
        """A peer did what it should; an address without a peer id at its end is no use."""
        peer_id = peer_id_in(address)
        if not peer_id or len(address) > ADDRESS_BYTES_MAX:
            return
        self._by_peer.pop(peer_id, None)
        self._by_peer[peer_id] = address
        while len(self._by_peer) > SAVED_MAX:
            del self._by_peer[next(iter(self._by_peer))]

    def bad(self, peer_id: str) -> None:
        """Forget a peer."""
        self._by_peer.pop(peer_id, None)


@dataclass(slots=True)
class Dial:
    """One address and how dialling it went."""

    address: str
    peer_id: str
    source: Source
    next_at: float
    failures: int = 0
    worked: bool = False
    """Whether we have ever been connected by dialling it."""

    @property
    def wait_seconds(self) -> float:
        """From the last failure to the next try."""
        doubled = FIRST_WAIT_SECONDS * 2.0 ** min(max(self.failures - 1, 0), 10)
        return min(doubled, WAIT_SECONDS_MAX[self.source])


class DialBook:
    """Every address we know, and when to dial it."""

    def __init__(self, own_peer_id: str = "") -> None:
        self._dials: dict[str, Dial] = {}
        self.own_peer_id = own_peer_id
        """Addresses of ourselves are never dialled."""

    def add(self, address: str, source: Source, now: float) -> None:
        """Know an address; a bootstrap address that is also heard of stays one."""
        peer_id = peer_id_in(address)
        if not peer_id or len(address) > ADDRESS_BYTES_MAX:
            return
        dial = self._dials.get(address)
        if dial is None:
            self._make_room(source)
            self._dials[address] = Dial(address, peer_id, source, now)
        elif _ORDER.index(source) < _ORDER.index(dial.source):
            dial.source = source

    def due(self, now: float, connected: Collection[str], count: int) -> Sequence[Dial]:
        """At most `count` to dial now: bootstrap first, then those that failed least."""
        due = [
            dial
            for dial in self._dials.values()
            if dial.next_at <= now
            and dial.peer_id not in connected
            and dial.peer_id != self.own_peer_id
        ]
        due.sort(key=lambda dial: (_ORDER.index(dial.source), dial.failures, dial.next_at))
        return due[:count]

    def tried(self, address: str, succeeded: bool, now: float) -> None:
        """How a dial ended."""
        dial = self._dials.get(address)
        if dial is None:
            return
        dial.worked = dial.worked or succeeded
        dial.failures = 0 if succeeded else dial.failures + 1
        dial.next_at = now + dial.wait_seconds
        if dial.source == "heard" and dial.failures >= HEARD_TRIES:
            del self._dials[address]

    def again_at_once(self, now: float) -> None:
        """All addresses are due: our own peer is a new one."""
        for dial in self._dials.values():
            dial.next_at = now
            dial.failures = 0

    def forget(self, peer_id: str) -> None:
        """Dial a peer no more, unless it is a bootstrap peer."""
        self._dials = {
            address: dial
            for address, dial in self._dials.items()
            if dial.peer_id != peer_id or dial.source == "bootstrap"
        }

    def of(self, source: Source) -> Sequence[Dial]:
        """The addresses of one source."""
        return [dial for dial in self._dials.values() if dial.source == source]

    def wait_seconds(self, now: float, connected: Collection[str]) -> float | None:
        """Until a bootstrap peer is dialled next, 0.0 while one is; None if none has to be."""
        waits = [
            dial.next_at - now
            for dial in self.of("bootstrap")
            if dial.peer_id not in connected and dial.peer_id != self.own_peer_id
        ]
        return max(0.0, min(waits)) if waits else None

    def dialable(self, connected: Collection[str]) -> Sequence[str]:
        """Addresses by which connected peers were dialled: others can dial them, too.

        Through a relay nobody should be sent.
        """
        return [
            dial.address
            for dial in self._dials.values()
            if dial.worked and dial.peer_id in connected and RELAYED not in dial.address
        ]

    def _make_room(self, source: Source) -> None:
        heard = self.of("heard")
        if source == "heard" and len(heard) >= HEARD_MAX:
            # Working ones stay; of the others whoever came first.
            del self._dials[min(heard, key=lambda dial: (dial.worked, -dial.failures)).address]
