"""What runs as a Ray actor on a machine of the cluster: it keeps one child there and passes on.

The child is the process that a local one would be, with the machine's own environment, so that it
computes alike; Ray's process beside it computes nothing. Requests and answers pass as bytes.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any, Literal

import msgpack

from swarmnode.process import Child, ChildError, ChildFailed, ChildRefused, ChildTimedOut

Ending = Literal["ok", "refused", "failed", "slow", "gone"]


class PlacedChild:
    """The actor. Its child ends with it: the kernel sees to that."""

    def __init__(self, module: str, name: str, environment: Mapping[str, str]) -> None:
        self._child = Child(module, name=name, environment=_own(os.environ, environment))

    async def begin(self) -> dict[str, Any]:
        """Start the child; who and where it is."""
        self._child.start()
        return {"process_id": self._child.process_id, "host": socket.gethostname()}

    async def ask(self, request: bytes) -> bytes:
        """Pass `[method, payload, timeout_seconds]` on; the answer is `[Ending, value]`."""
        method, payload, seconds = msgpack.unpackb(request, strict_map_key=False)
        packed: bytes = msgpack.packb(await self._answered(method, payload, seconds))
        return packed

    async def _answered(self, method: str, payload: object, seconds: float) -> list[Any]:
        try:
            return ["ok", await self._child.call(method, payload, seconds)]
        except ChildError as error:
            return [_ending(error), str(error)]


def _ending(error: ChildError) -> Ending:
    match error:
        case ChildRefused():
            return "refused"
        case ChildFailed():
            return "failed"
        case ChildTimedOut():
            return "slow"
    return "gone"


def _own(here: Mapping[str, str], chosen: Mapping[str, str]) -> dict[str, str]:
    """The machine's environment without what Ray put there, its token above all."""
    kept = {name: value for name, value in here.items() if not name.startswith("RAY_")}
    kept.pop("PYTHONBREAKPOINT", None)
    return {**kept, **chosen}
