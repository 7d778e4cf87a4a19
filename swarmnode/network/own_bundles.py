"""Our announcements with their bundles, as the network process gets them: kept for its next life.

Pure: moments come in, in seconds since 1970.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

OWN_BYTES: Final = 64 * 1024 * 1024
"""Of all together; above that the oldest go first."""


@dataclass(frozen=True, slots=True)
class _Own:
    payload: Mapping[str, Any]
    size: int
    expires: float


class OwnBundles:
    """Those that have not expired, oldest first."""

    def __init__(self) -> None:
        self._own: deque[_Own] = deque()
        self._bytes = 0

    def keep(self, payload: Mapping[str, Any], size: int, expires: float, now: float) -> None:
        """Keep one of so many bytes until it expires."""
        self._own.append(_Own(payload, size, expires))
        self._bytes += size
        self._forget(now)

    def kept(self, now: float) -> Sequence[Mapping[str, Any]]:
        """What is to be announced again."""
        self._forget(now)
        return [own.payload for own in self._own]

    def _forget(self, now: float) -> None:
        while self._own and (self._own[0].expires <= now or self._bytes > OWN_BYTES):
            self._bytes -= self._own.popleft().size
