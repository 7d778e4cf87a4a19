"""An attacker: a peer of its own that sends a node messages of every protocol, as many as it can.

Run as `python -m tests.real.flooding ADDRESS SWARM_ID_HEX SECONDS MESSAGES_PER_SECOND`; it
lowers its own priority as far as that goes, since it stands for another machine. Prints one line of
JSON: what was sent, how much of it was answered, how often it had to connect again. Messages are of
valid size, and junk: bytes of no meaning, requests for what nobody has, records that are signed
well and belong elsewhere. Every eighth is of one kind.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import uvloop

from swarmnode.network.dht_records import key_id
from swarmnode.network.dialback import DIAL_BACK_PROTOCOL
from swarmnode.network.hivemind_dht import HivemindPeer
from swarmnode.network.light_hivemind import MSGPackSerializer, PeerID, dht_messages
from swarmnode.network.peer import PeerUnreachable, peer_id_in
from swarmnode.network.peer_order import PeerOrder
from swarmnode.network.shards import bucket_of, shard_key, subkey_of
from swarmproto import (
    DISCOVER_PROTOCOL,
    FETCH_PROTOCOL,
    OFFER_PROTOCOL,
    SWARM_PROTOCOL,
    DiscoverRequest,
    FetchRequest,
    SwarmRequest,
    encode_discover_request,
    encode_fetch_request,
    encode_swarm_request,
    public_key_of,
)
from tests.unit.network_made import announcement, bundle

IN_FLIGHT = 512
STORES = 256
"""Signed beforehand: signatures would take more of the attacker's second than sending does."""
TICK_SECONDS = 0.01
CALL_SECONDS = 5.0
RESPONSE_BYTES = 4 * 1024 * 1024
OFFER_BYTES = 16 * 1024

Message = Callable[[], Awaitable[object]]


class Attacker:
    """One peer and its victim."""

    def __init__(self, peer: HivemindPeer, address: str, swarm_id: bytes) -> None:
        self._peer = peer
        self._address = address
        self._victim = peer_id_in(address)
        self._swarm_id = swarm_id
        self._kinds: Sequence[Message] = (
            lambda: self._call(DISCOVER_PROTOCOL, self._discover()),
            lambda: self._call(FETCH_PROTOCOL, self._fetch()),
            lambda: self._call(OFFER_PROTOCOL, secrets.token_bytes(OFFER_BYTES)),
            lambda: self._call(SWARM_PROTOCOL, self._swarm()),
            lambda: self._call(DIAL_BACK_PROTOCOL, (4001).to_bytes(2)),
            lambda: self._tell("rpc_ping", dht_messages.PingRequest(peer=self._info())),
            lambda: self._tell("rpc_find", self._find()),
            lambda: self._tell("rpc_store", self._store()),
        )
        self._stores = itertools.cycle([self._made_store() for _ in range(STORES)])
        self._running: set[asyncio.Task[None]] = set()
        # Told even where the victim answers nothing at all.
        self.counts = Counter(answered=0)

    async def flood(self, seconds: float, per_second: float) -> None:
        """Send evenly; what is still under way at the end is given up."""
        begun, sent = time.monotonic(), 0
        connecting = asyncio.create_task(self._stay())
        while (now := time.monotonic() - begun) < seconds:
            due = int(now * per_second) - sent
            for _ in range(min(due, IN_FLIGHT - len(self._running))):
                task = asyncio.create_task(self._send(self._kinds[sent % len(self._kinds)]))
                self._running.add(task)
                task.add_done_callback(self._running.discard)
                sent += 1
            await asyncio.sleep(TICK_SECONDS)
        self.counts["sent"] = sent
        self.counts["milliseconds"] = int(1000 * time.process_time())
        for task in (connecting, *self._running):
            task.cancel()
        await asyncio.gather(connecting, *self._running, return_exceptions=True)

    async def _stay(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            if self._victim not in dict(await self._peer.connected()):
                self.counts["connected_again"] += await self._peer.connect(self._address)

    async def _send(self, message: Message) -> None:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await message()
            self.counts["answered"] += 1
        except PeerUnreachable:
            self.counts["turned_away"] += 1
        except Exception as error:  # whatever hivemind makes of a refusal
            self.counts[type(error).__name__] += 1

    async def _call(self, protocol: str, request: bytes) -> None:
        await self._peer.call(self._victim, protocol, request, RESPONSE_BYTES, CALL_SECONDS)

    async def _tell(self, name: str, request: object) -> None:
        client = self._peer._daemon.p2p._client
        data = request.SerializeToString()  # type: ignore[attr-defined]
        victim = PeerID.from_base58(self._victim)
        await client.call_unary_handler(victim, f"DHTProtocol.{name}", data)

    def _info(self) -> object:
        return dht_messages.NodeInfo(node_id=secrets.token_bytes(20))

    def _find(self) -> object:
        keys = [secrets.token_bytes(20) for _ in range(8)]
        return dht_messages.FindRequest(keys=keys, peer=self._info())

    def _store(self) -> object:
        return next(self._stores)

    def _made_store(self) -> object:
        """A record that is signed well, by a key of the moment, and lies in the wrong place."""
        key, now = secrets.token_bytes(32), time.time()
        made = bundle(key, swarm=self._swarm_id)
        value = announcement(key, made, created=now, life=300, swarm=self._swarm_id)
        place = shard_key(self._swarm_id, bucket_of(now) + 7, "")
        return dht_messages.StoreRequest(
            keys=[key_id(place)],
            subkeys=[MSGPackSerializer.dumps(subkey_of(public_key_of(key)))],
            values=[MSGPackSerializer.dumps(value)],
            expiration_time=[now + 300],
            in_cache=[False],
            peer=self._info(),
        )

    def _discover(self) -> bytes:
        return encode_discover_request(DiscoverRequest(self._swarm_id, 64))

    def _fetch(self) -> bytes:
        return encode_fetch_request(FetchRequest(self._swarm_id, secrets.token_bytes(32), (0,)))

    def _swarm(self) -> bytes:
        return encode_swarm_request(SwarmRequest(secrets.token_bytes(32)))


def _step_back(process_id: int) -> None:
    """Where Linux shares a processor out by sessions, niceness counts within each alone."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{process_id}/autogroup").write_text("19", encoding="ascii")


async def attack(address: str, swarm_id: bytes, seconds: float, rate: float, folder: Path) -> None:
    """Flood, and tell."""
    order = PeerOrder(secrets.token_bytes(32), swarm_id, folder, bootstrap=(address,))
    peer = await HivemindPeer.start(order)
    _step_back(peer.process_id)
    try:
        attacker = Attacker(peer, address, swarm_id)
        print("ready", flush=True)
        await attacker.flood(seconds, rate)
        print(json.dumps(attacker.counts), flush=True)
    finally:
        await peer.close()


def main(arguments: list[str]) -> None:
    """Attack."""
    os.nice(19)
    with contextlib.suppress(OSError):
        os.setsid()
    _step_back(os.getpid())
    address, swarm_id, seconds, rate = arguments
    with tempfile.TemporaryDirectory() as folder:
        uvloop.run(
            attack(address, bytes.fromhex(swarm_id), float(seconds), float(rate), Path(folder))
        )


if __name__ == "__main__":
    main(sys.argv[1:])
