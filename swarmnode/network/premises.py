"""Where on the local network a node listens: interfaces fit for it, and one port on all of them.

Knows no peer and no mDNS. A VPN, a public address and the loopback are no local network: what is
opened with `network.lan` is IPv4 with a private or link-local address, on an interface that is up
and can multicast. Addresses come and go; whoever listens looks again.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Final

import psutil

PLACES_MAX: Final = 8
"""Interfaces used at once; a machine with containers may have hundreds."""
LAST_RESORT: Final = "/ip4/127.0.0.1/tcp/0"
"""Listened on while there is no local network: something has to be."""

_NEEDED_FLAGS: Final = frozenset({"up", "running", "multicast", "broadcast"})
_FORBIDDEN_FLAGS: Final = frozenset({"loopback", "pointopoint", "pointtopoint"})
_LOCAL: Final = tuple(
    map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"))
)


@dataclass(frozen=True, slots=True)
class Place:
    """An interface by name, our address on it, and the network that is on the link."""

    interface: str
    host: str
    network: IPv4Network


def places_of(names: Sequence[str] = ()) -> tuple[Place, ...]:
    """The places that are fit now, by interface; of these interfaces alone, where some are named.

    Of an interface the first address counts.
    """
    states = psutil.net_if_stats()
    found = []
    for name, addresses in sorted(psutil.net_if_addrs().items()):
        flags = set(states[name].flags.split(",")) if name in states else set()
        fit = flags >= _NEEDED_FLAGS and not flags & _FORBIDDEN_FLAGS
        if not fit or (names and name not in names):
            continue
        near = [
            Place(name, each.address, IPv4Network(f"{each.address}/{each.netmask}", strict=False))
            for each in addresses
            if each.family == socket.AF_INET and each.netmask and _is_local(each.address)
        ]
        found += near[:1]
    return tuple(found[:PLACES_MAX])


def _is_local(host: str) -> bool:
    return any(ipaddress.ip_address(host) in network for network in _LOCAL)


class Premises:
    """The places that the present peer listens at, and the port; 0 until one is drawn."""

    def __init__(self, look: Callable[[], Sequence[Place]], port: int) -> None:
        self._look = look
        self._drawn = not port
        self.port = port
        self.listened: tuple[Place, ...] = ()

    def present(self) -> tuple[Place, ...]:
        """The places that there are now."""
        return tuple(self._look())

    def settle(self, listen: Sequence[str]) -> tuple[str, ...]:
        """What the next peer is to listen on: every place there is now, and `listen` beside it."""
        self.listened = self.present()
        # What was told to others names the port, so that only one that is lost is drawn anew.
        if self.listened and self._drawn and not self._is_free():
            self.port = _free_port(self.listened[0].host)
        near = [f"/ip4/{place.host}/tcp/{self.port}" for place in self.listened]
        return (*near, *listen) or (LAST_RESORT,)

    def _is_free(self) -> bool:
        return self.port > 0 and all(_is_free(place.host, self.port) for place in self.listened)

    @property
    def moved(self) -> bool:
        """Whether there is a place that the present peer does not listen at.

        One that is gone is no reason to begin anew: it may be the one of two.
        """
        return not set(self.present()) <= set(self.listened)


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        # Connections of the peer before, which linger, don't count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
