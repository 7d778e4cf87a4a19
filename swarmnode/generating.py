"""A generator that was started by hand, for a node on another machine: `swarmnode generate`.

Reaches the node, shows the key, and does what it asks in a policy host of its own, a child process
(worker.py); it knows no questions and no rounds. Whatever is lost, the connection or the host, it
comes back, with growing pauses. The node says which model, and how the weights come; what differs
on this machine (`Here`) is put in its place.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
import uvloop

from swarmnode import __version__
from swarmnode.channel import Channel
from swarmnode.children import policy_child
from swarmnode.process import Child, ChildError
from swarmnode.remote_generators import keep_alive
from swarmnode.stopping import Stopping

CONNECT_SECONDS = 20.0
MOST_SECONDS_BETWEEN_TRIES = 30.0
LONGEST_CALL_SECONDS = 86400.0

log = structlog.get_logger()


class Refused(Exception):
    """The node doesn't want this generator; one line."""


@dataclass(frozen=True, slots=True)
class Here:
    """What is other on this machine than on the node's; None where nothing is."""

    model: str | None = None
    """A folder that holds the same model."""
    device: str | None = None
    weights_folder: str | None = None
    """Where the folder that carries the weights is."""
    threads: int = 1


class RemoteWork:
    """What one connection asks of this machine."""

    def __init__(self, here: Here, environment: Mapping[str, str]) -> None:
        self._here = here
        self._environment = environment
        self._host: Child | None = None
        self.name = ""
        """What the node calls this generator."""
        self.refused = ""
        """Why it serves no place, in one line."""

    @property
    def handlers(self) -> Mapping[str, Callable[[Any], Awaitable[Any]]]:
        """By what the node asks for."""
        return {
            "begin": self._begin,
            "refused": self._refused,
            "create_generator": self._create,
            "take_weights": self._passed("take_weights"),
            "sample": self._passed("sample"),
        }

    async def close(self) -> None:
        """End the policy host."""
        if self._host is not None:
            await self._host.close()

    async def _begin(self, greeting: Mapping[str, Any]) -> None:
        if greeting["version"] != __version__:
            # The node hears it by the answer, and this machine's user by the end of the connection.
            self.refused = (
                f"the node is swarmnode {greeting['version']}, this generator {__version__}: "
                "install the same on both"
            )
            raise Refused(self.refused)
        self.name = greeting["name"]
        log.info("the node has room", name=self.name)

    async def _refused(self, text: str) -> None:
        self.refused = text

    async def _create(self, asked: Mapping[str, Any]) -> Any:
        order = with_here(asked["asked"], self._here)
        if self._host is None:
            self._host = policy_child(self._environment, "generator", self._here.threads)
        self._host.start()
        try:
            made = await self._call("create_generator", {**asked, "asked": order})
        except ChildError as error:
            log.error("the policy can't be made", why=str(error))
            raise
        log.info("generator ready", model=made["name"])
        # Peers are told which model it is, not where it lies here.
        return {**made, "name": self._name_of(asked["asked"], made["name"])}

    def _name_of(self, order: Mapping[str, Any], name: str) -> str:
        return name if self._here.model is None else str(order["policy"]["model"])

    def _passed(self, method: str) -> Callable[[Any], Awaitable[Any]]:
        async def passed(asked: Mapping[str, Any]) -> Any:
            return await self._call(method, asked)

        return passed

    async def _call(self, method: str, asked: Mapping[str, Any]) -> Any:
        if self._host is None:
            raise Refused("no policy was ordered yet")
        seconds = min(float(asked["seconds"]), LONGEST_CALL_SECONDS)
        return await self._host.call(method, asked["asked"], seconds)


def with_here(order: Mapping[str, Any], here: Here) -> dict[str, Any]:
    """The node's order for this machine."""
    policy = dict(order["policy"])
    if here.model is not None:
        policy["model"] = here.model
    if here.device is not None:
        policy["device"] = here.device
    if here.weights_folder is not None:
        policy["weights"] = {**policy["weights"], "folder": here.weights_folder}
    # Memory and threads are this machine's affair; caches of the node's aren't there.
    policy |= {"memory_limit_mib": 0, "threads": here.threads}
    return {**order, "policy": policy, "cache_folder": None}


def run(
    address: tuple[str, int], tls: ssl.SSLContext, here: Here, environment: Mapping[str, str]
) -> None:
    """Serve the node at the address until Ctrl-C; whatever goes wrong is told and tried again."""

    async def live() -> None:
        stopping = Stopping(0.0, "stopping: a batch under way is lost to the node")
        await generate(address, tls, here, environment, stopping)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(live())


async def generate(
    address: tuple[str, int],
    tls: ssl.SSLContext,
    here: Here,
    environment: Mapping[str, str],
    stopping: Stopping,
) -> None:
    """Serve the node at the address until it is told to stop."""
    pause = 1.0

    async def once() -> None:
        nonlocal pause
        work = RemoteWork(here, environment)
        try:
            why = await _served(address, tls, work)
        finally:
            await work.close()
        pause = 1.0 if work.name else min(2 * pause, MOST_SECONDS_BETWEEN_TRIES)
        node = f"{address[0]}:{address[1]}"
        log.warning("not with the node", node=node, why=why, again_in_seconds=pause)
        await asyncio.sleep(pause)

    while await stopping.unless(once()):
        pass


async def _served(address: tuple[str, int], tls: ssl.SSLContext, work: RemoteWork) -> str:
    """Serve one connection to its end; why it ended, or never was."""
    try:
        channel = await _reached(address, tls, work)
    except (OSError, TimeoutError) as error:
        return _in_words(error)
    try:
        await channel.run()
    finally:
        await channel.close()
    if not work.name and not work.refused:
        return f"{channel.ended} before it gave a place: take the key file that it has written anew"
    return work.refused or channel.ended


async def _reached(address: tuple[str, int], tls: ssl.SSLContext, work: RemoteWork) -> Channel:
    """A channel to the node. Raises OSError, TimeoutError."""
    async with asyncio.timeout(CONNECT_SECONDS):
        reader, writer = await asyncio.open_connection(*address, ssl=tls)
    connection = writer.get_extra_info("socket")
    if isinstance(connection, socket.socket):
        keep_alive(connection)
    return Channel(reader, writer, work.handlers)


def _in_words(error: OSError | TimeoutError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"the node has another key ({error.reason or error})"
    return str(error) or "it does not answer"
