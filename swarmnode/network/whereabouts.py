"""Which address prefix each connected peer is connected from, by what p2pd says of connections.

Fed by the list of connections every few seconds, and by each stream that arrives in between.
Bounded: whom it does not know is known through others. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from swarmnode.network.addresses import is_public
from swarmnode.prefixes import THROUGH_OTHERS, Network, prefix_of

NOTED_MAX: Final = 1024
"""Peers beyond those of the last list; p2pd keeps 160 connections."""


class Whereabouts:
    """Peers and their prefixes; those in `exempt` networks have one of their own each."""

    def __init__(self, exempt: Sequence[Network] = ()) -> None:
        self._exempt = tuple(exempt)
        self._listed: dict[str, str] = {}
        self._noted: dict[str, str] = {}
        self.met_outside = False
        """Whether anybody has ever been connected from the internet."""

    def listed(self, addresses: Mapping[str, str]) -> None:
        """All connected peers, by id, with the address that each is connected from."""
        self._noted = {}
        self.met_outside = self.met_outside or any(map(is_public, addresses.values()))
        self._listed = {
            peer_id: prefix_of(peer_id, address, self._exempt)
            for peer_id, address in addresses.items()
        }

    def knows(self, peer_id: str) -> bool:
        """Whether it is connected, as far as we have heard."""
        return peer_id in self._listed or peer_id in self._noted

    def note(self, peer_id: str, address: str) -> None:
        """A peer has just shown itself on a connection from this address."""
        self.met_outside = self.met_outside or is_public(address)
        if not self.knows(peer_id) and len(self._noted) < NOTED_MAX:
            self._noted[peer_id] = prefix_of(peer_id, address, self._exempt)

    def prefix_of(self, peer_id: str) -> str:
        """THROUGH_OTHERS where it is not connected."""
        noted = self._noted.get(peer_id, THROUGH_OTHERS)
        return self._listed.get(peer_id, noted)
