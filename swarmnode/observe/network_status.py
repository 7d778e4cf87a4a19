"""What the status document says of the network: who can be reached, how, and why not. Frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Self

from pydantic import Field

from swarmnode.observe.facts import Facts, NetworkState
from swarmnode.observe.part import Part

Reach = Literal["unknown", "reachable", "nearby", "relayed", "unreachable"]
"""By being dialled; the same, where only those on our local networks have tried; through a relay;
or not at all."""


class BootstrapStatus(Part):
    """A peer to start from."""

    address: str
    connected: bool
    failures: int = 0
    """Attempts in a row."""


class LanStatus(Part):
    """The local networks that the node listens and looks around on."""

    addresses: tuple[str, ...] = ()
    """Host and port on each."""
    connected: int = 0
    """Peers that were found there, of those connected now."""
    error: str = ""
    """Why it can't, in one line; empty where it can."""
    counts: Mapping[str, int] = Field(default_factory=dict)
    """What became of the nodes that it was told of, and of messages that were not read."""


class NetworkStatus(Part):
    """The network process, as `Transport.health` tells it."""

    state: NetworkState
    transport: Literal["", "hivemind", "libp2p"] = ""
    """The library that it runs on; "" where no network is wanted."""
    state_seconds: float = 0.0
    """How long it has been in that state."""
    addresses: tuple[str, ...] = ()
    """Where others may dial."""
    reachable: bool | None = None
    """Whether others can dial us; None while unknown."""
    reach: Reach = "unknown"
    """How others get to us."""
    relays: tuple[str, ...] = ()
    """Ids of the peers that pass others' connections on to us."""
    relayed: Mapping[str, int] = Field(default_factory=dict)
    """What this node did as a relay on py-libp2p, since the start: places and circuits, given,
    refused and failed, and bytes carried between others."""
    asked_for: tuple[str, ...] = ()
    """Of the settings `public` and `relay` those that are on."""
    peers: int = 0
    """Connected now."""
    strangers: int = 0
    """Those of them that are no members of this private swarm, as far as they have shown it."""
    unopened: Mapping[str, int] = Field(default_factory=dict)
    """What did not open under a private swarm's key, since the start, by protocol and reason."""
    known_announcements: int = 0
    swarm_size: float = 0.0
    """Estimated nodes that publish, this one included; 0.0 before any was heard of."""
    shard_level: int = 0
    """Bits of the prefix by which announcements are spread over the DHT; follows from that size."""
    last_acknowledgement_seconds: float | None = None
    """Since another peer confirmed to have stored an announcement of ours."""
    restarts: int = 0
    """Of the network process, since the start."""
    clock_offset_seconds: float | None = None
    """Median of the peers' clocks minus ours."""
    bytes_in: int = 0
    bytes_out: int = 0
    bootstrap: tuple[BootstrapStatus, ...] = ()
    next_attempt_seconds: float | None = None
    """Until bootstrap peers are dialled again, where known."""
    error: str = ""
    lan: LanStatus | None = None
    """None for a node that does not look around on local networks (`--lan`)."""

    @classmethod
    def of(cls, health: Mapping[str, Any], state_seconds: float) -> Self:
        """From what `Transport.health` says; `state_seconds` is how long it has been in its state.

        Raises pydantic's ValidationError where these break their contract.
        """
        told = {name: value for name, value in health.items() if value is not None}
        return cls.model_validate({"state_seconds": state_seconds, **told})

    def told_in(self, facts: Facts) -> Facts:
        """The facts with what this says of the network."""
        lan = self.lan or LanStatus()
        return replace(
            facts,
            network_state=self.state,
            network_state_seconds=self.state_seconds,
            network_error=self.error,
            next_attempt_seconds=self.next_attempt_seconds,
            peers=self.peers,
            swarm_size=self.swarm_size,
            bootstrap_tried=len(self.bootstrap),
            bootstrap_failed=sum(not peer.connected for peer in self.bootstrap),
            last_acknowledgement_seconds=self.last_acknowledgement_seconds,
            reachable=self.reachable,
            relayed=self.reach == "relayed",
            clock_offset_seconds=self.clock_offset_seconds,
            open_addresses=(*facts.open_addresses, *lan.addresses),
            lan=self.lan is not None,
            lan_error=lan.error,
        )
