"""Where on the internet a peer is, as far as it counts for sharing something out fairly. Pure.

Keys are free and addresses cost something, so that what strangers may take of a node is shared out
by address prefix first. Of a peer only the address of its own connection to us counts, which its
key authenticated: what it announces of itself is no proof. Source: security.md section 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network

THROUGH_OTHERS = "through others"
"""The prefix that all share whom we are not connected to, or through a relay only."""

IPV4_BITS = 24
IPV6_BITS = 48
"""What one customer of a provider is given at most, mostly; a provider of its own has more."""

EXEMPT = "exempt:"
"""What the prefixes of peers in exempt networks begin with."""


def networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Networks such as 127.0.0.0/8. Raises ValueError for what is none."""
    return tuple(ip_network(text) for text in texts)


def own_prefix(peer: str) -> str:
    """A prefix that a peer shares with nobody."""
    return f"{EXEMPT}{peer}"


def prefix_of(peer: str, address: str, exempt: Sequence[Network] = ()) -> str:
    """The prefix of a peer that is connected to us from this multiaddr, "" where it isn't.

    An IPv4 /24 or an IPv6 /48, an IPv4 address in IPv6's clothes as what it is; a peer in an
    `exempt` network has one of its own; THROUGH_OTHERS where the address is a relay's or no
    address of the internet.
    """
    kind, _, rest = address.removeprefix("/").partition("/")
    if kind not in ("ip4", "ip6") or "/p2p-circuit" in address:
        return THROUGH_OTHERS
    try:
        place = ip_address(rest.partition("/")[0])
    except ValueError:
        return THROUGH_OTHERS
    if isinstance(place, IPv6Address):
        place = place.ipv4_mapped or IPv6Address(int(place))  # without the name of an interface
    if any(place in network for network in exempt):
        return own_prefix(peer)
    bits = IPV4_BITS if place.version == 4 else IPV6_BITS
    return str(ip_network(f"{place}/{bits}", strict=False))
