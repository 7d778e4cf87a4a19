"""The process that speaks with Ray: connects, places actors, and passes requests on to them.

Started as `python -m swarmnode.cluster.driver FD LOG` by the process that needs a cluster. The only
module that imports ray, whose signal handlers, threads and output so stay out of the others; when
Ray ends this process, as it does where a cluster is lost, that is one hung-up channel for them.
It ends when they hang up or die, and its actors with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from swarmnode.channel import Channel, Handlers
from swarmnode.cluster.placed import PlacedChild
from swarmnode.process import die_with_parent, inherited_socket

OBJECT_STORE_BYTES = 128 * 1024 * 1024
"""For what is on its way; nothing is kept in it."""
WORDS = 300
"""Of Ray's own message that are passed on, in characters."""


QUIET = {"log_to_driver": False, "configure_logging": False}
STARTS = 3
"""Ray gives its own processes 30 s to begin and no more, which a busy machine may not keep."""


class Driver:
    """The methods of the process, by name, in `handlers`."""

    def __init__(self) -> None:
        self._actors: dict[str, Any] = {}

    @property
    def handlers(self) -> Handlers:
        """For the channel."""
        return {
            "connect": self.connect,
            "machines": self.machines,
            "place": self.place,
            "ask": self.ask,
            "drop": self.drop,
            "stop": self.stop,
        }

    async def connect(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        """Join the cluster at an address, or begin one of this machine alone; the machines."""
        try:
            if order["address"]:
                ray.init(address=order["address"], **QUIET)
            else:
                _begin(order["cores"], order["folder"])
        except Exception as error:
            # Whatever Ray raises here, of a dozen kinds, is for the user to read.
            raise ConnectionError(words_of(error)) from error
        return await self.machines(None)

    async def machines(self, _nothing: object) -> list[dict[str, Any]]:
        """Those that live."""
        return [
            {
                "node": node["NodeID"],
                "host": node["NodeManagerHostname"],
                "cores": int(node["Resources"].get("CPU", 0)),
                "gpus": int(node["Resources"].get("GPU", 0)),
            }
            for node in ray.nodes()
            if node["Alive"]
        ]

    async def place(self, order: dict[str, Any]) -> dict[str, Any]:
        """Begin an actor on a machine, ending first the one of that name: `placed`, or `lost`."""
        await self.drop(order)
        actor = (
            ray.remote(PlacedChild)
            .options(
                num_cpus=order["cores"],
                num_gpus=order["gpus"],
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(order["node"], soft=False),
            )
            .remote(order["module"], order["name"], order["environment"])
        )
        self._actors[order["name"]] = actor
        try:
            return {"placed": await actor.begin.remote()}
        except RayError as error:
            return {"lost": words_of(error)}

    async def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        """The `answer` of an actor to a request, or that it is `lost`."""
        try:
            return {"answer": await self._actors[order["name"]].ask.remote(order["request"])}
        except RayError as error:
            return {"lost": words_of(error)}

    async def drop(self, order: dict[str, Any]) -> None:
        """End the actor of a name, if there is one."""
        actor = self._actors.pop(order["name"], None)
        if actor is not None:
            with contextlib.suppress(RayError):
                ray.kill(actor)

    async def stop(self, _nothing: object) -> None:
        """End all actors and leave; a cluster that was begun here ends too."""
        self._actors.clear()
        ray.shutdown()


def _begin(cores: int, folder: str) -> None:
    """A Ray of this machine alone. Raises what Ray does."""
    for start in range(1, STARTS + 1):
        try:
            ray.init(
                num_cpus=cores,
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                _temp_dir=folder,
                **QUIET,
            )
            return
        except Exception:
            ray.shutdown()
            if start == STARTS:
                raise


def words_of(error: BaseException) -> str:
    """What Ray says in many lines, in one: without the fields that name its own objects."""
    lines = [line for line in str(error).splitlines() if line.strip() and line[0] != "\t"]
    text = " ".join(" ".join(lines).split()) or type(error).__name__
    return text if len(text) <= WORDS else f"{text[: WORDS // 3]} … {text[-WORDS * 2 // 3 :]}"


async def _serve(arguments: Sequence[str]) -> None:
    channel = await Channel.over(inherited_socket(arguments), Driver().handlers)
    try:
        await channel.run()
    finally:
        ray.shutdown()


def _write_to(log: Path) -> None:
    """Ray writes to the standard streams whatever it is told, from threads of its own."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)


if __name__ == "__main__":
    die_with_parent()
    _write_to(Path(sys.argv[2]))
    # What Ray leaves in files and sockets is for this user alone.
    os.umask(0o077)
    asyncio.run(_serve(sys.argv[1:2]))
