"""What a service manager is told of a daemon: that it is ready, that it lives, that it ends.

The protocol of sd_notify(3): lines in a datagram to the socket that NOTIFY_SOCKET names. Without
the variable there is no manager, and nothing is sent.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping

from swarmnode.clock import Clock
from swarmnode.observe.status import Phase

TELL_SECONDS = 2.0
STARTING_MICROSECONDS = 60_000_000
"""While a daemon starts, it asks for so much more time at every look: a first start may have to
download a model, and is given up only when nobody asks any more."""

_LINES: Mapping[Phase, str] = {
    "starting": f"EXTEND_TIMEOUT_USEC={STARTING_MICROSECONDS}",
    "running": "READY=1\nWATCHDOG=1",
    "stopping": f"STOPPING=1\nEXTEND_TIMEOUT_USEC={STARTING_MICROSECONDS}",
}


class ServiceManager:
    """The one that started this process, if one did."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")

    @property
    def there(self) -> bool:
        """Whether anybody wants to be told."""
        return bool(self._address)

    def tell(self, phase: Phase, sentence: str) -> None:
        """Say where the daemon is; `sentence` is for people, and its line breaks are spaces."""
        if not self._address:
            return
        # An abstract address, which is no file.
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        told = f"{_LINES[phase]}\nSTATUS={' '.join(sentence.split())}"
        # A manager that doesn't listen misses it; the daemon goes on all the same.
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sending,
        ):
            sending.connect(address)
            sending.send(told.encode())


async def keep_telling(
    manager: ServiceManager, clock: Clock, now: Callable[[], tuple[Phase, str]]
) -> None:
    """Tell again and again until cancelled: whoever hangs is silent, and a watchdog sees it."""
    while True:
        manager.tell(*now())
        await clock.sleep(TELL_SECONDS)
