"""What is remembered of strangers, so that nothing of theirs is taken twice. Bounded, pure.

Seen announcements by hash, spent question indices, and a replay window for each key. The oldest
are forgotten first. Windows outlast the process: their owner persists what changed.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import TypeVar

from swarmproto import ReplayWindow, WireError

ITEMS = 65_536
"""Announcements, and spent questions, that are remembered: at a look a second more than strangers
can show us before an announcement expires."""

KEYS = 4096
"""Keys whose sequence numbers are remembered; keys are free, so that floods of them come."""

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Remembered:
    """At most `items` announcements and questions each, and `keys` replay windows."""

    def __init__(self, *, items: int = ITEMS, keys: int = KEYS) -> None:
        self._items = items
        self._keys = keys
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self._spent: OrderedDict[tuple[bytes, str, str, int], None] = OrderedDict()
        self._windows: OrderedDict[bytes, ReplayWindow] = OrderedDict()
        self._changed: set[bytes] = set()
        self._earlier: Mapping[bytes, ReplayWindow] = {}

    def __len__(self) -> int:
        return len(self._seen) + len(self._spent) + len(self._windows)

    def first_sight(self, announcement: bytes) -> bool:
        """Whether these bytes are new; they are not from now on."""
        digest = hashlib.sha256(announcement).digest()
        return _remember_new(self._seen, digest, self._items)

    def spend(self, public_key: bytes, task: str, level: str, index: int) -> bool:
        """Whether the key answers this index of its stream for the first time; it has from now."""
        return _remember_new(self._spent, (public_key, task, level, index), self._items)

    def window(self, public_key: bytes) -> ReplayWindow:
        """The bundles of a key that were accepted."""
        return self._windows.get(public_key, ReplayWindow())

    def accept(self, public_key: bytes, sequence: int, bundle_id: bytes) -> None:
        """Enter a verified bundle into its key's window."""
        self._windows[public_key] = self.window(public_key).accepting(sequence, bundle_id)
        self._windows.move_to_end(public_key)
        self._changed.add(public_key)
        if len(self._windows) > self._keys:
            gone, _ = self._windows.popitem(last=False)
            self._changed.discard(gone)

    def of_an_earlier_life(self, public_key: bytes, sequence: int, bundle_id: bytes) -> bool:
        """Whether the bundle was accepted before the last restart.

        Which of its questions were taken then is not known any more, so none is taken again.
        """
        window = self._earlier.get(public_key, ReplayWindow())
        return window.check(sequence, bundle_id) == "duplicate"

    def changed_windows(self) -> Mapping[bytes, bytes]:
        """Encoded windows by key, of those that changed since this was last asked."""
        changed = {key: self._windows[key].to_bytes() for key in sorted(self._changed)}
        self._changed.clear()
        return changed

    def restore_windows(self, windows: Mapping[bytes, bytes]) -> int:
        """Take back what `changed_windows` gave; returns how many were damaged and left out."""
        damaged = 0
        for key, data in windows.items():
            try:
                _remember(self._windows, key, ReplayWindow.from_bytes(data), self._keys)
            except WireError:
                damaged += 1
        self._earlier = dict(self._windows)
        return damaged


def _remember_new(memory: OrderedDict[Key, None], key: Key, most: int) -> bool:
    if key in memory:
        return False
    _remember(memory, key, None, most)
    return True


def _remember(memory: OrderedDict[Key, Value], key: Key, value: Value, most: int) -> None:
    memory[key] = value
    if len(memory) > most:
        memory.popitem(last=False)
