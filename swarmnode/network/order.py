"""What the network process needs to begin: plain values that cross a channel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from swarmnode.network.addresses import RELAYED, is_loopback, is_near, tcp_part
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
        own = [each for each in addresses if RELAYED not in each]
        if self.lan and not self.lan_port:
            local = [each for each in own if is_near(each) and not is_loopback(each)]
            near = {part[1] for each in local if (part := tcp_part(each))}
            return replace(self, lan_port=near.pop()) if len(near) == 1 else self
        asked = Counter(kind for each in self.listen if (kind := _port_kind(each))[1] == "0")
        drawn: dict[str, str] = {}
        for name, _ in [kind for kind, count in asked.items() if count == 1]:
            ports = {port for kind, port in map(_port_kind, own) if kind == name}
            if len(ports) == 1:
                drawn[name] = ports.pop()
        listen = [_with_port(each, drawn) for each in self.listen]
        return replace(self, listen=tuple(listen)) if drawn else self


def _port_kind(address: str) -> tuple[str, str]:
    """IP version with protocol, and port; ("", "") where an address has none."""
    parts = address.split("/")
    return (f"{parts[1]}/{parts[3]}", parts[4]) if len(parts) > 4 else ("", "")


def _with_port(address: str, drawn: Mapping[str, str]) -> str:
    kind, port = _port_kind(address)
    if port != "0" or kind not in drawn:
        return address
    parts = address.split("/")
    return "/".join([*parts[:4], drawn[kind], *parts[5:]])
