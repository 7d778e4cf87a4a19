"""What the network process is told, by a node and by a bootstrap peer alike."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from swarmnode.config.network import Network
from swarmnode.home import Home
from swarmnode.network.choice import chosen_library
from swarmnode.network.order import NetworkOrder
from swarmnode.publish import Identity
from swarmnode.swarm_files import SwarmFile
from swarmproto import encode_rules

log = structlog.get_logger()


def network_order(
    network: Network, home: Home, identity: Identity, swarm: SwarmFile, saved_peers: Sequence[str]
) -> NetworkOrder:
    """The order for a swarm; its bootstrap peers come after those of the settings.

    Raises NoLibrary.
    """
    library = chosen_library(network.transport)
    log.info("what the network runs on", transport=library, setting=network.transport)
    return NetworkOrder(
        private_key=identity.private_key,
        swarm_id=swarm.swarm_id,
        rules=encode_rules(swarm.rules),
        # Of a local network's peers nobody can use this machine's own addresses.
        listen=network.open_addresses if network.lan else network.listen,
        announce_addresses=network.announce,
        bootstrap=tuple(dict.fromkeys((*network.bootstrap, *swarm.bootstrap))),
        saved_peers=tuple(saved_peers),
        public=network.public,
        relay=network.relay,
        exempt_networks=network.exempt_networks,
        lan=network.lan,
        lan_port=network.lan_port,
        lan_interfaces=network.lan_interfaces,
        transport=library,
        folder=str(home.path),
        swarm_key=swarm.key,
    )
