"""The standing of peers: what was dropped of each, and which are muted for it. Pure.

A REJECT mutes the peer that it concerns: for an hour, each further time for twice as long, up to a
day. So does the third group of an author in an hour whose text killed our scorer: once may be a
verifier's weakness that an honest answer found. A day without another offence, counted from the end
of the mute, and all of it is forgotten. What happens during a mute is counted and lengthens
nothing, so that one faulty delivery of many pieces is one offence. Any other IGNORE is counted and
never punishes.

Peers are named by texts that mean nothing here. The memory is bounded: peers that were never
rejected are forgotten first, then those that have been clean for the longest. Names are free, so a
flood of them can make a mute be forgotten; it can't fill the memory. The clock's reading is passed
in; where it was set back, no mute outlasts a day.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from swarmnode.observe.metrics import DROPPED
from swarmnode.selection.admission import Reason, Verdict

PEERS = 4096
"""Peers that are remembered."""

FIRST_MUTE_SECONDS = 3600.0
LONGEST_MUTE_SECONDS = 86_400.0
CLEAN_SECONDS = 86_400.0
"""After so long without an offence, since the last mute ended, a peer's offences are forgotten."""

SCORER_KILLS = 3
KILLS_SECONDS = 3600.0
"""So many groups of one author that killed the scorer within so long are an offence. When they did
is not kept over a restart."""

_ADMITTED = "admitted"
"""Stands among the reasons in what is kept of a peer."""


@dataclass(slots=True)
class _Record:
    offences: int = 0
    muted_until: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    kills: list[float] = field(default_factory=list)
    """When groups killed the scorer, since the last offence; the last SCORER_KILLS."""

    def muted_seconds(self, now: float) -> float:
        left = self.muted_until - now
        return left if 0.0 < left <= LONGEST_MUTE_SECONDS else 0.0

    def offends(self, reason: Reason, now: float) -> bool:
        """Whether this, after all that was noted, is to be punished."""
        if reason is not Reason.SCORER_KILLED:
            return reason.verdict is Verdict.REJECT
        recent = [moment for moment in self.kills if 0 <= now - moment < KILLS_SECONDS]
        self.kills = [*recent, now][-SCORER_KILLS:]
        return len(self.kills) == SCORER_KILLS

    def clean(self, now: float) -> bool:
        return now >= self.muted_until + CLEAN_SECONDS


class Standing:
    """Of at most `capacity` peers."""

    def __init__(self, capacity: int = PEERS) -> None:
        self._capacity = capacity
        self._offenders: OrderedDict[str, _Record] = OrderedDict()
        """Ordered by their last offence."""
        self._others: OrderedDict[str, _Record] = OrderedDict()
        """Never rejected; ordered by when something of theirs was last dropped."""

    def __len__(self) -> int:
        return len(self._offenders) + len(self._others)

    def note(self, peer: str, reason: Reason, now: float) -> float:
        """Count what was dropped of a peer; returns the seconds that it is muted for from now on.

        0.0 where it is not muted for this: under IGNORE, scorer kills in a row excepted, and while
        it is muted already.
        """
        record = self._known(peer, now) or _Record()
        record.counts[reason.value] += 1
        offended = record.offends(reason, now)
        seconds = 0.0
        if offended and not record.muted_seconds(now):
            seconds = min(FIRST_MUTE_SECONDS * 2.0**record.offences, LONGEST_MUTE_SECONDS)
            record.offences += 1
            record.muted_until = now + seconds
            record.kills = []
        self._keep(peer, record, offended=offended)
        return seconds

    def admit(self, peer: str, now: float) -> None:
        """Count a group of the peer's that was admitted."""
        record = self._known(peer, now) or _Record()
        record.counts[_ADMITTED] += 1
        self._keep(peer, record, offended=False)

    def admitted(self, peer: str, now: float) -> int:
        """Groups of the peer's that were admitted."""
        record = self._known(peer, now)
        return record.counts[_ADMITTED] if record else 0

    def muted_seconds(self, peer: str, now: float) -> float:
        """How much longer the peer is muted; 0.0 where it isn't."""
        record = self._offenders.get(peer)
        return record.muted_seconds(now) if record else 0.0

    def why(self, peer: str, now: float) -> Sequence[str]:
        """What an operator may want to know of a peer, a line for each thing; no peer's words."""
        record = self._known(peer, now)
        admitted = self.admitted(peer, now)
        lines = [f"Groups admitted: {admitted}."] if admitted else []
        if record is None or not self.dropped(peer, now):
            return (*lines, "Nothing is held against it.")
        if seconds := record.muted_seconds(now):
            until = datetime.fromtimestamp(record.muted_until, UTC)
            lines.append(
                f"Muted until {until:%Y-%m-%d %H:%M:%S} UTC, for {seconds / 60:.0f} more minutes."
            )
        if record.offences:
            times = _times(record.offences)
            lines.append(f"Muted {times}, the next time for longer; forgotten after a clean day.")
        for reason, count in Counter(self.dropped(peer, now)).most_common():
            meaning = DROPPED.get(reason, "A reason of another version.")
            lines.append(f"{reason}, {_times(count)}: {meaning}")
        return tuple(lines)

    def dropped(self, peer: str, now: float) -> Mapping[str, int]:
        """What was dropped of a peer, by reason."""
        record = self._known(peer, now)
        counts = record.counts if record else {}
        return {reason: count for reason, count in counts.items() if reason != _ADMITTED}

    def peers(self, now: float) -> Sequence[str]:
        """The peers that something is known of, offenders first."""
        return tuple(peer for peer in (*self._offenders, *self._others) if self._known(peer, now))

    def to_values(self) -> list[list[object]]:
        """Everything, as lists, texts and numbers."""
        return [
            [peer, record.offences, record.muted_until, dict(record.counts)]
            for records in (self._others, self._offenders)
            for peer, record in records.items()
        ]

    @classmethod
    def from_values(cls, values: Sequence[Sequence[object]], capacity: int = PEERS) -> Standing:
        """Raises ValueError for what `to_values` can't have made."""
        standing = cls(capacity)
        for value in values:
            match value:
                case [str(peer), int(offences), int() | float() as until, dict(counts)]:
                    record = _Record(offences, float(until), Counter(counts))
                    standing._keep(peer, record, offended=offences > 0)
                case _:
                    raise ValueError("no standing of a peer")
        return standing

    def _known(self, peer: str, now: float) -> _Record | None:
        record = self._offenders.get(peer)
        if record and record.clean(now):
            del self._offenders[peer]
            return None
        return record or self._others.get(peer)

    def _keep(self, peer: str, record: _Record, *, offended: bool) -> None:
        if offended:
            self._others.pop(peer, None)
            self._offenders[peer] = record
            self._offenders.move_to_end(peer)
        elif not record.offences:
            self._others[peer] = record
            self._others.move_to_end(peer)
        if len(self) > self._capacity:
            (self._others or self._offenders).popitem(last=False)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
