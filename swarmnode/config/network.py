"""Settings of a node's place on a real network; a simulation in memory has its own (simulation)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from swarmnode.config.base import Section
from swarmnode.prefixes import networks

_LOOPBACK = ("/ip4/127.", "/ip6/::1/")


class Network(Section):
    """Where a node listens, whom it calls first, and what it opens."""

    transport: Literal["auto", "hivemind", "libp2p"] = "auto"
    """The library that speaks with other nodes; both speak with each other. `hivemind` brings the
    Go program p2pd and a DHT; `libp2p` is Python alone, and finds nodes through those that it
    knows. `auto` takes hivemind where it is installed; `status` says which it took."""

    listen: tuple[str, ...] = ("/ip4/127.0.0.1/tcp/0",)
    """Addresses to listen on, as multiaddrs. The default is this machine alone, at any free port;
    `/ip4/0.0.0.0/tcp/PORT` is every network that it is on, `/ip6/::/tcp/PORT` the same over IPv6,
    `/ip4/0.0.0.0/udp/PORT/quic-v1` over QUIC."""

    announce: tuple[str, ...] = ()
    """Addresses that others are told to dial, where they differ from those listened on; each with
    its port."""

    bootstrap: tuple[str, ...] = ()
    """Bootstrap peers, as multiaddrs that end in /p2p/PEER; beside those of the swarm file."""

    public: bool = False
    """Whether this node offers itself to strangers: a DHT server from the start, until others can't
    dial it; AutoNAT, and where that finds a router in between, bootstrap peers as relays."""

    relay: bool = False
    """Whether this node relays other nodes' connections; a bootstrap peer may."""

    lan: bool = False
    """Whether to listen on the local networks that this machine is on, and to find other nodes of
    the swarm there by multicast DNS, without any address. Loopback addresses of `listen` are left
    out then, others stay."""

    lan_port: int = Field(default=0, ge=0, le=65535)
    """The TCP port on local networks, for a firewall that has to let it in; 0 draws one."""

    lan_interfaces: tuple[str, ...] = ()
    """Network interfaces that `lan` uses, by name, such as wlan0. The default is all with a private
    IPv4 address that are no tunnels."""

    exempt_networks: tuple[str, ...] = ("127.0.0.0/8", "::1/128")
    """Networks in which every peer counts as an address prefix of its own, instead of all in a /24
    (IPv6: a /48) sharing what one may have of this node. The default is this machine; name the
    networks of your own test swarm, never one that strangers can connect from. Behind a proxy that
    hides addresses, remove the proxy's."""

    @field_validator("exempt_networks")
    @classmethod
    def _must_be_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        networks(value)
        return value

    @property
    def open_addresses(self) -> tuple[str, ...]:
        """Those listened on that are not of this machine alone."""
        return tuple(each for each in self.listen if not each.startswith(_LOOPBACK))
