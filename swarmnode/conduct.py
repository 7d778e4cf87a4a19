"""How peers conduct themselves: what is dropped is counted, held against whom it concerns, told.

The one place that counts drops and mutes for them; the rules are selection.standing's. A mute is
told at once, so that the network process hangs up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from swarmnode.clock import Clock
from swarmnode.keys import peer_id_of
from swarmnode.network.peer import peer_id_in
from swarmnode.selection.admission import Concerned, Reason, Refused
from swarmnode.selection.quality import Quality
from swarmnode.selection.standing import Standing
from swarmnode.store.records import Evidence
from swarmnode.types import Scored


@dataclass(frozen=True, slots=True)
class Notices:
    """Whom the collector tells of what; each is called at once and must not raise."""

    duplicate: Callable[[bytes, float], None] = lambda _instance, _started_seconds: None
    """Our key is used by another instance too, which began at that moment in seconds since 1970,
    or before; told again where an earlier moment becomes known."""
    muted: Callable[[str, float], None] = lambda _peer, _seconds: None
    """A peer is muted for so many seconds: hang up and refuse it."""
    served: Callable[[str], None] = lambda _holder: None
    """The holder at this address served groups that were admitted."""
    admitted: Callable[[Scored, Evidence], None] = lambda _scored, _evidence: None
    """A peer's group was admitted, as it is pooled, and came in these bytes."""


class Conduct:
    """Of all peers but ourselves."""

    def __init__(
        self, own_name: str, standing: Standing, quality: Quality, notices: Notices, clock: Clock
    ) -> None:
        self.standing = standing
        self.quality = quality
        self.notices = notices
        self.dropped: Counter[Reason] = Counter()
        """What was dropped since the start, by reason."""
        self._own_name = own_name
        self._clock = clock

    def muted(self, peer: str) -> bool:
        """Whether nothing of this peer's is taken now."""
        return self.standing.muted_seconds(peer, self._clock.now()) > 0.0

    def drop(self, refusal: Refused, deliverer: str = "") -> None:
        """Count what is dropped, and hold it against the peer that it concerns, if it is known."""
        reason = refusal.reason
        self.dropped[reason] += 1
        author = peer_id_of(refusal.author) if refusal.author else ""
        peer = deliverer if reason.concerns is Concerned.DELIVERER else author
        if not peer or peer == self._own_name:
            return
        if seconds := self.standing.note(peer, reason, self._clock.now()):
            self.notices.muted(peer, seconds)

    def admit(self, author: bytes) -> None:
        """Count a group that was admitted."""
        self.standing.admit(peer_id_of(author), self._clock.now())


def peer_at(holder: str) -> str:
    """The peer that an address leads to; an address of no peer id stands for itself.

    Empty where a stranger wrote what no terminal should see: nothing is reached there.
    """
    name = peer_id_in(holder) or holder
    return name if name.isprintable() else ""
