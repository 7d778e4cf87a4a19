"""A network process alone, and attackers of it in processes of their own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from swarmnode.clock import SystemClock
from swarmnode.network.choice import Library
from swarmnode.network.remote import NetworkOrder, RemoteTransport
from tests.unit.network_made import RULES_BYTES, SWARM, private_key


@asynccontextmanager
async def member(
    number: int, folder: Path, library: Library, *bootstrap: str, **changes: Any
) -> AsyncIterator[RemoteTransport]:
    """A network process in the swarm; unless changed nobody is exempt from sharing by prefix."""
    place = folder / str(number)
    place.mkdir()
    order = NetworkOrder(private_key(number), SWARM, RULES_BYTES, str(place))
    order = replace(order, listen=("/ip4/127.0.0.1/tcp/0",), bootstrap=bootstrap, transport=library)
    transport = RemoteTransport(
        replace(order, **changes), SystemClock(), on_saved_peers=lambda _: None
    )
    await transport.start()
    try:
        assert await transport.begun() == ""
        yield transport
    finally:
        await transport.close()


async def attacked(module: str, *arguments: object) -> asyncio.subprocess.Process:
    """Attackers, once they have begun."""
    attackers = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *map(str, arguments), stdout=subprocess.PIPE
    )
    assert attackers.stdout is not None
    assert await attackers.stdout.readline() == b"ready\n"
    return attackers
