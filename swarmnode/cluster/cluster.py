"""A Ray cluster as seen from the process that needs it: its machines, and hosts placed on them.

Ray itself lives in a driver process (driver.py), spoken with over a channel that has a loop and a
thread of its own: so hosts answer under any event loop and any clock. Raises ClusterError, one line
for the user, where the cluster as a whole can't be had or is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from swarmnode.channel import CallFailed, Channel, ChannelClosed, ChannelError, ChannelTimedOut
from swarmnode.cluster.places import MachineOfCluster, Place, Wanted, next_place
from swarmnode.process import ChildGone, spawn

CONNECT_SECONDS: Final = 150.0
"""For Ray to begin, or to be found, on a machine that others keep busy."""
LISTEN_SECONDS: Final = 10.0
ASK_SECONDS: Final = 60.0
"""For what Ray answers by itself."""
CLOSE_SECONDS: Final = 10.0
LOST_SECONDS: Final = 60.0
"""Beyond a request's own limit: what Ray may take to tell that a machine has died."""

QUIET: Final = {"RAY_USAGE_STATS_ENABLED": "0"}
ALONE: Final = {
    **QUIET,
    # By this, despite its name, Ray listens on loopback alone; a node's address doesn't do it.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_AUTH_MODE": "token",
    # Hosts are what the machine is there for; Ray would have them wait for all else.
    "RAY_worker_niceness": "0",
}
"""What a cluster of this machine alone is told."""

Result = TypeVar("Result")


class ClusterError(ChildGone):
    """The cluster, or a host on it, can't be had or was lost; one line for the user."""


class HostLost(Exception):
    """What a placed host ended in: its process, its actor or its machine is gone."""


class Cluster:
    """One cluster. The owner must `close` it; hosts that were placed end with it."""

    def __init__(
        self,
        address: str,
        environment: Mapping[str, str],
        log: Path,
        said: Callable[[str], None],
        seconds: float = CONNECT_SECONDS,
    ) -> None:
        """At `address`, or begun on this machine where that is empty; Ray's words go to `log`.

        `said` is told, in one line, what becomes of hosts; it is called from another thread.
        """
        self._address = address
        self._environment = environment
        self._log = log
        self._said = said
        self._seconds = seconds
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cluster", daemon=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._taken: Counter[str] = Counter()
        self._alike: tuple[MachineOfCluster, Mapping[str, str]] | None = None

    def connect(self, cores: int) -> Sequence[MachineOfCluster]:
        """Begin or join; the machines. `cores` are those of a cluster that is begun here."""
        if self._address:
            _check_listens(self._address)
        alone = {**ALONE, "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        environment = {**self._environment, **(QUIET if self._address else alone)}
        # One that is inherited would be taken where none is given.
        environment.pop("RAY_ADDRESS", None)
        # Short, since it holds sockets, whose paths may have a hundred characters.
        self._folder = tempfile.TemporaryDirectory(
            prefix="swarmnode-", dir="/tmp", ignore_cleanup_errors=True
        )
        module = "swarmnode.cluster.driver"
        command = [sys.executable, "-m", module]
        self._process, connection = spawn(command, [str(self._log)], environment)
        self._thread.start()

        async def connected() -> Any:
            self._channel = await Channel.over(connection, {})
            self._running = self._loop.create_task(self._channel.run())
            order = {"address": self._address, "cores": cores, "folder": self.folder}
            return await self.asked("connect", order, self._seconds)

        return [MachineOfCluster.from_values(one) for one in self.run(connected())]

    @property
    def folder(self) -> str:
        """For what is needed while it lasts; this user's alone."""
        assert self._folder is not None
        return self._folder.name

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do it in the cluster's own loop and wait, outside of any loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def away(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do it in the cluster's own loop, from any other."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def asked(self, method: str, payload: object, seconds: float = ASK_SECONDS) -> Any:
        """What the driver answers. Raises ClusterError."""
        if self._channel is None:
            raise ClusterError("the Ray cluster was left")
        try:
            return await self._channel.call(method, payload, seconds)
        except CallFailed as error:
            raise ClusterError(f"{self._where}: {error}") from error
        except ChannelTimedOut:
            raise ClusterError(
                f"{self._where} did not answer in {seconds:.0f} s; Ray's own words: {self._log}"
            ) from None
        except ChannelClosed:
            raise ClusterError(f"{self._where} was lost; Ray's own words: {self._log}") from None

    async def placed(self, wanted: Wanted, seconds: float) -> tuple[MachineOfCluster, int]:
        """Begin a host where there is most room; its machine and process. Raises HostLost."""
        machines = [MachineOfCluster.from_values(one) for one in await self.asked("machines", None)]
        place = next_place(machines, self._taken, wanted)
        if place is None:
            what = "free GPU" if wanted.gpus else "core"
            raise ClusterError(f"{self._where} has no machine with a {what} to give")
        self._taken[place.machine.node] += wanted.share
        try:
            return place.machine, await self._begun(place, wanted, seconds)
        except BaseException:
            self.left(place.machine, wanted)
            raise

    async def _begun(self, place: Place, wanted: Wanted, seconds: float) -> int:
        order = {
            "name": wanted.name,
            "module": wanted.module,
            "environment": dict(wanted.environment),
            "cores": wanted.cores if place.free else 0,
            "gpus": wanted.gpus,
            "node": place.machine.node,
        }
        try:
            found = await self._channel_call("place", order, seconds)
        except ChannelTimedOut:
            await self.asked("drop", {"name": wanted.name})
            raise HostLost(f"{place.machine} gave it no place in {seconds:.0f} s") from None
        if "lost" in found:
            raise HostLost(found["lost"])
        process_id: int = found["placed"]["process_id"]
        return process_id

    def left(self, machine: MachineOfCluster, wanted: Wanted) -> None:
        """A host is no longer there."""
        self._taken[machine.node] -= wanted.share

    @property
    def lost(self) -> bool:
        """Whether nothing can be placed any more."""
        return self._channel is None or bool(self._channel.ended)

    async def answered(self, name: str, request: bytes, seconds: float) -> bytes:
        """What a host answers. Raises HostLost."""
        order = {"name": name, "request": request}
        try:
            found = await self._channel_call("ask", order, seconds + LOST_SECONDS)
        except ChannelTimedOut:
            raise HostLost("it did not answer, and neither did Ray") from None
        if "lost" in found:
            raise HostLost(found["lost"])
        answer: bytes = found["answer"]
        return answer

    async def _channel_call(self, method: str, payload: object, seconds: float) -> Any:
        """As `asked`, but a limit of time is the caller's to judge."""
        try:
            assert self._channel is not None
            return await self._channel.call(method, payload, seconds)
        except ChannelTimedOut:
            raise
        except ChannelError as error:
            words = f"{error}; " if isinstance(error, CallFailed) else ""
            raise ClusterError(
                f"{self._where} was lost; {words}Ray's own words: {self._log}"
            ) from None

    def check_alike(self, machine: MachineOfCluster, likeness: Mapping[str, str]) -> None:
        """Raise ClusterError where a machine computes otherwise than the first one."""
        if self._alike is None:
            self._alike = machine, likeness
        first, expected = self._alike
        for part in sorted({*expected, *likeness}):
            here, there = expected.get(part, "none"), likeness.get(part, "none")
            if here != there:
                raise ClusterError(
                    f"{machine} and {first} differ in {part} ({there} and {here}), so that results "
                    "would depend on where nodes are placed; use machines that are alike"
                )

    def tell(self, line: str) -> None:
        """What becomes of hosts, for the user."""
        self._said(line)

    @property
    def _where(self) -> str:
        return f"the Ray cluster at {self._address}" if self._address else "Ray on this machine"

    def close_now(self) -> None:
        """Leave; blocks for CLOSE_SECONDS at most, then ends the driver by force."""
        channel, self._channel = self._channel, None
        if channel is not None:
            with contextlib.suppress(ChannelError):
                self.run(channel.call("stop", None, CLOSE_SECONDS))
            self.run(channel.close())
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.0 if channel is None else CLOSE_SECONDS)
            # The session is the driver's own, and Ray's processes on this machine are in its group.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        if not self._loop.is_closed():
            self._loop.close()
        if self._folder is not None:
            self._folder.cleanup()


def address_of(setting: str) -> str:
    """The address that `ray:HOST:PORT` has, empty for `ray`."""
    return setting.removeprefix("ray").removeprefix(":")


def _check_listens(address: str) -> None:
    """Ray itself tries for minutes where nothing listens. Raises ClusterError."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), LISTEN_SECONDS).close()
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ClusterError(
            f"no Ray cluster is at {address}: {why}; begin one with `ray start --head`, and give "
            "its address and port"
        ) from error
