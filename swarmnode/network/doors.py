"""Who may ask this node for how much: every message of a stranger passes here, unread.

One for each membership: it outlives the peers that are built anew. Knows no protocol and no bytes.
A message is let in while its sender, the sender's address prefix and all together have something
left; what a protocol spends beyond that (bytes that leave, bundles and records that stay) it takes
from the allowances here. Whoever goes on sending what is turned away is hung up on for a while,
which is no mute: nothing is held against it afterwards. Source: security.md section 3.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from swarmnode.buckets import Rate
from swarmnode.clock import Clock
from swarmnode.network.allowance import Allowance
from swarmnode.network.whereabouts import Whereabouts

MIB: Final = 1024 * 1024
RUDE_MESSAGES: Final = 10
"""Turned away of one peer between two looks, a quarter of a second apart: an honest node sends
fewer in all. Of one that is refused already any is too many."""
HANG_UP_SECONDS: Final = 60.0
REFUSED_MAX: Final = 4096
TURNED_AWAY_REMEMBERED: Final = 1024


@dataclass(frozen=True, slots=True)
class Limit:
    """What a peer, an address prefix, and all together may have of one thing."""

    each: Rate
    prefix: Rate
    together: Rate


@dataclass(frozen=True, slots=True)
class Limits:
    """Of everything that strangers may have of us. A prefix has what two peers have."""

    messages: Limit = Limit(Rate(30.0, 300.0), Rate(60.0, 600.0), Rate(300.0, 3000.0))
    """Requests of every protocol and messages of the DHT, before they are read."""
    calls: Limit = Limit(Rate(5.0, 50.0), Rate(10.0, 100.0), Rate(200.0, 1000.0))
    """Requests that are answered, beside those of the DHT."""
    bytes: Limit = Limit(
        Rate(1.0 * MIB, 8.0 * MIB), Rate(2.0 * MIB, 16.0 * MIB), Rate(8.0 * MIB, 64.0 * MIB)
    )
    """Bytes of bundles and of records that leave."""
    offers: Limit = Limit(Rate(0.2, 4.0), Rate(0.4, 8.0), Rate(5.0, 50.0))
    """Bundles to be held for others."""
    records: Limit = Limit(Rate(0.5, 32.0), Rate(1.0, 64.0), Rate(20.0, 1000.0))
    """Records of the DHT to be verified and held: a node has two a minute."""
    tries: Limit = Limit(Rate(0.1, 4.0), Rate(0.2, 8.0), Rate(2.0, 16.0))
    """Connections to be tried back."""
    circuits: Limit = Limit(Rate(0.5, 8.0), Rate(1.0, 16.0), Rate(10.0, 50.0))
    """Circuits begun through us: a peer that they lead to counts them as ours."""
    carried: Limit = Limit(
        Rate(1.0 * MIB, 8.0 * MIB), Rate(2.0 * MIB, 16.0 * MIB), Rate(8.0 * MIB, 64.0 * MIB)
    )
    """Bytes that a peer sends through us to another; beyond that they wait."""
    gossip: Limit = Limit(Rate(2.0, 30.0), Rate(60.0, 600.0), Rate(100.0, 1000.0))
    """Announcements of one publisher that are verified, as gossip; those whom we know through
    others only share one prefix."""
    forwarded: Limit = Limit(Rate(100.0, 1000.0), Rate(200.0, 2000.0), Rate(300.0, 3000.0))
    """Messages of gossip that one peer passes on, whoever published them, before they are
    verified."""


class Doors:
    """What is let in, and what may be had."""

    def __init__(
        self, clock: Clock, whereabouts: Whereabouts, limits: Limits | None = None
    ) -> None:
        limits = limits or Limits()
        self.whereabouts: Final = whereabouts
        self.calls: Final = _allowance(clock, whereabouts, limits.calls)
        self.bytes: Final = _allowance(clock, whereabouts, limits.bytes)
        self.offers: Final = _allowance(clock, whereabouts, limits.offers)
        self.records: Final = _allowance(clock, whereabouts, limits.records)
        self.tries: Final = _allowance(clock, whereabouts, limits.tries)
        self.circuits: Final = _allowance(clock, whereabouts, limits.circuits)
        self.carried: Final = _allowance(clock, whereabouts, limits.carried)
        self.gossip: Final = _allowance(clock, whereabouts, limits.gossip)
        self.forwarded: Final = _allowance(clock, whereabouts, limits.forwarded)
        self._messages = _allowance(clock, whereabouts, limits.messages)
        self._clock = clock
        self._refused_until: OrderedDict[str, float] = OrderedDict()
        self._rude: Counter[str] = Counter()
        self._turned_away: OrderedDict[str, int] = OrderedDict()
        self.counts: Counter[str] = Counter()
        """Messages turned away, by why: `refused`, or whose allowance was short."""
        self.relayed: Counter[str] = Counter()
        """What we did as a relay: places and circuits, given and refused, and bytes carried."""

    def admits(self, peer_id: str) -> bool:
        """Whether a message of this peer is to be read."""
        if self.refuses(peer_id):
            why: str | None = "refused"
        else:
            why = self._messages.take(peer_id, 1.0)
        if why is None:
            return True
        self.counts[why] += 1
        if why in ("refused", "peer") and (
            peer_id in self._rude or len(self._rude) < TURNED_AWAY_REMEMBERED
        ):
            self._rude[peer_id] += RUDE_MESSAGES if why == "refused" else 1
        self._turned_away[peer_id] = self._turned_away.get(peer_id, 0) + 1
        self._turned_away.move_to_end(peer_id)
        if len(self._turned_away) > TURNED_AWAY_REMEMBERED:
            self._turned_away.popitem(last=False)
        return False

    def refuse(self, peer_id: str, seconds: float) -> None:
        """Let nothing of this peer in for so long, or as long as was said before."""
        until = max(self._clock.now() + seconds, self._refused_until.get(peer_id, 0.0))
        self._refused_until[peer_id] = until
        self._refused_until.move_to_end(peer_id)
        if len(self._refused_until) > REFUSED_MAX:
            self._refused_until.popitem(last=False)

    def refuses(self, peer_id: str) -> bool:
        """Whether nothing of this peer is let in now."""
        return self._refused_until.get(peer_id, 0.0) > self._clock.now()

    def rude(self) -> Sequence[str]:
        """Whom to hang up on, by what was turned away since this was last asked; refused now."""
        found = [peer_id for peer_id, count in self._rude.items() if count >= RUDE_MESSAGES]
        self._rude.clear()
        for peer_id in found:
            self.refuse(peer_id, HANG_UP_SECONDS)
        return found

    def turned_away(self) -> Sequence[str]:
        """Those of whom something was turned away lately, the latest first."""
        return list(reversed(self._turned_away))

    def told(self, peer_id: str) -> Mapping[str, Any]:
        """How a peer stands, in plain values."""
        kinds = {
            "messages": self._messages,
            "calls": self.calls,
            "bytes": self.bytes,
            "offers": self.offers,
            "records": self.records,
        }
        return {
            "prefix": self.whereabouts.prefix_of(peer_id),
            "refused": self.refuses(peer_id),
            "turned_away": self._turned_away.get(peer_id, 0),
            "left": {name: min(kind.left(peer_id)) for name, kind in kinds.items()},
        }


def _allowance(clock: Clock, whereabouts: Whereabouts, limit: Limit) -> Allowance:
    return Allowance(
        clock,
        whereabouts.prefix_of,
        each=limit.each,
        prefix=limit.prefix,
        together=limit.together,
    )
