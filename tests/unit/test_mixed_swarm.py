"""Network processes on hivemind and on py-libp2p in one swarm: found, fetched, killed, back."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvloop

from swarmnode.clock import SystemClock
from swarmnode.network.choice import Library
from swarmnode.network.order import NetworkOrder
from swarmnode.network.remote import RemoteTransport
from swarmnode.network.transport import TransportError
from swarmproto import FetchRequest, bundle_id
from tests.unit.network_made import RULES_BYTES, SWARM, announcement, bundle, private_key

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        importlib.util.find_spec("libp2p") is None, reason="the extra libp2p is not installed"
    ),
]


@dataclass
class Node:
    """One network process, as its daemon has it."""

    number: int
    transport: RemoteTransport
    published: int = 0

    async def publish(self) -> bytes:
        """A bundle of its own; its id."""
        self.published += 1
        made = bundle(private_key(self.number), sequence=self.published)
        now, holders = time.time(), tuple(self.transport.holders)
        data = announcement(private_key(self.number), made, created=now, holders=holders)
        await self.transport.announce(data, made, now + 300)
        return bundle_id(made.header_bytes)

    async def hears_of(self, data: bytes) -> bool:
        """Whether it is told of an announcement that has this in it."""
        return any(data in each.data for each in await self.transport.discover(64))

    async def fetches(self, holder: str, wanted: bytes) -> bool:
        """Both groups, from whoever holds them."""
        try:
            answer = await self.transport.fetch(holder, FetchRequest(SWARM, wanted, (0, 1)))
        except TransportError:
            return False
        return len(answer.groups) == 2


@asynccontextmanager
async def node(number: int, library: Library, folder: Path, *bootstrap: str) -> AsyncIterator[Node]:
    home = folder / str(number)
    home.mkdir()
    ordered = NetworkOrder(
        private_key=private_key(number),
        swarm_id=SWARM,
        rules=RULES_BYTES,
        folder=str(home),
        listen=("/ip4/127.0.0.1/tcp/0",),
        bootstrap=bootstrap,
        transport=library,
        exempt_networks=("127.0.0.0/8",),
    )
    transport = RemoteTransport(ordered, SystemClock(), on_saved_peers=lambda _: None)
    await transport.start()
    try:
        assert await transport.begun() == ""
        yield Node(number, transport)
    finally:
        await transport.close()


async def until_all(*asked: AsyncIterator[bool], seconds: float = 90.0) -> float:
    """Until each has said yes once; how long it took."""
    begun = time.monotonic()

    async def one(answers: AsyncIterator[bool]) -> None:
        async for answer in answers:
            if answer:
                return
            await asyncio.sleep(0.3)

    async with asyncio.timeout(seconds), asyncio.TaskGroup() as tasks:
        for each in asked:
            tasks.create_task(one(each))
    return time.monotonic() - begun


async def hearing(listener: Node, wanted: bytes) -> AsyncIterator[bool]:
    while True:
        yield await listener.hears_of(wanted)


async def fetching(asker: Node, holder: Node, wanted: bytes) -> AsyncIterator[bool]:
    while True:
        holders = holder.transport.holders
        yield bool(holders) and await asker.fetches(holders[0], wanted)


@pytest.mark.parametrize("first", ["hivemind", pytest.param("libp2p", marks=pytest.mark.real)])
def test_whichever_kind_the_bootstrap_peer_is_both_kinds_share_and_go_on_without_it(
    first: Library, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            leaving = AsyncExitStack()
            bootstrap = await leaving.enter_async_context(node(1, first, tmp_path))
            stack.push_async_callback(leaving.aclose)
            [address] = (await bootstrap.transport.health())["addresses"]
            kinds: tuple[Library, ...] = ("hivemind", "libp2p", "libp2p")
            nodes = [
                await stack.enter_async_context(node(number, kind, tmp_path, address))
                for number, kind in enumerate(kinds, start=2)
            ]
            pairs = [(one, other) for one in nodes for other in nodes if one is not other]
            made = {each.number: await each.publish() for each in nodes}
            await until_all(*(hearing(one, made[other.number]) for one, other in pairs))
            await until_all(*(fetching(one, other, made[other.number]) for one, other in pairs))
            # Who has fetched from whom is connected to it: nobody needs the first one any more.
            await leaving.aclose()
            made = {each.number: await each.publish() for each in nodes}
            took = await until_all(*(hearing(one, made[other.number]) for one, other in pairs))
            print(f"without the bootstrap peer all heard of all after {took:.1f} s")
            killed = nodes[-1]
            before = killed.transport.process_id
            assert before is not None
            os.kill(before, signal.SIGKILL)
            made[killed.number] = await killed.publish()
            others = [each for each in nodes if each is not killed]
            took = await until_all(
                *(hearing(each, made[killed.number]) for each in others),
                *(fetching(each, killed, made[killed.number]) for each in others),
                *(hearing(killed, made[each.number]) for each in others),
            )
            print(f"back in the swarm {took:.1f} s after it was killed")
            assert killed.transport.process_id != before
            told = [(await each.transport.health())["transport"] for each in nodes]
            assert told == list(kinds)

    uvloop.run(scenario())
