"""The Go child p2pd: its flags, its ports, its key and sockets on disk, its life and death.

hivemind starts p2pd with UPnP, AutoNAT and a relay service switched on, in our process group and
with fixed paths; so it is started here, every flag spelled out, and hivemind's P2P is attached to
its control socket. Knows no DHT and no announcements.
Invariants: after `close` neither process nor socket nor key file is left; a p2pd whose parent
dies, however, ends by itself. Source: network.md sections 1 and 6, security.md section 6.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

import structlog

from swarmnode.network.hivemind_calls import HandlerTasks, PendingCalls
from swarmnode.network.light_hivemind import (
    P2P,
    Multiaddr,
    control_messages,
    read_message,
    write_message,
)
from swarmnode.network.p2pd_binary import checked_p2pd
from swarmnode.network.p2pd_files import SOCKET_PREFIX, identity_file, socket_folder, sweep
from swarmnode.network.peer_order import PeerOrder
from swarmnode.network.ports import PortsHeld, StartFailed, hold_ports

NICENESS: Final = 5
"""Of p2pd beyond our own."""
STARTUP_SECONDS: Final = 60.0
CONTROL_SECONDS: Final = 5.0
PROBE_SECONDS: Final = 4.0
"""Between probes of p2pd, and for the answer of each; two that fail in a row mean its death."""

ENVIRONMENT: Final = {"GOLOG_LOG_LEVEL": "error", "GOMEMLIMIT": "160MiB", "GOGC": "40"}
"""Of p2pd: a flood of short-lived messages makes little garbage before it is collected."""

RELAY_BUFFER_BYTES: Final = 64 * 1024
"""Of each relayed connection and direction; p2pd's own default is 16 MiB."""
RELAY_BYTES_MAX: Final = 256 * 1024 * 1024
"""In each direction of a relayed connection, which ends then and may be opened anew."""

_LINES_KEPT: Final = 20
_TERMINATE_SECONDS: Final = 3.0
_MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024

log = structlog.get_logger()


def arguments(order: PeerOrder, identity: Path, control: Path) -> list[str]:
    """Every flag of p2pd that opens, serves or stores anything, none left at its default.

    Bootstrap peers are not among them: p2pd ends at once where all of them are down.
    """
    # Each of these two without the other is refused by p2pd.
    trusted_relays = order.bootstrap if order.public and not order.relay else ()
    flags: dict[str, object] = {
        "id": identity,
        "listen": f"/unix{control}",
        "hostAddrs": ",".join(order.listen),
        "b": 0,
        "dhtClient" if order.client else "dhtServer": 1,
        "natPortMap": 0,
        "autonat": int(order.public or order.relay),
        "relay": int(order.public or order.relay),
        "relayService": int(order.relay),
        "relayDiscovery": 0,
        "relayBufferSize": RELAY_BUFFER_BYTES,
        "relayDataLimit": RELAY_BYTES_MAX,
        "relayTimeLimit": "30m",
        "relayMaxCircuits": 16,
        "relayMaxReservations": 128,
        "autoRelay": int(bool(trusted_relays)),
        "connManager": 1,
        "connLo": 96,
        "connHi": 160,
        "tls": 1,
        "noise": 1,
        "pubsub": 1,
        "pubsubRouter": "gossipsub",
        "pubsubSign": 1,
        "pubsubSignStrict": 1,
        "pprof": 0,
        "idleTimeout": "30s",
        "persistentConnMaxMsgSize": _MESSAGE_BYTES_MAX,
    }
    if order.announce_addresses:
        flags["announceAddrs"] = ",".join(order.announce_addresses)
    if trusted_relays:
        flags["trustedRelays"] = ",".join(trusted_relays)
    if order.relay:
        flags["forceReachabilityPublic"] = 1
    return [f"-{name}={value}" for name, value in flags.items()]


class Daemon:
    """A running p2pd and hivemind's P2P on top of it; built by `start`."""

    def __init__(self, child: asyncio.subprocess.Process, control: Path, ports: PortsHeld) -> None:
        self.died: Final = asyncio.Event()
        self.p2p: Any = None
        self.addresses: Sequence[bytes] = ()
        """Binary multiaddrs that others are told to dial, as of the last look at it."""
        self._child = child
        self._control = control
        self._ports = ports
        self._lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def start(cls, order: PeerOrder) -> Daemon:
        """Raises StartFailed, one line, where a port is taken or p2pd doesn't come up."""
        sockets = socket_folder(order.folder)
        sweep(sockets, time.time())
        ports = hold_ports(order.listen)
        control = sockets / f"{SOCKET_PREFIX}p2pd-{secrets.token_urlsafe(8)}.sock"
        daemon: Daemon | None = None
        try:
            with identity_file(order.folder, order.private_key) as identity:
                child = await _spawn(arguments(order, identity, control))
                daemon = cls(child, control, ports)
                await daemon._wait_until_ready()
            await daemon._attach(sockets)
        except BaseException:
            ports.release()
            if daemon is not None:
                await daemon.close()
            raise
        return daemon

    @property
    def process_id(self) -> int:
        """Of p2pd."""
        return self._child.pid

    async def _wait_until_ready(self) -> None:
        try:
            async with asyncio.timeout(STARTUP_SECONDS):
                while not (self._lines and self._lines[-1].startswith("Peer ID:")):
                    if not await self._read_line():
                        last = self._lines[-1] if self._lines else "without a word"
                        raise StartFailed(f"p2pd ended at its start: {last}")
        except TimeoutError:
            raise StartFailed(f"p2pd did not start in {STARTUP_SECONDS:.0f} seconds") from None

    async def _read_line(self) -> bool:
        assert self._child.stdout is not None
        try:
            line = await self._child.stdout.readline()
        except ValueError:  # a line longer than the buffer; the next call goes on after it
            return True
        if line:
            self._lines.append(line.decode(errors="replace").strip()[:400])
        return bool(line)

    async def _attach(self, sockets: Path) -> None:
        class Attached(P2P):  # type: ignore[misc]
            # mypy doesn't follow hivemind. This is where hivemind puts its own socket.
            _UNIX_SOCKET_PREFIX = f"/unix{sockets}/{SOCKET_PREFIX}"

        async with asyncio.timeout(2 * CONTROL_SECONDS):
            self.p2p = await Attached.replicate(Multiaddr(f"/unix{self._control}"))
        connection = self.p2p._client.control
        connection._pending_calls = PendingCalls()
        connection._handler_tasks = HandlerTasks()
        for work in (self._drain_output(), self._watch_child(), self._probe()):
            self._tasks.append(asyncio.create_task(work))
        for task in (connection._read_task, connection._write_task):
            self._tasks.append(asyncio.create_task(self._watch(task)))

    async def identify(self, seconds: float = CONTROL_SECONDS) -> None:
        """Ask it for its addresses, which change as it learns of itself; raises as `ask`."""
        request = control_messages.Request(type=control_messages.Request.IDENTIFY)
        self.addresses = tuple((await self.ask(request, seconds)).identify.addrs)

    async def add_stream_handler(self, protocol: str, handler: Any) -> None:
        """Have streams of a protocol brought to `handler(info, reader, writer)`."""
        try:
            async with asyncio.timeout(2 * CONTROL_SECONDS):
                before = self.p2p._listen_task
                await self.p2p.add_binary_stream_handler(protocol, handler)
        except (OSError, TimeoutError, EOFError):
            self.died.set()
            return
        if before is None:
            self._tasks.append(asyncio.create_task(self._watch(self.p2p._listen_task)))

    async def _drain_output(self) -> None:
        while await self._read_line():
            pass

    async def _watch_child(self) -> None:
        await self._child.wait()
        self.died.set()

    async def _watch(self, task: asyncio.Task[Any]) -> None:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # else it is reported as never looked at
        self.died.set()

    async def _probe(self) -> None:
        failures = 0
        while failures < 2:
            await asyncio.sleep(0 if failures else PROBE_SECONDS)
            try:
                await self.identify(PROBE_SECONDS)
                failures = 0
            except (OSError, TimeoutError, EOFError):
                failures += 1
        self.died.set()

    @contextlib.asynccontextmanager
    async def conversation(
        self, request: Any, seconds: float = CONTROL_SECONDS
    ) -> AsyncIterator[tuple[Any, asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection on which p2pd has answered `request`; closed however this ends.

        Raises OSError (refused, gone), TimeoutError, EOFError.
        """
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(seconds):
                reader, writer = await asyncio.open_unix_connection(str(self._control))
                await write_message(writer, request)
                response = control_messages.Response()
                await read_message(reader, response)
            if response.type == control_messages.Response.ERROR:
                raise ConnectionError(response.error.msg[:200])
            yield response, reader, writer
        finally:
            if writer is not None:
                writer.transport.abort()  # a close would wait for a p2pd that doesn't read

    async def ask(self, request: Any, seconds: float = CONTROL_SECONDS) -> Any:
        """One request to p2pd, one response; raises as `conversation`."""
        async with self.conversation(request, seconds) as (response, _, _):
            return response

    async def close(self) -> None:
        """End p2pd, by force where it doesn't listen (a stopped process too)."""
        tasks, self._tasks = self._tasks, []
        lost = self.died.is_set() and bool(tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.p2p is not None:
            await self.p2p.shutdown()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._child.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    self._child.send_signal(number)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._child.wait(), _TERMINATE_SECONDS)
        if lost:
            last_words = self._lines[-1] if self._lines else ""
            log.error("p2pd ended, or hung", code=self._child.returncode, last_words=last_words)
        self._control.unlink(missing_ok=True)
        self._ports.release()
        self.died.set()


async def _spawn(flags: Sequence[str]) -> asyncio.subprocess.Process:
    # Not in our process group, so that an interrupt at the terminal is ours alone to handle; with
    # an environment that has nothing of ours; and after training, where strangers keep it busy.
    nice = shutil.which("nice")
    try:
        child = await asyncio.create_subprocess_exec(
            *([nice, "-n", str(NICENESS)] if nice else []),
            checked_p2pd(),
            *flags,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=ENVIRONMENT,
            start_new_session=True,
        )
    except OSError as error:
        reason = error.strerror or str(error)
        raise StartFailed(f"p2pd can't be run on {sys.platform}: {reason}") from None
    _come_after_training(child.pid)
    return child


def _come_after_training(process_id: int) -> None:
    # Where Linux shares a processor out by sessions, niceness counts within each alone.
    with contextlib.suppress(OSError):
        Path(f"/proc/{process_id}/autogroup").write_text(str(NICENESS), encoding="ascii")
