"""Messages of gossip by name: those of late, to be handed on again, and those that are wanted.

Pure: moments come in, seconds of one clock. A name is its publisher's id and number, and means
nothing here. All of it is bounded by time and by size, since names are what strangers say.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

KEPT_SECONDS: Final = 120.0
"""That a message can be asked for: a peer that is slow, or was away, is that late at most."""
KEPT_BYTES_MAX: Final = 4 * 1024 * 1024
SEEN_SECONDS: Final = 300.0
"""Longer than anybody keeps a message: it must not come anew."""
SEEN_MAX: Final = 32768
ANSWER_SECONDS: Final = 3.0
"""For a peer to send what it was asked for, the first time; twice as much the second."""
TELLERS_MAX: Final = 3
INSTANT: Final = 1e-6
"""Between two messages, so that a moment tells them apart."""
WANTED_OF_PEER_MAX: Final = 512
WANTED_MAX: Final = 8192


@dataclass(frozen=True, slots=True)
class _Kept:
    topic: str
    data: bytes
    since: float


@dataclass(slots=True)
class RecentMessages:
    """What was heard and said of late."""

    _kept: OrderedDict[bytes, _Kept] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _seen: OrderedDict[bytes, float] = field(default_factory=OrderedDict)

    def is_seen(self, name: bytes) -> bool:
        """Whether this one was heard, said, or refused before."""
        return name in self._seen

    def see(self, name: bytes, now: float) -> None:
        """It was, from now on."""
        self._seen[name] = now
        if len(self._seen) > SEEN_MAX:
            self._seen.popitem(last=False)

    def keep(self, name: bytes, topic: str, data: bytes, now: float) -> None:
        """Have a message for those who ask for it."""
        last = next(reversed(self._kept.values())).since if self._kept else now
        self._kept[name] = _Kept(topic, data, max(now, last + INSTANT))
        self._bytes += len(data)
        while self._bytes > KEPT_BYTES_MAX:
            self._drop_oldest()

    def kept(self, name: bytes) -> bytes | None:
        """A message that is asked for, as it was kept."""
        found = self._kept.get(name)
        return None if found is None else found.data

    def names(
        self, topic: str, since: float, until: float, most: int
    ) -> tuple[Sequence[bytes], float]:
        """Those kept of a topic after one moment and up to another, the oldest first.

        And up to when that is: there may be more of them.
        """
        late = takewhile(lambda item: item[1].since > since, reversed(self._kept.items()))
        found = [
            (kept.since, name) for name, kept in late if kept.topic == topic and kept.since <= until
        ][::-1]
        names = [name for _, name in found[:most]]
        return names, until if len(found) <= most else found[most - 1][0]

    def expire(self, now: float) -> None:
        """Drop what is too old."""
        while self._kept and next(iter(self._kept.values())).since < now - KEPT_SECONDS:
            self._drop_oldest()
        while self._seen and next(iter(self._seen.values())) < now - SEEN_SECONDS:
            self._seen.popitem(last=False)

    def _drop_oldest(self) -> None:
        _, dropped = self._kept.popitem(last=False)
        self._bytes -= len(dropped.data)


@dataclass(slots=True)
class _Want:
    tellers: list[str]
    since: float
    asked_at: float
    tries: int = 1


@dataclass(slots=True)
class Wanted:
    """Messages that others have and we don't: one peer at a time is asked, since copies cost both.

    Who told us of a message owes it to us for as long as it is kept, so that it has to be told but
    once; when it doesn't come, another who told of it is asked, and the same one again, ever later.
    """

    _wants: OrderedDict[bytes, _Want] = field(default_factory=OrderedDict)
    _of_peer: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self._wants)

    def told(self, names: Sequence[bytes], peer: str, now: float) -> Sequence[bytes]:
        """A peer has these, none of which came yet: which of them to ask it for now."""
        chosen: list[bytes] = []
        for name in names:
            want = self._wants.get(name)
            if want is not None:
                if peer not in want.tellers and len(want.tellers) < TELLERS_MAX:
                    want.tellers.append(peer)
            elif len(self._wants) < WANTED_MAX and self._of_peer[peer] < WANTED_OF_PEER_MAX:
                self._wants[name] = _Want([peer], now, now)
                self._of_peer[peer] += 1
                chosen.append(name)
        return chosen

    def came(self, name: bytes) -> bool:
        """A message came, from whomever; whether somebody was asked for it."""
        want = self._wants.pop(name, None)
        if want is not None:
            self._over(want)
        return want is not None

    def again(self, now: float, connected: Collection[str]) -> Mapping[str, Sequence[bytes]]:
        """Whom to ask for what, since it did not come; what nobody keeps is given up."""
        asked: dict[str, list[bytes]] = {}
        for name, want in list(self._wants.items()):
            tellers = [peer for peer in want.tellers if peer in connected]
            if not tellers or want.since < now - KEPT_SECONDS:
                self.came(name)
            elif want.asked_at < now - ANSWER_SECONDS * want.tries:
                asked.setdefault(tellers[want.tries % len(tellers)], []).append(name)
                want.tries += 1
                want.asked_at = now
        return asked

    def _over(self, want: _Want) -> None:
        first = want.tellers[0]
        self._of_peer[first] -= 1
        if self._of_peer[first] <= 0:
            del self._of_peer[first]
