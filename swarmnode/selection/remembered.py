"""What is remembered of strangers, so that nothing of theirs is taken twice. Bounded, pure.

Seen announcements and spent question indices by hash, and a replay window for each key. The oldest
are forgotten first. Windows outlast the process: their owner persists what changed. In memory they
are kept encoded, a sixth of the size, and bounded by bytes: one of 1024 bundles is as large as a
thousand of one bundle each.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping

from swarmproto import ReplayWindow, WireError

ITEMS = 65_536
"""Announcements, and spent questions, that are remembered: at a look a second more than strangers
can show us before an announcement expires."""

KEYS = 4096
"""Keys whose sequence numbers are remembered; keys are free, so that floods of them come."""

WINDOWS_BYTES = 8 * 1024 * 1024
"""Of the replay windows, encoded."""

_DIGEST_BYTES = 16


class Remembered:
    """At most `items` announcements and questions each, and `keys` replay windows of all in all
    `windows_bytes`."""

    def __init__(
        self, *, items: int = ITEMS, keys: int = KEYS, windows_bytes: int = WINDOWS_BYTES
    ) -> None:
        self._items = items
        self._keys = keys
        self._windows_bytes_max = windows_bytes
        self._windows_bytes = 0
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self._spent: OrderedDict[bytes, None] = OrderedDict()
        self._windows: OrderedDict[bytes, bytes] = OrderedDict()
        self._changed: set[bytes] = set()
        self._earlier: Mapping[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._seen) + len(self._spent) + len(self._windows)

    def first_sight(self, announcement: bytes) -> bool:
        """Whether these bytes are new; they are not from now on."""
        return _remember_new(self._seen, _digest(announcement), self._items)

    def spend(self, public_key: bytes, task: str, level: str, index: int) -> bool:
        """Whether the key answers this index of its stream for the first time; it has from now."""
        # Names have no NUL, and the key has its length: no two questions are written the same.
        written = public_key + f"{task}\0{level}\0{index}".encode()
        return _remember_new(self._spent, _digest(written), self._items)

    def window(self, public_key: bytes) -> ReplayWindow:
        """The bundles of a key that were accepted."""
        return _opened(self._windows.get(public_key))

    def accept(self, public_key: bytes, sequence: int, bundle_id: bytes) -> None:
        """Enter a verified bundle into its key's window."""
        window = self.window(public_key).accepting(sequence, bundle_id)
        self._put(public_key, window.to_bytes())
        self._changed.add(public_key)
        self._forget_oldest()

    def of_an_earlier_life(self, public_key: bytes, sequence: int, bundle_id: bytes) -> bool:
        """Whether the bundle was accepted before the last restart.

        Which of its questions were taken then is not known any more, so none is taken again.
        """
        window = _opened(self._earlier.get(public_key))
        return window.check(sequence, bundle_id) == "duplicate"

    def changed_windows(self) -> Mapping[bytes, bytes]:
        """Encoded windows by key, of those that changed since this was last asked."""
        changed = {key: self._windows[key] for key in sorted(self._changed)}
        self._changed.clear()
        return changed

    def restore_windows(self, windows: Mapping[bytes, bytes]) -> int:
        """Take back what `changed_windows` gave; returns how many were damaged and left out."""
        damaged = 0
        for key, data in windows.items():
            try:
                self._put(key, ReplayWindow.from_bytes(data).to_bytes())
            except WireError:
                damaged += 1
        self._forget_oldest()
        self._earlier = dict(self._windows)
        return damaged

    def _put(self, key: bytes, window: bytes) -> None:
        self._windows_bytes += len(window) - len(self._windows.pop(key, b""))
        self._windows[key] = window

    def _forget_oldest(self) -> None:
        while len(self._windows) > self._keys or self._windows_bytes > self._windows_bytes_max:
            gone, window = self._windows.popitem(last=False)
            self._windows_bytes -= len(window)
            self._changed.discard(gone)


def _remember_new(memory: OrderedDict[bytes, None], digest: bytes, most: int) -> bool:
    if digest in memory:
        return False
    memory[digest] = None
    if len(memory) > most:
        memory.popitem(last=False)
    return True


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:_DIGEST_BYTES]


def _opened(window: bytes | None) -> ReplayWindow:
    return ReplayWindow() if window is None else ReplayWindow.from_bytes(window)
