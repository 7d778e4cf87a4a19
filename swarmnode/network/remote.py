"""The daemon's side of the network process: a Transport whose swarm is reached through a channel.

While the process is down, nothing here waits for it: announcements are kept for its next life,
nothing is discovered, fetches fail. Its next life begins with the same order, the peers that the
last one knew, and our announcements that have not expired. It keeps nothing on disk itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import structlog

from swarmnode.channel import CallFailed, Channel, ChannelError, ChannelTimedOut
from swarmnode.clock import Clock
from swarmnode.network.order import NetworkOrder
from swarmnode.network.own_bundles import OwnBundles
from swarmnode.network.remote_process import Patience, RespawnedProcess
from swarmnode.network.transport import UNKNOWN_HEALTH, Delivered, TransportError
from swarmnode.prefixes import THROUGH_OTHERS
from swarmproto import (
    Bundle,
    FetchRequest,
    FetchResponse,
    WireError,
    decode_fetch_response,
    encode_fetch_request,
)

__all__ = ["NetworkOrder", "RemoteTransport"]

ANNOUNCE_SECONDS = 60.0
DISCOVER_SECONDS = 20.0
FETCH_SECONDS = 40.0
"""Limits of last resort, above those that the network process keeps itself."""
ASK_SECONDS = 10.0
"""A question that the network process answers without a peer."""
log = structlog.get_logger()


class RemoteTransport:
    """See Transport. `on_saved_peers` gets the good peers each minute and at the end, to persist.

    `module` is run as the network process, which keeps a log of its own in `log_folder`.
    """

    def __init__(
        self,
        order: NetworkOrder,
        clock: Clock,
        *,
        on_saved_peers: Callable[[Sequence[str]], None],
        patience: Patience | None = None,
        module: str = "swarmnode.networking",
        log_folder: Path | None = None,
    ) -> None:
        self._order = order
        self._clock = clock
        self._on_saved_peers = on_saved_peers
        self._patience = patience or Patience()
        self._process = RespawnedProcess(
            module,
            session=self._session,
            farewell=self._farewell,
            ended=self._ended,
            patience=self._patience,
            arguments=(order.transport, *(() if log_folder is None else (str(log_folder),))),
        )
        self._channel: Channel | None = None
        self._first_attempt = asyncio.Event()
        self._own = OwnBundles()
        self._next_order = order
        self._holders: tuple[str, ...] = ()
        self._health: Mapping[str, Any] = {}
        self._restarts_inside = 0
        self._heard = 0.0
        self._why_down = "the network process has not begun yet"
        self._down_since: float | None = None

    @property
    def holders(self) -> Sequence[str]:
        """As the network process last told them."""
        return self._holders

    @property
    def process_id(self) -> int | None:
        """The operating system's id of the network process."""
        return self._process.process_id

    async def start(self) -> None:
        """Start the network process, and return at once; see `begun`."""
        self._process.start()

    async def begun(self) -> str:
        """Wait for the end of the first attempt to begin: its error in one line, empty if none.

        It is tried again whatever it was, a port that is taken as well.
        """
        await self._first_attempt.wait()
        return "" if self._channel else self._why_down

    async def announce(self, announcement: bytes, bundle: Bundle, expires: float) -> None:
        """Keep it for the process's next life, and hand it to the present one."""
        payload = {
            "announcement": announcement,
            "header": bundle.header_bytes,
            "groups": list(bundle.group_bytes),
            "expires": expires,
        }
        size = len(bundle.header_bytes) + sum(map(len, bundle.group_bytes))
        self._own.keep(payload, size, expires, self._clock.now())
        with contextlib.suppress(TransportError):
            await self._ask("announce", payload, ANNOUNCE_SECONDS)

    async def discover(self, count: int) -> Sequence[Delivered]:
        """At most `count` announcements that others know; none while the process is down."""
        try:
            found = await self._ask("discover", {"count": count}, DISCOVER_SECONDS)
        except TransportError:
            return []
        return list(_delivered(found))[:count]

    async def fetch(self, holder: str, request: FetchRequest) -> FetchResponse:
        """Fetch a header and chosen groups from `holder`. Raises TransportError."""
        asked = {"holder": holder, "request": encode_fetch_request(request)}
        answer = await self._ask("fetch", asked, FETCH_SECONDS)
        try:
            return decode_fetch_response(answer)
        except (WireError, TypeError) as error:
            raise TransportError(f"{holder} answered what is no response: {error}") from None

    async def prefixes_of(self, peers: Sequence[str]) -> Sequence[str]:
        """See Transport; nobody is connected while the process is down."""
        try:
            match await self._ask("prefixes_of", {"peers": list(peers)}, ASK_SECONDS):
                case [*prefixes] if len(prefixes) == len(peers):
                    return [str(prefix) for prefix in prefixes]
        except TransportError:
            pass
        return [THROUGH_OTHERS] * len(peers)

    async def hold(
        self, announcement: bytes, bundle_header: bytes, groups: Mapping[int, bytes], expires: float
    ) -> None:
        """Let the process serve what was admitted; forgotten when it is down."""
        payload = {
            "announcement": announcement,
            "header": bundle_header,
            "groups": dict(groups),
            "expires": expires,
        }
        with contextlib.suppress(TransportError):
            await self._ask("hold", payload, ASK_SECONDS)

    async def health(self) -> Mapping[str, Any]:
        """As last told, a few seconds ago; `down` with the reason while the process is lost.

        Beyond the keys of Transport: `down_since`, in seconds since 1970, or None; `transport`,
        the library that it runs on.
        """
        restarts = self._process.restarts + self._restarts_inside
        order = self._order
        own = {
            "restarts": restarts,
            "down_since": None,
            "transport": order.transport,
            "asked_for": [name for name in ("public", "relay") if getattr(order, name)],
        }
        health = {**UNKNOWN_HEALTH, **self._health, **own}
        silent = asyncio.get_running_loop().time() - self._heard
        if self._channel is None and not self._first_attempt.is_set():
            return health
        if self._channel is None:
            return health | _down(self._why_down, self._down_since)
        if silent > self._patience.quiet:
            why = f"the network process has not answered for {silent:.0f} s"
            return health | _down(why, self._clock.now() - silent)
        return health

    async def peers(self) -> Sequence[Mapping[str, Any]]:
        """The connected peers; none while the process is down."""
        try:
            found: list[Mapping[str, Any]] = await self._ask("peers", {}, ASK_SECONDS)
            return found
        except TransportError:
            return []

    async def good_peer(self, address: str) -> None:
        """Prefer the peer at this address, which served what was admitted. Never raises."""
        with contextlib.suppress(TransportError):
            await self._ask("good_peer", {"address": address}, ASK_SECONDS)

    async def bad_peer(self, peer_id: str, seconds: float) -> None:
        """Hang up on a peer and refuse it for so long. Never raises."""
        with contextlib.suppress(TransportError):
            await self._ask("bad_peer", {"peer_id": peer_id, "seconds": seconds}, FETCH_SECONDS)

    async def swarm_file(self, swarm_id: bytes, address: str) -> tuple[bytes, Sequence[str]]:
        """Rules and bootstrap addresses of a swarm, asked of a peer. Raises TransportError."""
        asked = {"swarm_id": swarm_id, "address": address}
        match await self._ask("swarm_file", asked, FETCH_SECONDS):
            case {"rules": bytes(rules), "bootstrap": list(bootstrap)}:
                return rules, bootstrap
            case _:
                raise TransportError(f"{address} answered what is no swarm file")

    async def close(self) -> None:
        """Leave the swarm and end the process."""
        await self._process.close()

    async def _ask(self, method: str, payload: Mapping[str, Any], seconds: float) -> Any:
        channel = self._channel
        if channel is None:
            raise TransportError(self._why_down)
        try:
            return await channel.call(method, payload, seconds)
        except ChannelError as error:
            raise TransportError(str(error)) from None

    def _ended(self, why: str) -> None:
        # One that was killed could not log it itself.
        log.error("the network process ended, and is started again", why=why)
        self._why_down = why
        if self._down_since is None:
            self._down_since = self._clock.now()
        self._first_attempt.set()

    async def _session(self, channel: Channel) -> None:
        """All that is said to one life of the process; raises when it is lost."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch(channel))
                await self._begin(channel)
                kept = self._own.kept(self._clock.now())
                self._channel, self._down_since = channel, None
                self._first_attempt.set()
                tasks.create_task(self._save_peers())
                tasks.create_task(self._announce_again(channel, kept))
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            if self._channel is not None:
                self._channel, self._down_since = None, self._clock.now()
                self._why_down = "the network process was lost"

    async def _begin(self, channel: Channel) -> None:
        order = self._next_order
        # A port that can't be had again is drawn anew the next time.
        self._next_order = replace(self._order, saved_peers=order.saved_peers)
        begun = await channel.call("start", asdict(order), self._patience.start)
        self._next_order = self._next_order.with_drawn_port(begun["addresses"])
        await self._look(channel, self._patience.silence)
        await self._learn(channel)

    async def _watch(self, channel: Channel) -> None:
        """Ask after the process's health from its birth on. Raises ChannelError when it hangs."""
        # The first answer comes when all is loaded, which a slow machine needs its time for.
        await self._look(channel, self._patience.start)
        while True:
            await asyncio.sleep(self._patience.between_looks)
            await self._look(channel, self._patience.silence)
            if self._channel is channel:
                await self._learn(channel)

    async def _look(self, channel: Channel, seconds: float) -> None:
        try:
            health = await channel.call("health", {}, seconds)
        except ChannelTimedOut as error:
            raise ChannelTimedOut(f"the network process hung: {error}") from None
        except CallFailed:
            # It answers, which is all that counts here; what was known of it grows old.
            pass
        else:
            self._restarts_inside = int(health.get("restarts", 0))
            self._health = dict(health)
        self._heard = asyncio.get_running_loop().time()

    async def _learn(self, channel: Channel) -> None:
        with contextlib.suppress(ChannelTimedOut, CallFailed):
            self._holders = tuple(await channel.call("holders", {}, ASK_SECONDS))
            peers = tuple(await channel.call("saved_peers", {}, ASK_SECONDS))
            self._next_order = replace(self._next_order, saved_peers=peers)

    async def _save_peers(self) -> None:
        while True:
            await asyncio.sleep(self._patience.between_saves)
            self._on_saved_peers(self._next_order.saved_peers)

    async def _announce_again(self, channel: Channel, kept: Sequence[Mapping[str, Any]]) -> None:
        for payload in kept:
            with contextlib.suppress(ChannelTimedOut, CallFailed):
                await channel.call("announce", payload, ANNOUNCE_SECONDS)

    async def _farewell(self, channel: Channel) -> None:
        if self._channel is channel:
            self._on_saved_peers(self._next_order.saved_peers)
            # Whatever is asked while it leaves it would refuse, and log as a failure.
            self._channel, self._why_down = None, "the node is stopping"
        await channel.call("stop", {}, self._patience.stop)


def _delivered(found: Any) -> Iterator[Delivered]:
    for each in found if isinstance(found, list) else []:
        match each:
            case [bytes(data), str(peer)]:
                yield Delivered(data, peer)


def _down(why: str, since: float | None) -> dict[str, Any]:
    unknown: dict[str, Any] = {
        "reachable": None,
        "reach": "unknown",
        "relays": [],
        "peers": 0,
        "strangers": 0,
        "next_attempt_seconds": None,
    }
    return {"state": "down", "error": why, "down_since": since, **unknown}
