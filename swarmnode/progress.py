"""How far something is that takes long: told from deep inside to whoever wants to show it.

What takes long says `advanced`; whoever runs it may listen with `listening`, in its own context and
thread alone. Nobody listening costs nothing. Steps that come too fast are left out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

LEAST_SECONDS = 0.2
"""Between two steps of one thing that are told; the first and the last always are."""


@dataclass(frozen=True, slots=True)
class Step:
    """Where something is."""

    what: str
    """Such as `teaching the model the form of the questions`."""
    done: int = 0
    total: int = 0
    """0 where nobody knows."""

    @property
    def in_words(self) -> str:
        """In a few words: what, and how much of it."""
        share = f", {min(1.0, self.done / self.total):.0%}" if self.total else ""
        return f"{self.what}{share}"


class _Listener:
    def __init__(self, told: Callable[[Step], None]) -> None:
        self._told = told
        self._what = ""
        self._at = 0.0
        self._lock = threading.Lock()

    def hear(self, step: Step) -> None:
        now = time.monotonic()
        ended = step.total > 0 and step.done >= step.total
        with self._lock:
            if step.what != self._what or ended or now - self._at >= LEAST_SECONDS:
                self._what, self._at = step.what, now
                self._told(step)


_listener: ContextVar[_Listener | None] = ContextVar("listener", default=None)


def advanced(what: str, done: int = 0, total: int = 0) -> None:
    """Say how far something is, to whoever listens."""
    advancing()(what, done, total)


def advancing() -> Callable[[str, int, int], None]:
    """`advanced` for threads of what runs here, which must end before it does."""
    listener = _listener.get()
    if listener is None:
        return lambda _what, _done, _total: None
    return lambda what, done, total: listener.hear(Step(what, done, total))


@contextmanager
def listening(told: Callable[[Step], None]) -> Iterator[None]:
    """Have `told` called with the steps of what runs inside; what it raises reaches that."""
    token = _listener.set(_Listener(told))
    try:
        yield
    finally:
        _listener.reset(token)
