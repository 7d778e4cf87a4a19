"""A multicast DNS socket on one interface, read no faster than strangers may make us.

What is not from the link is dropped unread, what is too much by source or in all as well; in a
flood the socket is left alone for a second, so that the kernel drops it for us. Knows no message.
On Linux nothing but multicast of this interface arrives; unicast has no socket there.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import struct
import sys
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from swarmnode.buckets import Bucket, Buckets, Rate
from swarmnode.network.premises import Place

GROUP: Final = "224.0.0.251"
PORT: Final = 5353
EACH_SOURCE: Final = Rate(5.0, 20.0)
"""Messages a second; a node sends one or two a minute, and a few when it comes."""
TOGETHER: Final = Rate(50.0, 100.0)
"""Messages a second that are read of all sources."""
TAKEN: Final = Rate(400.0, 400.0)
"""Messages a second that are taken off the socket at all."""
SOURCES_REMEMBERED: Final = 256
PAUSE_SECONDS: Final = 1.0
TAKEN_AT_ONCE: Final = 16

_BYTES_MAX: Final = 9000
_BUFFER_BYTES: Final = 64 * 1024
_TTL: Final = 255
_IP_MULTICAST_ALL: Final = 49  # Linux; the socket module has no name for it

Heard = Callable[[bytes, str], None]
"""Told of each message: its bytes, and the IP address that it says it came from."""


class Link(Protocol):
    """Somewhere that messages are said to all who listen."""

    @property
    def counts(self) -> Counter[str]:
        """Messages dropped unread, by reason: off_link, other_port, too_many."""

    def say(self, message: bytes, /) -> None:
        """To everybody on the link; lost if it can't be sent."""

    def close(self) -> None:
        """May be called again."""


OpenLink = Callable[[Place, Heard], Link]
"""Raises OSError where the interface can't be listened on."""


class MulticastLink:
    """A Link, to be opened in a running loop. Raises OSError."""

    def __init__(self, place: Place, heard: Heard, port: int = PORT) -> None:
        self.counts: Counter[str] = Counter()
        self._place = place
        self._heard = heard
        self._port = port
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._sources = Buckets(EACH_SOURCE, SOURCES_REMEMBERED)
        self._together = Bucket(TOGETHER.burst, now)
        self._taken = Bucket(TAKEN.burst, now)
        self._resuming: asyncio.TimerHandle | None = None
        self._socket = _opened(place, port)
        self._loop.add_reader(self._socket.fileno(), self._readable)

    def say(self, message: bytes) -> None:
        """See Link: an interface that is gone is noticed by whoever looks at interfaces."""
        with contextlib.suppress(OSError):
            self._socket.sendto(message, (GROUP, self._port))

    def close(self) -> None:
        """See Link."""
        if self._resuming is not None:
            self._resuming.cancel()
            self._resuming = None
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()

    def _readable(self) -> None:
        now = self._loop.time()
        for _ in range(TAKEN_AT_ONCE):
            if self._taken.refilled(TAKEN, now) < 1.0:
                self._loop.remove_reader(self._socket.fileno())
                self._resuming = self._loop.call_later(PAUSE_SECONDS, self._resume)
                return
            try:
                data, (host, port) = self._socket.recvfrom(_BYTES_MAX)
            except OSError:  # nothing more, or the interface is gone
                return
            self._taken.left -= 1.0
            if why := self._unfit(host, port, now):
                self.counts[why] += 1
            else:
                self._heard(data, host)

    def _resume(self) -> None:
        self._resuming = None
        self._loop.add_reader(self._socket.fileno(), self._readable)

    def _unfit(self, host: str, port: int, now: float) -> str:
        """Why a message from there is not read, "" if it is."""
        if port != self._port:
            return "other_port"
        if ipaddress.ip_address(host) not in self._place.network:
            return "off_link"
        source = self._sources.of(host, now)
        if source.left < 1.0 or self._together.refilled(TOGETHER, now) < 1.0:
            return "too_many"
        source.left -= 1.0
        self._together.left -= 1.0
        return ""


def _opened(place: Place, port: int) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        opened.setblocking(False)
        # Others on this machine, such as avahi, have the port as well.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        index = socket.if_nametoindex(place.interface)
        own = socket.inet_aton(place.host)
        membership = struct.pack("@4s4si", socket.inet_aton(GROUP), own, index)
        interface = struct.pack("@4s4si", bytes(4), own, index)
        if sys.platform == "linux":
            opened.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
        # Bound to the group nothing else arrives; other systems would send from that address, too.
        opened.bind((GROUP if sys.platform == "linux" else "", port))
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, _TTL)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
    except BaseException:
        opened.close()
        raise
    return opened
