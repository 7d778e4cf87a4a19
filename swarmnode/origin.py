"""Which run a checkpoint is of: what the daemon keeps with the policy, and reads again later.

Plain values on both sides, so that a checkpoint tells of itself wherever it lies. One of another
version of the program may say less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from swarmnode.config.settings import Settings


@dataclass(frozen=True, slots=True)
class Origin:
    """What a checkpoint says of its run."""

    round: int
    """Rounds that ended before it was written."""
    settings: Mapping[str, Any]
    """The settings of the run as plain values by section; empty where they were not kept."""
    public_key: bytes
    """The node's, from which the skills of its warm start follow; empty where it was not kept."""
    swarm_id: bytes
    """Empty for a node on its own."""
    swarm_name: str


def kept(
    number: int,
    settings: Settings,
    public_key: bytes,
    swarm: tuple[bytes, str] | None,
    scheduler: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The JSON value to save with a policy after round `number`.

    `swarm` is the swarm's id and name, None for a node on its own; `scheduler` is what its
    scheduler learned.
    """
    return {
        "round": number,
        "settings": settings.model_dump(mode="json"),
        "public_key": public_key.hex(),
        "swarm": None if swarm is None else {"id": swarm[0].hex(), "name": swarm[1]},
        "scheduler": scheduler,
    }


def round_of(extra: Any) -> int:
    """The round that a saved value tells; 0 where there is none."""
    return int((extra or {}).get("round", 0))


def scheduler_of(extra: Any) -> Mapping[str, Any] | None:
    """What a saved value tells of the scheduler; None where it tells nothing."""
    found: Mapping[str, Any] | None = (extra or {}).get("scheduler")
    return found


def origin_of(extra: Any) -> Origin:
    """The inverse of `kept`; what is missing is empty."""
    extra = extra or {}
    swarm = extra.get("swarm") or {}
    return Origin(
        round=round_of(extra),
        settings=extra.get("settings") or {},
        public_key=bytes.fromhex(extra.get("public_key", "")),
        swarm_id=bytes.fromhex(swarm.get("id", "")),
        swarm_name=swarm.get("name", ""),
    )
