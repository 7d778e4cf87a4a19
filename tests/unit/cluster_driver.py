"""Stands for the process that speaks with Ray: `python -m tests.unit.cluster_driver FD DOES`.

It answers over the same channel, and does what Ray does where something is wrong: `refuses`,
`hangs` or `dies` when asked to connect; `coreless` has a machine without cores; `unlike` one on
which no host computes; `lingers` ends only once the file that LEFT names is there.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import msgpack

from swarmnode.channel import Channel, Handlers
from swarmnode.process import die_with_parent, inherited_socket

does = sys.argv[2]


async def connect(_order: object) -> list[dict[str, Any]]:
    match does:
        case "refuses":
            raise ConnectionError("Version mismatch: 2.60.0 here, 2.40.0 there")
        case "hangs":
            await asyncio.Event().wait()
        case "dies":
            os._exit(1)
    return await machines(None)


async def machines(_nothing: object) -> list[dict[str, Any]]:
    return [{"node": "a" * 56, "host": "small", "cores": int(does != "coreless"), "gpus": 0}]


async def place(_order: object) -> dict[str, Any]:
    return {"placed": {"process_id": os.getpid()}}


async def ask(_order: object) -> dict[str, Any]:
    return {"answer": msgpack.packb(["failed", "ModuleNotFoundError: No module named 'torch'"])}


async def stop(_nothing: object) -> None:
    while does == "lingers" and not Path(os.environ["LEFT"]).exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.01)


HANDLERS: Handlers = {
    "connect": connect, "machines": machines, "place": place, "ask": ask, "stop": stop
}  # fmt: skip


async def _serve() -> None:
    channel = await Channel.over(inherited_socket(sys.argv[1:]), HANDLERS)
    await channel.run()


if __name__ == "__main__":
    die_with_parent()
    asyncio.run(_serve())
