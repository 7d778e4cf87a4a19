"""A peer of either library in a process of its own, for tests of how two of them get connected.

`python -m tests.real.punching LIBRARY NUMBER FOLDER LISTEN ROLE BOOTSTRAP...` prints its id and its
addresses, as JSON, then obeys lines: `addresses`, `connected`, `connect ADDRESS`, each of which it
answers by a line of JSON. ROLE is `relay`, or `public` for one that is to be relayed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import uvloop

from swarmnode.clock import SystemClock
from swarmnode.network.doors import Doors
from swarmnode.network.peer import Peer
from swarmnode.network.peer_order import PeerOrder
from swarmnode.network.whereabouts import Whereabouts
from swarmnode.networking import builder
from tests.unit.network_made import SWARM, private_key


def order(arguments: list[str]) -> PeerOrder:
    """What the arguments ask for; nobody can dial it, as it believes."""
    number, folder, listen, role, *bootstrap = arguments
    own = Path(folder) / number
    own.mkdir(parents=True, mode=0o700)
    return PeerOrder(
        private_key(int(number)),
        SWARM,
        own,
        listen=(listen,),
        bootstrap=tuple(bootstrap),
        client=role == "public",
        public=role == "public",
        relay=role == "relay",
        doors=Doors(SystemClock(), Whereabouts()),
        unreached=lambda: True,
    )


async def obey(peer: Peer, words: list[str]) -> Any:
    """The answer to a line."""
    match words:
        case ["addresses"]:
            return [peer.peer_id, list(peer.addresses)]
        case ["connected"]:
            return list(await peer.connected())
        case ["connect", address]:
            return await peer.connect(address)
    raise ValueError(f"not understood: {words}")


async def live(library: Any, arguments: list[str]) -> None:
    """Until told nothing more."""
    peer = await builder(library)(order(arguments))
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    print(json.dumps(await obey(peer, ["addresses"])), flush=True)
    while words := (await reader.readline()).decode().split():
        print(json.dumps(await obey(peer, words)), flush=True)
    await peer.close()


if __name__ == "__main__":
    uvloop.run(live(sys.argv[1], sys.argv[2:]))
