"""Who a membership is, in which swarm, and what it has been told to believe. Plain values."""

from __future__ import annotations

from dataclasses import dataclass, field

from swarmnode.network.sealing import Sealing
from swarmproto import SwarmRules


@dataclass(frozen=True, slots=True)
class Belonging:
    """Who we are, and in which swarm."""

    private_key: bytes = field(repr=False)
    swarm_id: bytes
    rules: SwarmRules | None
    rules_bytes: bytes
    bootstrap: tuple[str, ...]
    saved_peers: tuple[str, ...]
    assumed_dialable: bool
    """Whether we take it that others can dial us, until they say otherwise."""
    may_demote: bool
    """Whether we believe them when they say otherwise."""
    sealing: Sealing | None = None
    """A private swarm's."""
