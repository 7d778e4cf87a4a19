"""A host that is placed on a machine of a cluster, asked as a child of this machine is.

One that keeps a journal is made anew elsewhere when it is lost, and asked again all that it was
asked: the owner notices nothing but the time. Where the answers are others then, that is an error,
never another result. One without a journal is gone when it is lost, until it is started again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import msgpack

from swarmnode.cluster.cluster import Cluster, ClusterError, HostLost
from swarmnode.cluster.journal import Journal, digest_of
from swarmnode.cluster.places import MachineOfCluster, Wanted
from swarmnode.process import ChildFailed, ChildRefused, ChildTimedOut

PLACE_SECONDS: Final = 120.0
"""For Ray to begin an actor, and for its child to load torch."""
ATTEMPTS: Final = 3
"""So often a request is asked before whatever it asks for counts as what ends its host."""
TIMED: Final = frozenset({"create"})
"""Methods whose answers hold measured seconds, and so differ each time."""


class PlacedHost:
    """One host. Calls are answered in the order in which they were made."""

    def __init__(self, cluster: Cluster, wanted: Wanted, journal: Journal | None) -> None:
        self.name = wanted.name
        self.starts = 0
        self.machine: MachineOfCluster | None = None
        """Where it is, or was last."""
        self._cluster = cluster
        self._wanted = wanted
        self._journal = journal
        self._process_id: int | None = None
        self._started = False
        self._turn = asyncio.Lock()

    @property
    def process_id(self) -> int | None:
        """The id of its process on its machine while it is known to live."""
        return self._process_id

    def start(self) -> None:
        """Have it placed, behind its next call."""
        self._started = True

    async def call(self, method: str, payload: object, timeout_seconds: float) -> Any:
        """Ask it and wait for its answer, from any loop.

        Raises ChildTimedOut, ChildFailed, ChildRefused; ClusterError where it is gone, where no
        machine takes it, or where one that was made anew answers otherwise.
        """
        return await self._cluster.away(self._answered(method, payload, timeout_seconds))

    def close_now(self) -> None:
        """Let go of what is kept of it here; it ends with its cluster."""
        if self._journal is not None:
            self._journal.close()

    async def _answered(self, method: str, payload: object, seconds: float) -> Any:
        request: bytes = msgpack.packb([method, payload, seconds])
        async with self._turn:
            answer = await self._got(request, seconds)
            ending, value = msgpack.unpackb(answer, strict_map_key=False)
            if ending == "slow":
                self._lose()
                raise ChildTimedOut(str(value))
            if self._journal is not None:
                self._journal.add(request, answer)
        if ending == "ok":
            return value
        raise (ChildRefused if ending == "refused" else ChildFailed)(str(value))

    async def _got(self, request: bytes, seconds: float) -> bytes:
        """The answer, of another process where the first ones were lost over it."""
        why = "it is not running"
        for _ in range(ATTEMPTS):
            if self._process_id is None and not self._started:
                break
            try:
                if self._process_id is None:
                    await self._placed()
                return await self._asked(request, seconds)
            except HostLost as lost:
                why = str(lost)
                self._lose()
                self._started = self._journal is not None
                if self._started:
                    self._cluster.tell(f"{self.name} was lost on {self.machine}: {why}")
        raise ClusterError(f"{self.name} on {self.machine or 'no machine'} is gone: {why}")

    async def _placed(self) -> None:
        """Begin it and bring it to where the last one was. Raises HostLost, ClusterError."""
        self.machine, process_id = await self._cluster.placed(self._wanted, PLACE_SECONDS)
        self._started = False
        self.starts += 1
        self._process_id = process_id
        if self._journal is None:
            self._cluster.tell(f"{self.name} begins on {self.machine}")
        else:
            await self._check_alike(self.machine)
            if asked := self._journal.requests:
                self._cluster.tell(
                    f"{self.name} begins again on {self.machine}, from {asked} requests"
                )
                await self._replayed(self._journal)

    async def _check_alike(self, machine: MachineOfCluster) -> None:
        question = msgpack.packb(["likeness", None, PLACE_SECONDS])
        ending, likeness = msgpack.unpackb(await self._asked(question, PLACE_SECONDS))
        if ending != "ok":
            raise ClusterError(f"{self.name} on {machine} can't compute: {likeness}")
        self._cluster.check_alike(machine, likeness)

    async def _replayed(self, journal: Journal) -> None:
        for request, digest in journal:
            method, _payload, seconds = msgpack.unpackb(request, strict_map_key=False)
            answer = await self._asked(request, seconds)
            if method not in TIMED and digest_of(answer) != digest:
                raise ClusterError(
                    f"{self.name} answers {method} otherwise on {self.machine} than before it was "
                    "lost, so that the run can't go on as it began; give the same command again"
                )

    async def _asked(self, request: bytes, seconds: float) -> bytes:
        answer = await self._cluster.answered(self.name, request, seconds)
        ending, value = msgpack.unpackb(answer, strict_map_key=False)
        if ending == "gone":
            raise HostLost(str(value))
        return answer

    async def stand(self) -> None:
        """Have it placed now, in the cluster's own loop."""
        self.start()
        await self._answered("likeness", None, PLACE_SECONDS)

    def _lose(self) -> None:
        if self._process_id is not None and self.machine is not None:
            self._cluster.left(self.machine, self._wanted)
        self._process_id = None


async def stood(hosts: Sequence[PlacedHost]) -> None:
    """Place them all, in the cluster's own loop; raises what the first one raises."""
    await asyncio.gather(*(host.stand() for host in hosts))
