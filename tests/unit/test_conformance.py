"""protocol/conformance against our nodes over a real connection, and against one that is broken."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from swarmnode.clock import SystemClock
from swarmnode.network.choice import Library
from swarmnode.network.order import NetworkOrder
from swarmnode.network.remote import RemoteTransport
from swarmproto import SwarmSecret, swarm_id
from tests.unit.network_made import RULES, RULES_BYTES, private_key

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        importlib.util.find_spec("libp2p") is None, reason="the extra libp2p is not installed"
    ),
]

ROOT = Path(__file__).parent.parent.parent
KEY = bytes(range(32))


async def conformance(address: str, key: bytes = b"") -> tuple[int | None, dict[str, str]]:
    """The program's exit code, and what it found by promise."""
    private = ["--key", key.hex()] if key else []
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "protocol" / "conformance" / "run.py"),
        *("--rules", RULES_BYTES.hex(), *private, address),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "protocol")},
    )
    out, _ = await process.communicate()
    lines = [line.partition(": ") for line in out.decode().splitlines()]
    return process.returncode, {name: found for name, _, found in lines}


@asynccontextmanager
async def node(library: Library, folder: Path, key: bytes = b"") -> AsyncIterator[str]:
    """The address of a network process without a daemon's node behind it."""
    secret = SwarmSecret(key) if key else None
    transport = RemoteTransport(
        NetworkOrder(
            private_key=private_key(1),
            swarm_id=swarm_id(RULES, secret),
            rules=RULES_BYTES,
            folder=str(folder),
            swarm_key=key,
            listen=("/ip4/127.0.0.1/tcp/0",),
            transport=library,
            exempt_networks=("127.0.0.0/8",),
        ),
        SystemClock(),
        on_saved_peers=lambda _: None,
    )
    await transport.start()
    try:
        assert await transport.begun() == ""
        yield str((await transport.health())["addresses"][0])
    finally:
        await transport.close()


@pytest.mark.parametrize(
    ("library", "key"),
    [
        pytest.param("hivemind", b"", marks=pytest.mark.real),
        ("libp2p", b""),
        pytest.param("libp2p", KEY, marks=pytest.mark.real),
    ],
    ids=["hivemind", "libp2p", "libp2p-private"],
)
def test_our_nodes_keep_the_protocol(library: Library, key: bytes, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node(library, tmp_path, key) as address:
            code, found = await conformance(address, key)
        print(f"{library}: {found}")
        assert code == 0, found
        assert len(found) == 16
        assert sum(one == "ok" for one in found.values()) >= 14
        assert found["hears announcements by gossip"] == "ok"

    uvloop.run(scenario())


@pytest.mark.real  # it waits for more than a minute
def test_a_node_that_breaks_promises_is_found_out(tmp_path: Path) -> None:
    """One that answers everything with the same bytes, and one that nobody can reach."""
    from tests.unit.libp2p_support import guest, order, peers

    async def scenario() -> None:
        async def same(_peer_id: str, _request: bytes) -> bytes:
            return b"\x81\xa5rules\xc4\x01x"

        async with guest() as on, peers(on, order(1, tmp_path)) as (liar,):
            for protocol in ("discover", "fetch", "offer", "swarm"):
                liar.serve(f"/swarmnode/{protocol}/1", same, 100_000_000)
            code, found = await conformance(liar.addresses[0])
            broken = [name for name, one in found.items() if one.startswith("BROKEN")]
            print(broken)
            assert code == 1
            assert len(broken) >= 9
        begun = time.monotonic()
        code, _ = await conformance(liar.addresses[0])
        assert code == 2
        assert time.monotonic() - begun < 100

    uvloop.run(scenario())
