"""What we ask of one peer at a time: bundles to fetch, and to hold ours while nobody can dial us.

Knows the supervised peer and how to get connected, no rendezvous. Addresses come from strangers:
not all of them are dialled, and not every peer is asked. Source: DESIGN.md §4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from swarmnode.network.addresses import may_be_dialled
from swarmnode.network.allowance import BytesByPeer
from swarmnode.network.connectedness import Connectedness
from swarmnode.network.doors import Doors
from swarmnode.network.peer import PeerUnreachable, peer_id_in
from swarmnode.network.sealing import Sealing
from swarmnode.network.supervised import Supervised
from swarmproto import (
    ADDRESS_BYTES_MAX,
    FETCH_PROTOCOL,
    OFFER_PROTOCOL,
    REQUEST_BYTES_MAX,
    RESPONSE_BYTES_MAX,
    WireError,
    decode_fetch_response,
    decode_offer_response,
)

FETCH_SECONDS: Final = 10.0
OFFER_SECONDS: Final = 10.0


class Errands:
    """One membership's; `places` are addresses that our owner named."""

    def __init__(
        self,
        peer: Supervised,
        company: Connectedness,
        doors: Doors,
        sealing: Sealing | None,
        places: Sequence[str],
    ) -> None:
        self._peer = peer
        self._places = tuple(places)
        self._company = company
        self._doors = doors
        self._sealing = sealing
        self.fetched = BytesByPeer()
        """Bytes of bundles that came, by the peer that served them."""

    async def fetch(self, holder: str, request: bytes) -> bytes:
        """A response, decodable and otherwise as it came. Raises PeerUnreachable or WireError."""
        peer_id = await self._reached(holder)
        response = await self._peer.call(
            peer_id, FETCH_PROTOCOL, request, RESPONSE_BYTES_MAX, FETCH_SECONDS
        )
        decode_fetch_response(response)
        self.fetched.add(peer_id, len(response))
        return response

    async def offer(self, holder: str, request: bytes) -> bool:
        """Whether a peer holds what it is offered."""
        try:
            peer_id = await self._reached(holder)
            answer = await self._peer.call(
                peer_id, OFFER_PROTOCOL, request, REQUEST_BYTES_MAX, OFFER_SECONDS
            )
            return decode_offer_response(answer).status == "held"
        except (PeerUnreachable, WireError):
            return False

    def avoids(self, peer_id: str) -> bool:
        """Whether this peer is not asked for anything now: refused, or no member."""
        stranger = self._sealing is not None and self._sealing.is_stranger(peer_id)
        return stranger or self._doors.refuses(peer_id)

    def may_dial(self, address: str) -> bool:
        """Strangers' addresses may not send us into a private network that our swarm is not in."""
        if peer_id_in(address) in ("", self._peer.peer_id) or len(address) > ADDRESS_BYTES_MAX:
            return False
        places = [*self._places, *self._peer.addresses]
        return may_be_dialled(address, places, self._doors.whereabouts.met_outside)

    async def _reached(self, address: str) -> str:
        """The id of the peer at an address, connected by now. Raises PeerUnreachable."""
        peer_id = peer_id_in(address)
        connected = peer_id in self._peer.connections
        if self.avoids(peer_id) or not (connected or self.may_dial(address)):
            raise PeerUnreachable("not an address that we dial")
        if not connected and not await self._company.connect(address):
            raise PeerUnreachable("could not be dialled")
        return peer_id
