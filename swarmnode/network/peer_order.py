"""How a peer is to be started, whatever library it runs on. Plain values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from swarmnode.network.doors import Doors
from swarmnode.network.sealing import Sealing


@dataclass(frozen=True, slots=True)
class PeerOrder:
    """How a peer is to be started; addresses are multiaddrs.

    `private_key` is the Ed25519 seed, 32 bytes. `client`: use the DHT, don't serve it, the mode of
    those that nobody can dial. `public`: AutoNAT, and being reached through relays.
    `relay`: relay others' connections, for bootstrap peers with a public address. `folder` gets
    the key file and sockets; nobody else may be able to enter it. `replicas` are the peers that a
    record is stored on. `sealing` is a private swarm's. `doors` turn strangers away;
    without them everybody is let in. `unreached` says whether others have found that they can't
    dial us, for a library that does not find out by itself.
    """

    private_key: bytes = field(repr=False)
    swarm_id: bytes
    folder: Path
    listen: Sequence[str] = ("/ip4/127.0.0.1/tcp/0",)
    announce_addresses: Sequence[str] = ()
    bootstrap: Sequence[str] = ()
    client: bool = True
    public: bool = False
    relay: bool = False
    replicas: int = 5
    sealing: Sealing | None = None
    doors: Doors | None = None
    unreached: Callable[[], bool] = lambda: False
