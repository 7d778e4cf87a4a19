"""Members of swarms in virtual time, over peers that are faked."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from swarmnode.clock import Clock, VirtualClock
from swarmnode.keys import peer_id_of
from swarmnode.network.belonging import Belonging
from swarmnode.network.doors import Doors
from swarmnode.network.membership import Membership
from swarmnode.network.reporting import health_of
from swarmnode.network.sealing import Sealing
from swarmnode.network.whereabouts import Whereabouts
from swarmnode.prefixes import Network, networks
from swarmproto import (
    Bundle,
    FetchRequest,
    FetchResponse,
    SwarmSecret,
    bundle_id,
    decode_fetch_response,
    encode_fetch_request,
    public_key_of,
    swarm_id,
)
from tests.unit.network_fake import FakePeer, FakeWorld, builder
from tests.unit.network_made import RULES, RULES_BYTES, announcement, bundle, private_key

LOOPBACK = networks(["127.0.0.0/8"])


def peer_id(number: int) -> str:
    """By number."""
    return peer_id_of(public_key_of(private_key(number)))


def address(number: int) -> str:
    """By number."""
    return f"/ip4/127.0.0.1/tcp/{4000 + number}/p2p/{peer_id(number)}"


@dataclass
class Fake:
    """A world and its members by number."""

    clock: VirtualClock
    world: FakeWorld
    members: dict[int, Membership] = field(default_factory=dict)

    def peer(self, number: int) -> FakePeer:
        """The present peer of a member."""
        return self.world.peers[peer_id(number)]

    def links(self, number: int) -> int:
        """To how many it is connected."""
        return len(self.peer(number).links)

    def health(self, member: Membership) -> dict[str, Any]:
        """As its daemon hears it."""
        return health_of(member, self.clock)

    def swarm_of(self, member: Membership) -> bytes:
        """The id of its swarm."""
        return swarm_id(RULES, member.sealing.secret if member.sealing else None)

    async def publish(self, number: int, *, sequence: int = 1, life: float = 300.0) -> Bundle:
        """A bundle by a member, announced."""
        key, member = private_key(number), self.members[number]
        swarm = self.swarm_of(member)
        made = bundle(key, sequence=sequence, swarm=swarm)
        now = self.clock.now()
        holders = tuple(member.holders())
        sealed = announcement(key, made, created=now, life=life, holders=holders, swarm=swarm)
        await member.announce(sealed, made.header_bytes, made.group_bytes, now + life)
        return made

    async def fetch(self, number: int, holder: str, wanted: Bundle) -> FetchResponse:
        """Two groups of a bundle."""
        swarm = self.swarm_of(self.members[number])
        request = encode_fetch_request(FetchRequest(swarm, bundle_id(wanted.header_bytes), (0, 1)))
        return decode_fetch_response(await self.members[number].fetch(holder, request))

    async def found(self, number: int, count: int = 64) -> set[bytes]:
        """Keys of those that a member hears of."""
        entries = await self.members[number].discover(count)
        return {entry.announcement.public_key for entry in entries}

    async def until(self, holds: Callable[[], bool], seconds: float) -> float:
        """Wait until something holds; how long it took."""
        begun = self.clock.now()
        while not holds():
            assert self.clock.now() - begun < seconds, "it did not come about"
            await asyncio.sleep(0.5)
        return self.clock.now() - begun


class Members:
    """Starts members and runs them."""

    def __init__(self, fake: Fake) -> None:
        self.fake = fake
        self._running: list[asyncio.Task[None]] = []

    async def join(
        self,
        number: int,
        *bootstrap: int,
        saved: tuple[int, ...] = (),
        assumed: bool = True,
        clock: Clock | None = None,
        secret: SwarmSecret | None = None,
        exempt: Sequence[Network] = LOOPBACK,
        dials_back: bool = True,
    ) -> Membership:
        """A secret makes it one of the private swarm with these rules; one that doesn't dial back
        reaches nobody."""

        async def probe(_host: str, port: int) -> bool:
            reached = {
                int(each.addresses[0].split("/")[4])
                for each in self.fake.world.peers.values()
                if each.peer_id not in self.fake.world.undialable
            }
            return dials_back and port in reached

        key = private_key(number)
        member = Membership(
            Belonging(
                private_key=key,
                swarm_id=swarm_id(RULES, secret),
                rules=RULES,
                rules_bytes=RULES_BYTES,
                bootstrap=tuple(map(address, bootstrap)),
                saved_peers=tuple(map(address, saved)),
                assumed_dialable=assumed,
                may_demote=True,
                sealing=Sealing(secret, self.fake.clock) if secret else None,
            ),
            builder(self.fake.world, key, 4000 + number),
            doors=Doors(clock or self.fake.clock, Whereabouts(exempt)),
            clock=clock or self.fake.clock,
            rng=random.Random(number),
            probe=probe,
        )
        self.fake.members[number] = member
        await member.start()
        self._running.append(asyncio.ensure_future(member.run()))
        return member

    async def close(self) -> None:
        """End all."""
        for task in self._running:
            task.cancel()
        results = await asyncio.gather(*self._running, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in results), results
        for member in self.fake.members.values():
            await member.close()


@asynccontextmanager
async def members(clock: VirtualClock) -> AsyncIterator[tuple[Fake, Members]]:
    """A world without members yet; all have left at the end."""
    fake = Fake(clock, FakeWorld(clock.now))
    joining = Members(fake)
    try:
        yield fake, joining
    finally:
        await joining.close()
