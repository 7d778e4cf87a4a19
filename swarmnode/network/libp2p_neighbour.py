"""One connected peer, as gossip has it: what waits to be said to it, and the stream it is said on.

Runs under trio. As long as we are connected there is a stream of ours to it, opened again whenever
it fails; what was lost with the one before is told by name on the next. What waits goes out in one
piece, so that a peer that is slow costs less the slower it is.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

from swarmnode.buckets import Bucket, Rate
from swarmnode.network.light_libp2p import trio
from swarmnode.network.recent_messages import INSTANT

WAITING_BYTES_MAX: Final = 256 * 1024
WRITE_BYTES: Final = 48 * 1024
AGAIN_SECONDS: Final = 0.5
AGAIN_SECONDS_MAX: Final = 30.0
ANSWERS: Final = Rate(100.0, 1000.0)
"""Messages that are sent since it asked for them: asking costs it a twentieth of that."""

Open = Callable[[], Awaitable[Any]]


class Neighbour:
    """A peer that we are connected to; `speak` must be running for anything to be said."""

    def __init__(self, peer: Any, now: float) -> None:
        self.peer: Final = peer
        self.topics: set[str] = set()
        """It listens to these."""
        self.lacks: dict[str, tuple[float, float]] = {}
        """By topic, from when to when it may have missed something."""
        self.heard_on: Any = None
        """The stream that it speaks on, None for none."""
        self._answers = Bucket(ANSWERS.burst, now)
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._something = trio.Event()
        self._life = trio.CancelScope()

    def say(self, data: bytes) -> bool:
        """Have it said in turn; whether there was room."""
        if self._waiting_bytes + len(data) > WAITING_BYTES_MAX:
            return False
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        self._something.set()
        return True

    def hand_on(self, topic: str, message: bytes, now: float) -> bool:
        """Have a message said that is kept from now on, or else its name told later."""
        said = self.say(message)
        if not said:
            self.may_lack(topic, now - INSTANT, now)
        return said

    def may_lack(self, topic: str, since: float, until: float) -> None:
        """It may have missed something after one moment and up to another."""
        before = self.lacks.get(topic, (since, until))
        self.lacks[topic] = min(since, before[0]), max(until, before[1])

    def told(self, topic: str, until: float) -> None:
        """It was told the names of what it may have missed, up to a moment."""
        _, last = self.lacks[topic]
        if until >= last:
            del self.lacks[topic]
        else:
            self.lacks[topic] = until, last

    def may_ask(self, now: float) -> bool:
        """Whether one more message is sent since it asked."""
        if self._answers.refilled(ANSWERS, now) < 1.0:
            return False
        self._answers.left -= 1.0
        return True

    @property
    def is_slow(self) -> bool:
        """Whether much waits to be said."""
        return self._waiting_bytes > WAITING_BYTES_MAX // 2

    async def speak(
        self, opened: Open, hello: Callable[[], bytes], lost: Callable[[], None]
    ) -> None:
        """Say what there is, until `end`; `lost` is called when a stream of ours has failed."""
        wait = AGAIN_SECONDS
        with self._life:
            while True:
                with contextlib.suppress(Exception):  # py-libp2p raises what it likes
                    stream = await opened()
                    try:
                        await stream.write(hello())
                        wait = AGAIN_SECONDS
                        await self._say_all(stream)
                    finally:
                        with trio.move_on_after(AGAIN_SECONDS, shield=True):
                            await stream.reset()
                lost()
                await trio.sleep(wait)
                wait = min(2 * wait, AGAIN_SECONDS_MAX)

    def end(self) -> None:
        """Nothing more is said."""
        self._life.cancel()

    async def _say_all(self, stream: Any) -> None:
        while True:
            await self._something.wait()
            pieces: list[bytes] = []
            size = 0
            while self._waiting and (not pieces or size + len(self._waiting[0]) <= WRITE_BYTES):
                size += len(self._waiting[0])
                pieces.append(self._waiting.popleft())
            if not self._waiting:
                self._something = trio.Event()
            try:
                await stream.write(b"".join(pieces))
            finally:
                self._waiting_bytes -= size
