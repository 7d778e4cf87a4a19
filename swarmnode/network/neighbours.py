"""Who is said to be on the local network: what to dial of that, and what came of it.

Pure: time and outcomes come in. Nothing that is said is believed; whoever answers a dial proves its
id by the handshake. Bounded in all and by source, so that one that makes up nodes crowds out its
own. Whom we have reached goes to the book of those that are dialled for ever.
"""

from __future__ import annotations

import random
from collections import Counter, OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from swarmnode.turns import in_turns

TOLD_MAX: Final = 64
TOLD_BY_HOST_MAX: Final = 8
"""Nodes at one address; the machine of somebody who runs a few has them."""
TRIES: Final = 2
RETRY_SECONDS: Final = 7.0
"""go-libp2p refuses to dial sooner after a failure."""
SHUN_SECONDS: Final = 60.0
SHUNNED_REMEMBERED: Final = 1024
KNOWN_REMEMBERED: Final = 256


@dataclass(slots=True)
class Neighbour:
    """A node that is said to be there."""

    peer_id: str
    host: str
    port: int
    next_at: float
    failures: int = 0

    @property
    def address(self) -> str:
        """As a multiaddr that ends in /p2p/ID."""
        return f"/ip4/{self.host}/tcp/{self.port}/p2p/{self.peer_id}"


class Neighbours:
    """Those that are to be dialled, and those that were reached."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._told: dict[str, Neighbour] = {}
        self._shunned: OrderedDict[str, float] = OrderedDict()
        self._reached: OrderedDict[str, None] = OrderedDict()
        self.counts: Counter[str] = Counter()
        """What became of nodes that we were told of: `told`, `crowded_out`, `shunned`, `reached`,
        `unreached`."""

    def told(self, peer_id: str, host: str, port: int, now: float) -> None:
        """Somebody says that this node is at this address."""
        neighbour = Neighbour(peer_id, host, port, now)
        name = neighbour.address
        if name in self._told:
            return
        if self._shunned.get(name, now) > now:
            self.counts["shunned"] += 1
            return
        self.counts["told"] += 1
        of_host = [each for each, other in self._told.items() if other.host == host]
        if len(of_host) >= TOLD_BY_HOST_MAX:
            self._crowd_out(of_host)
        elif len(self._told) >= TOLD_MAX:
            self._crowd_out(list(self._told))
        self._told[name] = neighbour

    def due(self, now: float, connected: Collection[str], count: int) -> Sequence[Neighbour]:
        """At most `count` to dial now: hosts take turns, each with a random one of its own."""
        by_host: dict[str, list[Neighbour]] = {}
        for each in self._told.values():
            if each.next_at <= now and each.peer_id not in connected:
                by_host.setdefault(each.host, []).append(each)
        for ready in by_host.values():
            self._rng.shuffle(ready)
        return in_turns(list(by_host.values()), self._rng, count)

    def tried(self, neighbour: Neighbour, reached: bool, now: float) -> None:
        """How a dial ended."""
        self.counts["reached" if reached else "unreached"] += 1
        if reached:
            self._told.pop(neighbour.address, None)
            self._reached[neighbour.peer_id] = None
            self._reached.move_to_end(neighbour.peer_id)
            while len(self._reached) > KNOWN_REMEMBERED:
                self._reached.popitem(last=False)
            return
        neighbour.failures += 1
        neighbour.next_at = now + RETRY_SECONDS
        if neighbour.failures >= TRIES:
            self._told.pop(neighbour.address, None)
            self._shunned[neighbour.address] = now + SHUN_SECONDS
            while len(self._shunned) > SHUNNED_REMEMBERED:
                self._shunned.popitem(last=False)

    def reached(self, connected: Collection[str]) -> int:
        """How many of the connected peers we found here."""
        return sum(peer_id in self._reached for peer_id in connected)

    def again_at_once(self) -> None:
        """We are elsewhere, or somebody new: nothing that failed before counts."""
        self._told.clear()
        self._shunned.clear()

    def _crowd_out(self, names: Sequence[str]) -> None:
        self.counts["crowded_out"] += 1
        del self._told[self._rng.choice(names)]
