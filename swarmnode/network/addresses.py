"""What a multiaddr says of its peer: host, TCP port, how near, by a relay, fit to be dialled. Pure.

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


_LOCAL: Final = networks(
    (
        *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"),
        *("fc00::/7", "fe80::/10"),
    )
)
_NEAR: Final = (*networks(("127.0.0.0/8", "::1/128")), *_LOCAL)
_PRIVATE: Final = (*_LOCAL, *networks(("100.64.0.0/10",)))
"""Networks that others have as well, with other machines in them: providers' and VPNs' too."""
_INTERNET: Final = networks(("0.0.0.0/0", "2000::/3"))

Host = ipaddress.IPv4Address | ipaddress.IPv6Address


def host_of(address: str) -> Host | None:
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


def is_public(address: str) -> bool:
    """Whether what a multiaddr has one dial is on the internet, by its IP address."""
    host = host_of(address)
    return host is not None and _is_public(_plain(host))


def may_be_dialled(address: str, places: Sequence[str], met_outside: bool) -> bool:
    """Whether the word of a stranger may have us dial an address.

    The internet always. A private network only in a swarm that lives there: one of `places`, where
    we are and what our owner named, is in it, and neither any of them nor anybody whom we have met
    is on the internet. This machine only where all places are it. What is no IP address, never.
    """
    named = host_of(address)
    if named is None:
        return False
    host = _plain(named)
    if _is_public(host):
        return True
    hosts = [None if place is None else _plain(place) for place in map(host_of, places)]
    inside = [place for place in hosts if place is not None and not _is_public(place)]
    if met_outside or len(inside) < len(hosts):
        return False
    if host.is_loopback:
        return bool(inside) and all(place.is_loopback for place in inside)
    here = [network for network in _PRIVATE if host in network]
    return any(place in network for network in here for place in inside)


def _plain(host: Host) -> Host:
    """An IPv4 address in IPv6's clothes as what it is."""
    if isinstance(host, ipaddress.IPv6Address):
        return host.ipv4_mapped or host.sixtofour or host
    return host


def _is_public(host: Host) -> bool:
    routed = host.is_global and not host.is_multicast and not host.is_reserved
    return routed and any(host in network for network in _INTERNET)


def direct_ones(addresses: Sequence[str]) -> Sequence[str]:
    """Those that lead to the peer itself and fit into a message; of this machine if it has no
    others.
    """
    usable = [each for each in addresses if RELAYED not in each and len(each) <= ADDRESS_BYTES_MAX]
    return [each for each in usable if not is_loopback(each)] or usable


def relayed_ones(addresses: Sequence[str]) -> Sequence[str]:
    """Those by way of a relay that fit into a message."""
    return [each for each in addresses if RELAYED in each and len(each) <= ADDRESS_BYTES_MAX]
