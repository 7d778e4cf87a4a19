"""A membership and all its parts, made out of an order: wiring, no logic."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from swarmnode.clock import Clock
from swarmnode.keys import peer_id_of
from swarmnode.network.belonging import Belonging
from swarmnode.network.checked_order import assumed_dialable
from swarmnode.network.dialback import speaks_libp2p
from swarmnode.network.doors import Doors
from swarmnode.network.lan import Lan
from swarmnode.network.lan_links import MulticastLink, OpenLink
from swarmnode.network.membership import Membership
from swarmnode.network.order import NetworkOrder
from swarmnode.network.peer import Peer
from swarmnode.network.peer_order import PeerOrder
from swarmnode.network.premises import Place, Premises, places_of
from swarmnode.network.sealing import Sealing
from swarmnode.network.whereabouts import Whereabouts
from swarmnode.prefixes import networks
from swarmproto import SwarmRules, SwarmSecret, public_key_of

BuildPeer = Callable[[PeerOrder], Awaitable[Peer]]


@dataclass(frozen=True, slots=True)
class Assembly:
    """What memberships of a process share: the library, the clock, chance, and this machine."""

    build_peer: BuildPeer
    clock: Clock
    rng: random.Random
    places: Callable[[Sequence[str]], Sequence[Place]] = places_of
    open_link: OpenLink = MulticastLink

    def member(self, order: NetworkOrder, rules: SwarmRules | None) -> Membership:
        """To be started, and then run; of rules that are to be asked for yet, None."""
        settled, sealing = order, None
        doors = Doors(self.clock, Whereabouts(networks(order.exempt_networks)))
        if order.swarm_key:
            sealing = Sealing(SwarmSecret(order.swarm_key), self.clock)
        premises = Premises(partial(self.places, order.lan_interfaces), order.lan_port)

        async def build(server: bool) -> Peer:
            nonlocal settled
            peer = await self.build_peer(
                PeerOrder(
                    private_key=order.private_key,
                    swarm_id=order.swarm_id,
                    folder=Path(order.folder),
                    listen=premises.settle(order.listen) if order.lan else settled.listen,
                    announce_addresses=order.announce_addresses,
                    bootstrap=order.bootstrap,
                    client=not server,
                    public=order.public,
                    relay=order.relay,
                    sealing=sealing,
                    doors=doors,
                    unreached=lambda: member.company.reachable is False,
                )
            )
            # What we announced names the port that was drawn, so the next peer should have it too.
            settled = order.with_drawn_port(peer.addresses)
            return peer

        belonging = Belonging(
            private_key=order.private_key,
            swarm_id=order.swarm_id,
            rules=rules,
            rules_bytes=order.rules,
            bootstrap=tuple(order.bootstrap),
            saved_peers=tuple(order.saved_peers),
            assumed_dialable=assumed_dialable(order),
            may_demote=not (order.test_network or order.relay),
            sealing=sealing,
        )
        member = Membership(
            belonging,
            build,
            doors=doors,
            clock=self.clock,
            rng=self.rng,
            probe=speaks_libp2p,
            lan=self._lan(order, premises, sealing) if order.lan else None,
        )
        return member

    def _lan(self, order: NetworkOrder, premises: Premises, sealing: Sealing | None) -> Lan:
        from swarmnode.network.lan_messages import Language, service_type

        service = service_type(order.swarm_id, sealing.secret if sealing else None)
        return Lan(
            peer_id=peer_id_of(public_key_of(order.private_key)),
            language=Language(service, f"{self.rng.getrandbits(64):016x}"),
            premises=premises,
            open_link=self.open_link,
            probe=speaks_libp2p,
            clock=self.clock,
            rng=self.rng,
        )
