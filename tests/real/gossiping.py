"""A node's network in a process of its own, on either library, for tests and figures of gossip.

`python -m tests.real.gossiping node LIBRARY NUMBER FOLDER [ADDRESS]` prints its address, then obeys
lines: `publish COUNT PER_SECOND`, `peers`, `heard`, and `report`, after which it prints what it
heard and how late its loop was, both since it began to publish.
`python -m tests.real.gossiping junk NUMBER SECONDS PER_SECOND ADDRESS` floods that node with
messages of ever new publishers, each signed and none an announcement, and dials it anew when it is
hung up on.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import random
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import uvloop

from swarmnode.clock import SystemClock
from swarmnode.network.belonging import Belonging
from swarmnode.network.choice import Library
from swarmnode.network.dialback import speaks_libp2p
from swarmnode.network.doors import Doors
from swarmnode.network.gossip import topic_of
from swarmnode.network.membership import Membership
from swarmnode.network.peer import Peer
from swarmnode.network.peer_order import PeerOrder
from swarmnode.network.whereabouts import Whereabouts
from swarmnode.networking import builder
from swarmnode.prefixes import networks
from tests.unit.network_made import (
    RULES,
    RULES_BYTES,
    SWARM,
    announcement,
    bundle,
    private_key,
)

TICK_SECONDS = 0.01


class Listener:
    """A membership whose gossip is written down as it is heard."""

    def __init__(
        self, library: Library, number: int, folder: Path, bootstrap: tuple[str, ...]
    ) -> None:
        self.key = private_key(number)
        clock = SystemClock()
        doors = Doors(clock, Whereabouts(networks(["127.0.0.0/8"])))
        own = folder / str(number)
        own.mkdir(mode=0o700)
        ordered = PeerOrder(self.key, SWARM, own, bootstrap=bootstrap, doors=doors)

        async def build(server: bool) -> Peer:
            return await builder(library)(replace(ordered, client=not server))

        belonging = Belonging(
            private_key=self.key,
            swarm_id=SWARM,
            rules=RULES,
            rules_bytes=RULES_BYTES,
            bootstrap=bootstrap,
            saved_peers=(),
            assumed_dialable=True,
            may_demote=False,
        )
        self.member = Membership(
            belonging, build, doors=doors, clock=clock, rng=random.Random(), probe=speaks_libp2p
        )
        self.heard: dict[str, float] = {}
        self.told: dict[str, float] = {}
        self.late: list[float] = []
        self._cpu_before = 0.0
        hear = self.member.gossip.heard

        def written_down(origin: str, data: bytes) -> bool:
            worth = hear(origin, data)
            if worth:
                self.heard.setdefault(hashlib.sha256(data).hexdigest(), time.time())
            return worth

        self.member.gossip.heard = written_down  # type: ignore[method-assign]

    async def publish(self, count: int, per_second: float) -> None:
        """So many announcements, at a rate; what was before is forgotten."""
        self.late.clear()
        self.told.clear()
        self._cpu_before = cpu_seconds()
        begun = time.monotonic()
        for index in range(count):
            await asyncio.sleep(max(0.0, begun + index / per_second - time.monotonic()))
            now = time.time()
            made = bundle(self.key, sequence=int(now * 1000))
            data = announcement(self.key, made, created=now)
            adopted = self.member.rendezvous.adopt(data)
            assert adopted is not None
            self.told[hashlib.sha256(data).hexdigest()] = time.time()
            await self.member.gossip.publish(adopted)

    async def tick(self) -> None:
        """How late the loop is, over and over."""
        while True:
            due = time.monotonic() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            self.late.append(time.monotonic() - due)

    def report(self) -> dict[str, Any]:
        """What happened."""
        member = self.member
        return {
            "heard": self.heard,
            "told": self.told,
            "late": sorted(self.late)[int(len(self.late) * 0.99) :][:1] or [0.0],
            "gossip": dict(member.gossip.counts),
            "turned_away": dict(member.doors.counts),
            "restarts": member.peer.restarts,
            "cpu_seconds": cpu_seconds() - self._cpu_before,
        }


def cpu_seconds() -> float:
    """Of this process, and of its p2pd."""
    children = [each.cpu_times() for each in psutil.Process().children()]
    return time.process_time() + float(sum(each.user + each.system for each in children))


async def _line(reader: asyncio.StreamReader) -> list[str]:
    return (await reader.readline()).decode().split()


async def live(library: Library, number: int, folder: Path, bootstrap: tuple[str, ...]) -> None:
    """Until told to end."""
    listener = Listener(library, number, folder, bootstrap)
    await listener.member.start()
    print(listener.member.peer.addresses[0], flush=True)
    running = [asyncio.ensure_future(work) for work in (listener.member.run(), listener.tick())]
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while True:
        match await _line(reader):
            case ["publish", count, per_second]:
                await listener.publish(int(count), float(per_second))
                print("published", flush=True)
            case ["peers"]:
                print(len(listener.member.peer.connections), flush=True)
            case ["heard"]:
                print(len(listener.heard), flush=True)
            case ["report"]:
                print(json.dumps(listener.report()), flush=True)
                listener.heard.clear()
            case _:
                break
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await listener.member.close()


def _junk(count: int) -> list[bytes]:
    """Messages of that many publishers, each signed as GossipSub wants it."""
    from libp2p.crypto.ed25519 import create_new_key_pair
    from libp2p.pubsub.validators import PUBSUB_SIGNING_PREFIX

    from swarmnode.network.light_libp2p import GossipMessages, PeerID, length_prefixed

    made = []
    for _ in range(count):
        keys = create_new_key_pair(os.urandom(32))
        publisher = PeerID.from_pubkey(keys.public_key).to_bytes()
        message = GossipMessages.Message(
            from_id=publisher, data=os.urandom(300), seqno=bytes(8), topicIDs=[topic_of(SWARM)]
        )
        signed = PUBSUB_SIGNING_PREFIX.encode() + message.SerializeToString()
        message.signature = keys.private_key.sign(signed)
        made.append(
            bytes(length_prefixed(GossipMessages.RPC(publish=[message]).SerializeToString()))
        )
    return made


async def flood(number: int, seconds: float, per_second: float, address: str) -> None:
    """Say junk at a rate; prints how much was said, and how often it was hung up on."""
    from swarmnode.network.light_libp2p import trio
    from tests.unit.libp2p_support import guest, stranger

    junk = _junk(int(seconds * per_second))
    said, hung_up, ends = 0, 0, time.monotonic() + seconds
    async with guest() as on:
        while time.monotonic() < ends and said < len(junk):
            async with stranger(on, number) as one:

                async def say(stream: Any) -> None:
                    nonlocal said
                    begun, before = time.monotonic(), said
                    while said < len(junk) and time.monotonic() < ends:
                        await trio.sleep(0.01)
                        due = before + int((time.monotonic() - begun) * per_second)
                        for each in junk[said:due]:
                            await stream.write(each)
                            said += 1

                with contextlib.suppress(Exception):  # hung up on
                    await one.connect(address)
                    peer_id = address.rpartition("/")[2]
                    await one.on_stream(peer_id, "/meshsub/1.1.0", say)
            hung_up += 1
            await asyncio.sleep(0.1)
    print(json.dumps({"said": said, "hung_up": hung_up}), flush=True)


def main(arguments: list[str]) -> None:
    """See above."""
    match arguments:
        case ["node", "hivemind" | "libp2p" as library, number, folder, *bootstrap]:
            uvloop.run(live(library, int(number), Path(folder), tuple(bootstrap)))
        case ["junk", number, seconds, per_second, address]:
            uvloop.run(flood(int(number), float(seconds), float(per_second), address))


if __name__ == "__main__":
    main(sys.argv[1:])
