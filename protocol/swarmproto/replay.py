"""Sequence numbers: which one comes next, and which bundles of a key were seen.

Pure: the clock is passed in, the caller persists. Numbers follow the clock in milliseconds, so
they are sparse; the window therefore holds the last 1024 numbers that were accepted, not a range
of 1024 numbers. Source: protocol/README.md, section 6.3.
"""

import bisect
import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from swarmproto.errors import Reason, WireError
from swarmproto.limits import COUNTER_MAX, REPLAY_WINDOW_WIDTH

ReplayVerdict = Literal["fresh", "duplicate", "equivocation", "stale"]

_DIGEST_BYTES: Final = 16
_HEAD: Final = struct.Struct(">BqH")
_ENTRY: Final = struct.Struct(f">q{_DIGEST_BYTES}s")
_FORMAT: Final = 1


def next_sequence(last: int, now_ms: int) -> int:
    """The number of the next bundle; `last` is -1 where none was ever used."""
    return max(last + 1, now_ms)


@dataclass(frozen=True, slots=True)
class ReplayWindow:
    """The bundles of one key that were accepted.

    `floor` is the largest number that was pushed out (-1: none): it and all below are stale.
    `entries` are (number, first 16 bytes of the bundle id), ascending, at most 1024.
    """

    floor: int = -1
    entries: tuple[tuple[int, bytes], ...] = ()

    def check(self, sequence: int, bundle_id: bytes) -> ReplayVerdict:
        """Equivocation: the key has signed another bundle with this number."""
        if sequence <= self.floor:
            return "stale"
        at = bisect.bisect_left(self.entries, (sequence, b""))
        if at == len(self.entries) or self.entries[at][0] != sequence:
            return "fresh"
        same = self.entries[at][1] == bundle_id[:_DIGEST_BYTES]
        return "duplicate" if same else "equivocation"

    def accepting(self, sequence: int, bundle_id: bytes) -> "ReplayWindow":
        """The window with this bundle; the same one unless `check` says fresh."""
        if self.check(sequence, bundle_id) != "fresh":
            return self
        entries = list(self.entries)
        bisect.insort(entries, (sequence, bundle_id[:_DIGEST_BYTES]))
        if len(entries) <= REPLAY_WINDOW_WIDTH:
            return ReplayWindow(self.floor, tuple(entries))
        return ReplayWindow(entries[0][0], tuple(entries[1:]))

    def to_bytes(self) -> bytes:
        """At most 24 KiB + 11 bytes; ours alone, never sent."""
        packed = [_HEAD.pack(_FORMAT, self.floor, len(self.entries))]
        packed += [_ENTRY.pack(sequence, digest) for sequence, digest in self.entries]
        return b"".join(packed)

    @classmethod
    def from_bytes(cls, data: bytes) -> "ReplayWindow":
        """Raises WireError for bytes that `to_bytes` can't have made."""
        if len(data) < _HEAD.size:
            raise WireError(Reason.TRUNCATED, "shorter than a replay window")
        form, floor, count = _HEAD.unpack_from(data)
        if form != _FORMAT:
            raise WireError(Reason.VERSION, "another form of replay window")
        if count > REPLAY_WINDOW_WIDTH or not -1 <= floor <= COUNTER_MAX:
            raise WireError(Reason.RANGE, "more than a replay window holds")
        expected = _HEAD.size + count * _ENTRY.size
        if len(data) != expected:
            reason = Reason.TRUNCATED if len(data) < expected else Reason.TRAILING
            raise WireError(reason, "not the length that the window names")
        entries = tuple(_ENTRY.iter_unpack(data[_HEAD.size :]))
        numbers = [floor, *(sequence for sequence, _ in entries)]
        if numbers[-1] > COUNTER_MAX or any(low >= high for low, high in pairwise(numbers)):
            raise WireError(Reason.RANGE, "numbers that don't ascend or are too large")
        return cls(floor, entries)
