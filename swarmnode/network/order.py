"""What the network process needs to begin: plain values that cross a channel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from swarmnode.network.addresses import is_loopback, is_near, tcp_part
from swarmnode.network.choice import Library


@dataclass(frozen=True, slots=True)
class NetworkOrder:
    """What the network process needs to begin; addresses are multiaddrs."""

    private_key: bytes = field(repr=False)
    """The Ed25519 seed of 32 bytes."""
    swarm_id: bytes
    rules: bytes
    folder: str
    """For sockets and the identity file."""
    swarm_key: bytes = field(default=b"", repr=False)
    """A private swarm's, 32 bytes; empty for a public one."""
    listen: Sequence[str] = ()
    announce_addresses: Sequence[str] = ()
    """What others are told to dial, where it is not what is listened on."""
    bootstrap: Sequence[str] = ()
    saved_peers: Sequence[str] = ()
    public: bool = False
    relay: bool = False
    test_network: bool = False
    transport: Library = "hivemind"
    """What the process runs on; it imports no other."""
    exempt_networks: Sequence[str] = ()
    """Networks in which every peer counts as an address prefix of its own."""
    lan: bool = False
    """Listen on local networks, and find others there."""
    lan_port: int = 0
    """On all of them; 0 for any that is free."""
    lan_interfaces: Sequence[str] = ()
    """By name; none means all that are fit."""

    def with_drawn_port(self, addresses: Sequence[str]) -> NetworkOrder:
        """The order for the next life of a process that listens at these addresses.

        Where a free port was asked for it is the one that was drawn, since announcements that have
        not expired name it.
        """
        if self.lan and not self.lan_port:
            near = {
                part[1]
                for each in addresses
                if (part := tcp_part(each)) and is_near(each) and not is_loopback(each)
            }
            return replace(self, lan_port=near.pop()) if len(near) == 1 else self
        drawn = [address for address in self.listen if address.endswith("/tcp/0")]
        ports = {port for address in addresses for port in re.findall(r"/tcp/(\d+)", address)}
        if len(drawn) != 1 or len(ports) != 1:
            return self
        settled = drawn[0].removesuffix("0") + ports.pop()
        listen = [settled if address in drawn else address for address in self.listen]
        return replace(self, listen=tuple(listen))
