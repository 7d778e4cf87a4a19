"""Addresses of others from the peers that we have, where no DHT connects those who know one peer.

Announcements name their holders, and that is how nodes at work find each other; before the first
of them, and for who joins a swarm that is silent, a peer is asked where one may begin: the swarm
protocol's second half. What it names is dialled as what was heard of: by need, bounded, and given
up after a few failures. Beside it stands who has shown us that it can be dialled, to be named to
others. Named is only what we would dial at a stranger's word ourselves, so that nobody hears from
us who is in a private network around us. Source: protocol/README.md, section 10; decision 0039.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from swarmnode.clock import Clock
from swarmnode.network.connectedness import WANTED_PEERS
from swarmnode.network.peer import PeerUnreachable, peer_id_in
from swarmnode.network.saved_peers import DialBook
from swarmnode.network.supervised import Supervised
from swarmproto import (
    RESPONSE_BYTES_MAX,
    SWARM_PROTOCOL,
    SwarmRequest,
    WireError,
    decode_swarm_response,
    encode_swarm_request,
)

FIRST_SECONDS: Final = 5.0
EVERY_SECONDS: Final = 20.0
ASK_SECONDS: Final = 8.0
SHOWN_REMEMBERED: Final = 64


class Exchange:
    """One membership's; `run` must be running for others to be found."""

    def __init__(
        self,
        *,
        swarm_id: bytes,
        peer: Supervised,
        book: DialBook,
        clock: Clock,
        rng: random.Random,
        avoids: Callable[[str], bool],
        may_dial: Callable[[str], bool],
    ) -> None:
        self._request = encode_swarm_request(SwarmRequest(swarm_id))
        self._peer = peer
        self._book = book
        self._clock = clock
        self._rng = rng
        self._avoids = avoids
        self._may_dial = may_dial
        self._shown: OrderedDict[str, str] = OrderedDict()

    def shown(self, address: str) -> None:
        """Somebody answers at this address, where a connected peer said that it is."""
        peer_id = peer_id_in(address)
        self._shown[peer_id] = address
        self._shown.move_to_end(peer_id)
        if len(self._shown) > SHOWN_REMEMBERED:
            self._shown.popitem(last=False)

    def dialable(self) -> Sequence[str]:
        """Addresses of connected peers that have shown themselves, in random order; none that would
        tell strangers of a private network."""
        connected = self._peer.connections
        found = [
            address
            for peer_id, address in self._shown.items()
            if peer_id in connected and self._may_dial(address)
        ]
        return self._rng.sample(found, len(found))

    async def run(self) -> None:
        """Ask for addresses while we have few peers and no DHT, until cancelled."""
        await self._clock.sleep(FIRST_SECONDS)
        while True:
            if not self._peer.has_dht and len(self._peer.connections) < WANTED_PEERS:
                await self._ask()
            await self._clock.sleep(EVERY_SECONDS)

    async def _ask(self) -> None:
        fit = [peer_id for peer_id in self._peer.connections if not self._avoids(peer_id)]
        if not fit:
            return
        try:
            answer = await self._peer.call(
                self._rng.choice(fit),
                SWARM_PROTOCOL,
                self._request,
                RESPONSE_BYTES_MAX,
                ASK_SECONDS,
            )
            named = decode_swarm_response(answer).bootstrap
        except (PeerUnreachable, WireError):
            return
        for address in filter(self._may_dial, named):
            self._book.add(address, "heard", self._clock.now())
