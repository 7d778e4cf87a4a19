"""Ports that are free, and peers that answer: sockets that are opened for a moment."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

DIAL_SECONDS = 3.0
GREETING = b"\x13/multistream/1.0.0\n"
"""What both sides of a libp2p connection send first (multiformats/multistream-select)."""

_MULTIADDR = re.compile(r"/(?P<kind>ip4|ip6|dns|dns4|dns6)/(?P<host>[^/]+)/tcp/(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class Dialled:
    """An attempt to open a TCP connection; `error` is "" when it succeeded."""

    address: str
    error: str


def _parsed(address: str) -> tuple[str, str, int] | None:
    """Kind, host and port of a multiaddr that begins with a TCP address."""
    match = _MULTIADDR.match(address)
    return (match["kind"], match["host"], int(match["port"])) if match else None


def not_free(address: str) -> str:
    """Why one cannot listen on the address; "" if one can."""
    parsed = _parsed(address)
    if parsed is None or parsed[2] == 0:
        return ""  # Any free port; and what is not TCP is tested by the network process alone.
    kind, host, port = parsed
    family = socket.AF_INET6 if kind.endswith("6") else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # Connections of an earlier node that are still closing are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            return getattr(error, "strerror", None) or str(error)
    return ""


def dialled(addresses: Sequence[str], seconds: float) -> tuple[Dialled, ...]:
    """Dial all at once. A name may take longer to resolve: such a thread is left behind."""
    errors = {each: f"no answer within {seconds:.0f} s" for each in addresses}

    def dial(address: str) -> None:
        errors[address] = _unanswered(address, seconds)

    threads = [
        threading.Thread(target=dial, args=(each,), name=f"dial-{each}", daemon=True)
        for each in addresses
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds + 0.5
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return tuple(Dialled(each, errors[each]) for each in addresses)


def _unanswered(address: str, seconds: float) -> str:
    """Why no peer answers there; "" if one does.

    Who it is and of which swarm is found out by a node alone, which speaks under a key.
    """
    parsed = _parsed(address)
    if parsed is None:
        return "no TCP address, so that it was not tested"
    _kind, host, port = parsed
    deadline = time.monotonic() + seconds
    try:
        with socket.create_connection((host, port), timeout=seconds) as connection:
            connection.settimeout(max(0.1, deadline - time.monotonic()))
            connection.sendall(GREETING)
            if not _greets(connection):
                return "something answers there that is no libp2p peer"
    except TimeoutError:
        return f"no answer within {seconds:.0f} s"
    except (OSError, OverflowError, UnicodeError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""


def _greets(connection: socket.socket) -> bool:
    """Whether the other side opens as multistream-select does. Raises OSError."""
    heard = b""
    while len(heard) < len(GREETING):
        if not (more := connection.recv(len(GREETING) - len(heard))):
            break
        heard += more
    return heard == GREETING
