"""What a multiaddr says of its peer: host, TCP port, how near it is, whether by a relay. Pure.

An address by way of a relay begins with the relay's host, which is the one that is dialled.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Sequence
from typing import Final

from swarmnode.prefixes import networks
from swarmproto import ADDRESS_BYTES_MAX

RELAYED: Final = "/p2p-circuit"
"""In the address of a connection that a relay passes on, and of a peer that is reached so."""


_NEAR: Final = networks(
    (
        *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"),
        *("::1/128", "fc00::/7", "fe80::/10"),
    )
)


def host_of(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address that a multiaddr begins with; None where there is none."""
    match address.split("/"):
        case ["", "ip4" | "ip6", host, *_]:
            with contextlib.suppress(ValueError):
                return ipaddress.ip_address(host)
    return None


def tcp_part(address: str) -> tuple[str, int] | None:
    """The IP address and TCP port of a peer; None where its multiaddr has none of its own."""
    match address.split("/"):
        case ["", "ip4" | "ip6", _, "tcp", port, *_] if port.isascii() and port.isdigit():
            host = host_of(address)
            return None if host is None or RELAYED in address else (str(host), int(port))
    return None


def relay_in(address: str) -> str:
    """The id of the relay that an address goes through, "" where there is none."""
    before, relayed, _ = address.partition(RELAYED)
    return before.rpartition("/p2p/")[2] if relayed else ""


def is_loopback(address: str) -> bool:
    """Whether what a multiaddr has one dial is this machine."""
    host = host_of(address)
    return host is not None and host.is_loopback


def is_near(address: str) -> bool:
    """Whether a peer is on this machine or on a local network."""
    host = host_of(address)
    return host is not None and RELAYED not in address and any(host in network for network in _NEAR)


def direct_ones(addresses: Sequence[str]) -> Sequence[str]:
    """Those that lead to the peer itself and fit into a message; of this machine if it has no
    others.
    """
    usable = [each for each in addresses if RELAYED not in each and len(each) <= ADDRESS_BYTES_MAX]
    return [each for each in usable if not is_loopback(each)] or usable


def relayed_ones(addresses: Sequence[str]) -> Sequence[str]:
    """Those by way of a relay that fit into a message."""
    return [each for each in addresses if RELAYED in each and len(each) <= ADDRESS_BYTES_MAX]
