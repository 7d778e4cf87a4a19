"""`swarmnode bootstrap`: the network process and its status, without a model, a scorer or a store.

Imports neither torch nor reasoning-gym: a small server carries it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import structlog
import uvloop

from swarmnode import __version__
from swarmnode.api.documents import PeersDocument, RolloutsDocument, WhyDocument
from swarmnode.api.status import Documents, StatusServer
from swarmnode.clock import SystemClock
from swarmnode.config.network import Network
from swarmnode.files import write_atomically
from swarmnode.home import Home
from swarmnode.joining import network_order
from swarmnode.limits import raise_open_files
from swarmnode.network.remote import RemoteTransport
from swarmnode.observe import status as shown
from swarmnode.observe.disk import occupied
from swarmnode.observe.facts import Facts
from swarmnode.observe.health import warnings
from swarmnode.observe.health_log import HealthLog
from swarmnode.observe.machine import MachineStatus, ProcessStatus
from swarmnode.observe.network_status import NetworkStatus
from swarmnode.observe.tracking import Lasting
from swarmnode.publish import Identity
from swarmnode.service import ServiceManager
from swarmnode.stopping import Stopping
from swarmnode.swarm_files import SwarmFile
from swarmnode.telling import door_lines, near_peer

GRACE_SECONDS = 5.0
LOOK_SECONDS = 2.0

log = structlog.get_logger()


class BootstrapError(Exception):
    """The peer cannot begin, for instance because its port is taken; one line."""


Say = Callable[[str], None]


def serve(network: Network, home: Home, identity: Identity, swarm: SwarmFile, *, say: Say) -> None:
    """Run until told to stop; tells the addresses as soon as they are known.

    Raises SocketError and BootstrapError.
    """
    raise_open_files()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_live(network, home, identity, swarm, say))


async def _live(
    network: Network, home: Home, identity: Identity, swarm: SwarmFile, say: Say
) -> None:
    stopping, clock = Stopping(GRACE_SECONDS, "stopping"), SystemClock()
    # By swarm: where to begin is told to whoever asks.
    peers_file = home.path / f"saved_peers-{swarm.swarm_id.hex()[:16]}"
    order = network_order(network, home, identity, swarm, _read(peers_file))
    async with AsyncExitStack() as stack:
        transport = RemoteTransport(
            order,
            clock,
            on_saved_peers=lambda peers: _write(peers_file, peers),
            log_folder=home.log,
        )
        stack.push_async_callback(transport.close)
        documents = _documents(transport, home, identity, swarm, clock)
        server = await StatusServer.start(home.status_socket, documents)
        stack.push_async_callback(server.close)
        await transport.start()
        if why := await transport.begun():
            raise BootstrapError(why)
        manager = ServiceManager(os.environ)
        told: tuple[str, ...] = ()
        health_log, state, started = HealthLog(), Lasting(), clock.now()
        while not stopping.asked:
            health, now = await transport.health(), clock.now()
            health_log.heard(warnings(_facts(health, state, now, started)), now)
            addresses = tuple(health.get("addresses") or ())
            manager.tell("running" if addresses else "starting", " ".join(addresses))
            if addresses and addresses != told:
                told = addresses
                for address in addresses:
                    say(address)
                log.info("serving", addresses=list(addresses))
            await stopping.sleep(LOOK_SECONDS)
        manager.tell("stopping", "")


def _facts(health: Mapping[str, Any], state: Lasting, now: float, started: float) -> Facts:
    """What a peer that neither trains nor publishes can complain of."""
    network = NetworkStatus.of(health, state.seconds(health["state"], now))
    return network.told_in(Facts(wants_external=False, shares=False, uptime_seconds=now - started))


def _documents(
    transport: RemoteTransport, home: Home, identity: Identity, swarm: SwarmFile, clock: SystemClock
) -> Documents:
    started, state = clock.now(), Lasting()

    async def status() -> object:
        now, health = clock.now(), await transport.health()
        facts = _facts(health, state, now, started)
        return shown.StatusDocument(
            role="bootstrap",
            version=__version__,
            started=started,
            now=now,
            node=shown.NodeStatus(
                peer_id=health.get("peer_id") or "",
                public_key=identity.public_key.hex(),
                instance=identity.instance.hex(),
            ),
            swarm=shown.SwarmStatus(
                id=swarm.swarm_id.hex(), name=swarm.rules.name, private=swarm.private
            ),
            network=NetworkStatus.of(health, facts.network_state_seconds),
            processes=(ProcessStatus.of("daemon", os.getpid(), 0),),
            machine=MachineStatus.of(home.path),
            home_bytes=occupied(home.path),
            warnings=tuple(warnings(facts)),
        ).as_json()

    async def peers() -> object:
        known = tuple(map(near_peer, await transport.peers()))
        return PeersDocument(peers=known).model_dump(mode="json")

    async def rollouts(count: int) -> object:
        return RolloutsDocument().as_json()

    async def why(peer: str) -> object:
        near = [each for each in await transport.peers() if each["peer_id"].startswith(peer)]
        status = near_peer(near[0] if near else {"peer_id": peer})
        lines = ("A bootstrap peer judges nobody.", *door_lines(status))
        return WhyDocument(peer=status.peer, lines=lines).model_dump(mode="json")

    return Documents(status=status, peers=peers, rollouts=rollouts, why=why)


def _read(path: Path) -> Sequence[str]:
    try:
        return path.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError):
        return ()


def _write(path: Path, peers: Sequence[str]) -> None:
    try:
        write_atomically(path, "".join(f"{peer}\n" for peer in peers))
    except OSError as error:
        log.error("peers cannot be kept", why=error.strerror)
