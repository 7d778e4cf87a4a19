"""What a multiaddr says of its peer: host, TCP port, how near it is, whether by a relay. Pure.

An address by way of a relay begins with the relay's host, which says nothing of the peer's.
"""

from __future__ import annotations

import contextlib
import ipaddress
from typing import Final

from swarmnode.prefixes import networks

RELAYED: Final = "/p2p-circuit"
"""In the address of a connection that a relay passes on, and of a peer that is reached so."""


_NEAR: Final = networks(
    (
        *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"),
        *("::1/128", "fc00::/7", "fe80::/10"),
    )
)


def host_of(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address of a peer; None where its multiaddr has none."""
    match address.split("/"):
        case ["", "ip4" | "ip6", host, *_] if RELAYED not in address:
            with contextlib.suppress(ValueError):
                return ipaddress.ip_address(host)
    return None


def tcp_part(address: str) -> tuple[str, int] | None:
    """The IP address and TCP port of a peer; None where its multiaddr has none."""
    match address.split("/"):
        case ["", "ip4" | "ip6", _, "tcp", port, *_] if port.isascii() and port.isdigit():
            host = host_of(address)
            return None if host is None else (str(host), int(port))
    return None


def is_loopback(address: str) -> bool:
    """Whether a multiaddr is of this machine alone."""
    host = host_of(address)
    return host is not None and host.is_loopback


def is_near(address: str) -> bool:
    """Whether a multiaddr is of this machine or of a local network."""
    host = host_of(address)
    return host is not None and any(host in network for network in _NEAR)
