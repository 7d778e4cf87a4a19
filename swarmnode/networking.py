"""The network process's wiring: serves one membership of a swarm to the daemon, over a channel.

Started as `python -m swarmnode.networking FD LIBRARY [LOG_FOLDER]` by the daemon, on uvloop; the
only process that imports hivemind or py-libp2p, whichever it was told. It ends when the daemon
hangs up or dies, and on SIGTERM; p2pd ends with it. Every method ends within a time limit of its
own; what a method raises is one line for the daemon, and stands in the log of this process unless a
peer alone can be the cause.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import structlog
import uvloop

from swarmnode.channel import Channel, Handlers
from swarmnode.clock import SystemClock
from swarmnode.network.assembly import Assembly, BuildPeer
from swarmnode.network.checked_order import BadOrder, checked_order
from swarmnode.network.membership import Membership
from swarmnode.network.peer import PeerUnreachable
from swarmnode.network.ports import StartFailed
from swarmnode.network.reporting import health_of, peers_of
from swarmnode.network.swarm_file import swarm_file
from swarmnode.observe.log import start_logging
from swarmnode.process import die_with_parent, inherited_socket
from swarmproto import WireError

METHOD_SECONDS: Final[Mapping[str, float]] = {
    "start": 130.0,
    "announce": 45.0,
    "hold": 5.0,
    "prefixes_of": 8.0,
    "discover": 10.0,
    "fetch": 30.0,
    "holders": 5.0,
    "health": 5.0,
    "peers": 5.0,
    "good_peer": 5.0,
    "bad_peer": 20.0,
    "swarm_file": 30.0,
    "saved_peers": 5.0,
    "stop": 20.0,
}
"""What each method may take; the daemon should wait a little longer."""

CLOSE_SECONDS: Final = 4.0
"""What ending the peer may take when the daemon has gone."""
END_SECONDS: Final = 10
"""After so long the kernel ends this process, whatever it is at; p2pd ends by itself then."""

log = structlog.get_logger()


class Networking:
    """The methods of the network process, by name, in `handlers`."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly
        self._clock = assembly.clock
        self._membership: Membership | None = None
        self._running: asyncio.Task[None] | None = None

    @property
    def handlers(self) -> Handlers:
        """For the channel: each method with its time limit."""
        methods = {name: getattr(self, name) for name in METHOD_SECONDS}
        return {name: _limited(name, method) for name, method in methods.items()}

    async def start(self, payload: Any) -> dict[str, Any]:
        """Join the swarm; raises on a bad order, a port in use, a second start."""
        if self._membership is not None:
            raise BadOrder("the network was started already")
        membership = self._membership = self._assembly.member(*checked_order(payload))
        try:
            await membership.start()
            if self._membership is not membership:
                raise BadOrder("the network was stopped while it started")
        except BaseException:
            self._membership = None
            await membership.close()
            raise
        self._running = asyncio.get_running_loop().create_task(membership.run())
        self._running.add_done_callback(_end_loudly)
        return {"peer_id": membership.peer.peer_id, "addresses": list(membership.peer.addresses)}

    async def announce(self, payload: Any) -> dict[str, Any]:
        """Hold, offer, make known: see Membership.announce."""
        acknowledged, offered = await self._joined.announce(
            payload["announcement"], payload["header"], payload["groups"], payload["expires"]
        )
        return {"acknowledged": acknowledged, "offered": list(offered)}

    async def hold(self, payload: Any) -> None:
        """See Membership.hold."""
        await self._joined.hold(
            payload["announcement"], payload["header"], payload["groups"], payload["expires"]
        )

    async def discover(self, payload: Any) -> list[list[Any]]:
        """Announcements as received, each with the id of the peer that delivered it."""
        found = await self._joined.discover(payload["count"])
        return [[each.announcement.encoded, each.delivered_by] for each in found]

    async def fetch(self, payload: Any) -> bytes:
        """A fetch response as received."""
        return await self._joined.fetch(payload["holder"], payload["request"])

    async def prefixes_of(self, payload: Any) -> list[str]:
        """See Membership.prefixes_of."""
        return list(await self._joined.prefixes_of(payload["peers"]))

    async def holders(self, _payload: Any) -> list[str]:
        """Addresses for the next announcement."""
        return list(self._joined.holders())

    async def health(self, _payload: Any) -> dict[str, Any]:
        """See health_of; before `start`, the state alone."""
        if self._membership is None:
            return {"state": "starting"}
        return health_of(self._membership, self._clock)

    async def peers(self, _payload: Any) -> list[dict[str, Any]]:
        """See peers_of."""
        return list(peers_of(self._joined, self._clock))

    async def good_peer(self, payload: Any) -> None:
        """Remember an address."""
        self._joined.good_peer(payload["address"])

    async def bad_peer(self, payload: Any) -> None:
        """Refuse a peer for some seconds and hang up."""
        await self._joined.bad_peer(payload["peer_id"], payload["seconds"])

    async def swarm_file(self, payload: Any) -> dict[str, Any]:
        """The rules of a swarm, verified by its id, and where to begin, from the peer asked."""
        joined, address = self._joined, payload["address"]
        secret = joined.sealing.secret if joined.sealing else None
        response = await swarm_file(
            joined.peer, joined.company.connect, payload["swarm_id"], address, secret
        )
        return {"rules": response.rules, "bootstrap": list(response.bootstrap)}

    async def saved_peers(self, _payload: Any) -> list[str]:
        """Addresses to dial at the next start."""
        return list(self._joined.saved_peers())

    async def stop(self, _payload: Any) -> None:
        """Leave the swarm; `start` may follow."""
        await self.close()

    async def close(self) -> None:
        """Leave, whatever was begun. May be called again."""
        running, self._running = self._running, None
        membership, self._membership = self._membership, None
        if running is not None:
            running.cancel()
            await asyncio.wait([running])
        if membership is not None:
            await membership.close()

    @property
    def _joined(self) -> Membership:
        if self._membership is None:
            raise BadOrder("the network was not started")
        return self._membership


def _limited(name: str, method: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    async def limited(payload: Any) -> Any:
        try:
            async with asyncio.timeout(METHOD_SECONDS[name]):
                return await method(payload)
        except TimeoutError:
            log.warning("too slow", method=name, seconds=METHOD_SECONDS[name])
            raise TimeoutError(f"{name} took over {METHOD_SECONDS[name]:.0f} s") from None
        except (PeerUnreachable, WireError):
            raise
        except (BadOrder, StartFailed) as error:
            log.error("refused", method=name, why=str(error))
            raise
        except Exception:
            log.exception("failed", method=name)
            raise

    return limited


def _end_loudly(task: asyncio.Task[None]) -> None:
    """A bug in what keeps us in the swarm ends the process: the daemon starts it anew."""
    if not task.cancelled() and (error := task.exception()) is not None:
        loop = task.get_loop()
        loop.call_exception_handler({"message": "the network failed", "exception": error})
        loop.call_soon(signal.raise_signal, signal.SIGTERM)


def _log_bugs_alone(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """hivemind's listener raises into the loop when a peer resets a stream that it has opened."""
    if not isinstance(context.get("exception"), EOFError | ConnectionError):
        loop.default_exception_handler(context)


async def serve(
    connection: socket.socket, networking: Networking, ending: Callable[[], object]
) -> None:
    """Answer the daemon until it hangs up, or until SIGTERM; then call `ending` and clean up."""
    channel = await Channel.over(connection, networking.handlers)
    answering = asyncio.ensure_future(channel.run())
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_log_bugs_alone)
    loop.add_signal_handler(signal.SIGTERM, answering.cancel)
    try:
        await answering
    except asyncio.CancelledError:
        pass
    finally:
        ending()
        await channel.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await networking.close()


def _begin_log(arguments: list[str]) -> None:
    """Log to the folder that is named, and what is wrong to the daemon's terminal as well."""
    folder = Path(arguments[2]) if len(arguments) > 2 else None
    # A log that can't be written is no reason to stay out of the swarm; the daemon tells of it.
    with contextlib.suppress(OSError):
        start_logging(folder, "network", terminal=sys.stderr)


def builder(library: str) -> BuildPeer:
    """Imports the one library: both in one process is not possible, and takes a while each."""
    if library == "libp2p":
        from swarmnode.network.libp2p_peer import Libp2pPeer

        return Libp2pPeer.start
    from swarmnode.network.hivemind_dht import HivemindPeer

    return HivemindPeer.start


def main(arguments: list[str]) -> None:
    """Run the process."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the daemon's to act on
    _begin_log(arguments)
    networking = Networking(Assembly(builder(arguments[1]), SystemClock(), random.Random()))
    connection = inherited_socket(arguments)
    try:
        uvloop.run(serve(connection, networking, lambda: signal.alarm(END_SECONDS)))
    except Exception:
        log.exception("the network process failed")
        raise


if __name__ == "__main__":
    main(sys.argv[1:])
