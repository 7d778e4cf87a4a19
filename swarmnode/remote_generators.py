"""Generators that were started by hand on other machines: the node's side (docs/scaling.md).

A node that wants some listens at one address, which it is told. Whoever shows the key gets a place,
as long as there is one; the connection then carries calls (channel.py) under TLS, and what is
answered is checked (generator_answers.py). A place is to a generator's loop what a child process
is: it may be lost at any moment, and somebody else may take it then. Bounded: places, connections
that have not shown the key yet, the size of a frame, and the time of everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from swarmnode import __version__
from swarmnode.channel import (
    CallFailed,
    Channel,
    ChannelClosed,
    ChannelError,
    ChannelTimedOut,
)
from swarmnode.config.policy import PolicySettings
from swarmnode.generator_answers import (
    BadAnswer,
    checked_answers,
    checked_figures,
    checked_version,
)
from swarmnode.generator_key import GeneratorKeyError, make_key, tls_by
from swarmnode.process import ChildFailed, ChildGone, ChildTimedOut

HANDSHAKE_SECONDS = 10.0
GREETING_SECONDS = 10.0
MOST_STRANGERS = 8
"""Connections that have not shown the key yet; others wait."""
SLACK_SECONDS = 10.0
"""What a call may take beyond its limit on the other machine."""
KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Seconds, and tries: a machine that vanished is missed after a minute."""

log = structlog.get_logger()


class DoorError(Exception):
    """Nobody can come in; the text is one line for the user."""


class Place:
    """Room for one generator: a host for its loop (split/generators.py), whoever has it now."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.starts = 0
        self._channel: Channel | None = None
        self._taken = asyncio.Event()
        self._longest = 0

    @property
    def alive(self) -> bool:
        """Whether somebody has it who can be asked."""
        return self._channel is not None and not self._channel.ended

    @property
    def free(self) -> bool:
        """Whether nobody has it."""
        return self._channel is None

    async def begin(self) -> None:
        """Wait until somebody has come, however long."""
        await self._taken.wait()

    async def call(self, method: str, payload: object, timeout_seconds: float) -> Any:
        """Ask whoever has the place. Raises ChildGone, ChildTimedOut or ChildFailed."""
        channel = self._channel
        if channel is None:
            raise ChildGone(f"{self.name} is not here")
        asked = {"seconds": timeout_seconds, "asked": payload}
        try:
            answer = await channel.call(method, asked, timeout_seconds + SLACK_SECONDS)
            return self._checked(method, payload, answer)
        except ChannelTimedOut as error:
            await channel.close()
            raise ChildTimedOut(f"{self.name}: {error}") from None
        except ChannelClosed as error:
            raise ChildGone(f"{self.name} is gone during {method}: {error}") from None
        except (CallFailed, BadAnswer) as error:
            raise ChildFailed(f"{self.name}: {error}") from None

    def enter(self, channel: Channel) -> None:
        """Let whoever is at the other end have it."""
        self._channel = channel
        self.starts += 1

    async def occupied(self, since: str) -> None:
        """Serve whoever has it until they go."""
        channel = self._channel
        assert channel is not None
        self._taken.set()
        log.info("generator has come", name=self.name, address=since)
        try:
            await channel.run()
        finally:
            self._channel = None
            self._taken.clear()
            log.warning("generator has gone", name=self.name, why=channel.ended)

    def _checked(self, method: str, payload: Any, answer: Any) -> Any:
        if method == "create_generator":
            self._longest = PolicySettings.model_validate(payload["policy"]).new_tokens
            return checked_figures(answer)
        if method == "take_weights":
            return checked_version(answer)
        prompts, completions = len(payload["prompts"]), payload["completions"]
        return checked_answers(answer, prompts, completions, self._longest)


class Door:
    """Where generators from elsewhere come in."""

    def __init__(self, listening: socket.socket, key: Path, places: Sequence[Place]) -> None:
        self._listening = listening
        self._tls = tls_by(key, serves=True)
        self._places = places
        self._strangers = asyncio.Semaphore(MOST_STRANGERS)
        self._guests: set[asyncio.Task[None]] = set()

    @classmethod
    def open(cls, address: str, key: Path, places: Sequence[Place]) -> Door:
        """Listen there; the key is made where there is none. Raises DoorError."""
        host, _, port = address.rpartition(":")
        try:
            make_key(key)
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listening = socket.create_server((host.strip("[]"), int(port)), family=family)
            listening.setblocking(False)
            return cls(listening, key, places)
        except GeneratorKeyError as error:
            raise DoorError(str(error)) from error
        except OSError as error:
            raise DoorError(
                f"policy.generators_address = {address} can't be listened at "
                f"({error.strerror or error}); choose an address of this machine and a free port"
            ) from error

    @property
    def port(self) -> int:
        """At which it listens."""
        return int(self._listening.getsockname()[1])

    async def run(self) -> None:
        """Let generators in until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._strangers.acquire()
            try:
                connection, _ = await loop.sock_accept(self._listening)
            except OSError as error:  # too many open files, say
                self._strangers.release()
                log.error("no generator can come in", why=str(error))
                await asyncio.sleep(1.0)
                continue
            guest = loop.create_task(self._let_in(connection), name="generator-from-elsewhere")
            self._guests.add(guest)
            guest.add_done_callback(self._guests.discard)

    async def close(self) -> None:
        """Hang up on everybody."""
        self._listening.close()
        for guest in list(self._guests):
            guest.cancel()
        if self._guests:
            await asyncio.wait(list(self._guests), timeout=GREETING_SECONDS)

    async def _let_in(self, connection: socket.socket) -> None:
        strange = True
        try:
            keep_alive(connection)
            since = "{}:{}".format(*connection.getpeername()[:2])
            channel = await self._channel(connection)
            self._strangers.release()
            strange = False
            place = next((one for one in self._places if one.free), None)
            if place is not None:
                place.enter(channel)
            await self._greeted(channel, place, since)
        except (OSError, ChannelError, TimeoutError) as error:
            log.warning("a generator did not come in", why=str(error) or type(error).__name__)
        finally:
            if strange:
                self._strangers.release()
            connection.close()

    async def _channel(self, connection: socket.socket) -> Channel:
        """TLS over it, in which the other side has shown the key. Raises OSError, TimeoutError."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            connection,
            ssl=self._tls,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
        )
        return Channel(reader, asyncio.StreamWriter(transport, protocol, reader, loop), {})

    async def _greeted(self, channel: Channel, place: Place | None, since: str) -> None:
        if place is None:
            text = f"all {len(self._places)} places are taken (policy.remote_generators)"
            await self._refuse(channel, text)
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(place.occupied(since))
            greeting: Mapping[str, str] = {"name": place.name, "version": __version__}
            try:
                await channel.call("begin", greeting, GREETING_SECONDS)
            except ChannelError as error:
                log.error("generator refuses", name=place.name, why=str(error))
                await channel.close()

    async def _refuse(self, channel: Channel, text: str) -> None:
        running = asyncio.ensure_future(channel.run())
        with contextlib.suppress(ChannelError):
            await channel.call("refused", text, GREETING_SECONDS)
        await channel.close()
        await running


def keep_alive(connection: socket.socket) -> None:
    """Let the kernel notice when the other machine has vanished."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
