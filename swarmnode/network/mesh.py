"""Whom the messages of one topic are handed to at once, and who only hears that there are some.

GossipSub's mesh, pure: peers are names, moments seconds of one clock. Whoever is in it gets every
message; a few others are told the names of messages each second, and ask for what they lack, so
that a peer that nobody took into its mesh hears everything all the same, a second later.
Departures from the specification: a peer that asks is taken beyond DEGREE_HIGH, up to MEMBERS_MAX,
and pruned by chance at the next beat, so that those who were there first do not shut others out;
no scores. Source: GossipSub v1.0 and v1.1 (libp2p/specs, pubsub/gossipsub).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Final

DEGREE: Final = 4
DEGREE_LOW: Final = 3
DEGREE_HIGH: Final = 6
"""Neighbours that every message comes from: each copy costs a core milliseconds."""
MEMBERS_MAX: Final = 12
CHOSEN_KEPT: Final = 2
"""Of those we chose ourselves, who are never pruned: an attacker who asks first can't have all."""
LAZY: Final = 6
LAZY_SHARE: Final = 0.25
"""Others who are told names: so many, or this share of them."""
REST_SECONDS: Final = 10.0
"""That we ask of whom we prune."""
REST_SECONDS_UNSAID: Final = 60.0
REST_SECONDS_MAX: Final = 3600.0


class Mesh:
    """Of one topic that we listen to."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._members: dict[str, bool] = {}
        self._rests: dict[str, float] = {}

    @property
    def members(self) -> Collection[str]:
        """Who gets every message at once."""
        return self._members.keys()

    def asked(self, peer: str, now: float) -> bool:
        """A peer asks to be a member: whether it is one now; if not it has to be told."""
        if peer not in self._members:
            if self._rests.get(peer, now) > now or len(self._members) >= MEMBERS_MAX:
                return False
            self._members[peer] = False
        return True

    def left(self, peer: str, rest_seconds: float, now: float) -> None:
        """A peer is no member of ours, by its word, and asks to be left alone; 0 for unsaid."""
        self._members.pop(peer, None)
        rest = min(rest_seconds or REST_SECONDS_UNSAID, REST_SECONDS_MAX)
        self._rests[peer] = max(self._rests.get(peer, now), now + rest)

    def gone(self, peer: str) -> None:
        """A peer is not connected, or does not listen."""
        self._members.pop(peer, None)

    def forget(self, peer: str) -> None:
        """A peer is not connected."""
        self.gone(peer)
        self._rests.pop(peer, None)

    def chosen(self, listeners: Collection[str], now: float) -> Sequence[str]:
        """Members to add, who have to be told: none unless there are too few."""
        if len(self._members) >= DEGREE_LOW:
            return []
        fit = [
            peer
            for peer in listeners
            if peer not in self._members and self._rests.get(peer, now) <= now
        ]
        added = self._rng.sample(fit, min(len(fit), DEGREE - len(self._members)))
        self._members.update(dict.fromkeys(added, True))
        return added

    def pruned(self, now: float) -> Sequence[str]:
        """Members to let go, who have to be told: none unless there are too many."""
        if len(self._members) <= DEGREE_HIGH:
            return []
        ours = [peer for peer, was_chosen in self._members.items() if was_chosen]
        kept = set(self._rng.sample(ours, min(len(ours), CHOSEN_KEPT)))
        others = [peer for peer in self._members if peer not in kept]
        over = self._rng.sample(others, len(self._members) - DEGREE)
        for peer in over:
            self.left(peer, REST_SECONDS, now)
        return over

    def lazy(self, listeners: Collection[str]) -> Sequence[str]:
        """Some of those who are no members, to be told names."""
        others = [peer for peer in listeners if peer not in self._members]
        count = max(LAZY, int(len(others) * LAZY_SHARE))
        return self._rng.sample(others, min(len(others), count))
