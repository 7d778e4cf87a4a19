"""Listening ports, held against other nodes before p2pd is started.

p2pd shares ports (SO_REUSEPORT): two nodes on one port both start, and each gets half of the
connections. So a port is first bound by a plain socket, which fails where anybody listens, and
then claimed, for as long as the peer lives, by a name in the kernel (Linux) that ends with the
process. Knows no p2pd. Source: network.md section 6, item 13.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import sys
from collections.abc import Iterator, Sequence

import psutil


class StartFailed(Exception):
    """A peer can't be started; the text is one line for the user."""


class PortsHeld:
    """Claims on ports; `release` gives them up."""

    def __init__(self, claims: Sequence[socket.socket]) -> None:
        self._claims = list(claims)

    def release(self) -> None:
        """May be called again."""
        for claim in self._claims:
            claim.close()
        self._claims.clear()


def listening_ports(addresses: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    """Host, protocol and port of each multiaddr with a fixed one. Raises StartFailed."""
    for address in addresses:
        parts = address.strip("/").split("/")
        values = dict(zip(parts[::2], parts[1::2], strict=False))
        host = values.get("ip4", values.get("ip6", ""))
        protocol = "tcp" if "tcp" in values else "udp"
        port = values.get(protocol, "")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise StartFailed(f"not an address to listen on: {address} (try /ip4/127.0.0.1/tcp/0)")
        if int(port):
            yield host, protocol, int(port)


def no_address_in(addresses: Sequence[str]) -> str:
    """Which of them nobody can listen on, in one line for the user; "" where all may do."""
    try:
        list(listening_ports(addresses))
    except StartFailed as error:
        return str(error)
    return ""


def hold_ports(addresses: Sequence[str]) -> PortsHeld:
    """Raises StartFailed, naming port and, where it can be seen, process, if one is in use."""
    claims: list[socket.socket] = []
    try:
        for host, protocol, port in listening_ports(addresses):
            if sys.platform == "linux":
                claims.append(_claim(protocol, port))
            _try(host, protocol, port)
    except BaseException:
        PortsHeld(claims).release()
        raise
    return PortsHeld(claims)


def _claim(protocol: str, port: int) -> socket.socket:
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        claim.bind(f"\0swarmnode-{protocol}-{port}")
    except OSError:
        claim.close()
        raise StartFailed(_in_use(protocol, port)) from None
    return claim


def _try(host: str, protocol: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
    with socket.socket(family, kind) as plain:
        if protocol == "tcp":
            # Else connections of the node before, which linger, would look like a listener.
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            plain.bind((host, port))
        except PermissionError:
            raise StartFailed(f"port {port} needs privileges; choose one above 1023") from None
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise StartFailed(_in_use(protocol, port)) from None
            raise StartFailed(f"can't listen on {host}: {error.strerror}") from None


def _in_use(protocol: str, port: int) -> str:
    return f"port {port}/{protocol} is in use{_by_whom(port)}; choose another, or 0 for any"


def _by_whom(port: int) -> str:
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("inet"):
            if connection.laddr and connection.laddr.port == port and connection.pid:
                listens = connection.status in {psutil.CONN_LISTEN, psutil.CONN_NONE}
                if listens:
                    name = psutil.Process(connection.pid).name()
                    return f" by process {connection.pid} ({name})"
    return ""
