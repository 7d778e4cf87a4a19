"""The channel that the settings name, opened at either end."""

from __future__ import annotations

from pathlib import Path

import torch

from swarmnode.config.weights import WeightSync
from swarmnode.weights.broadcast_in import BroadcastIn
from swarmnode.weights.broadcast_out import BroadcastOut
from swarmnode.weights.channel import WeightsIn, WeightsOut
from swarmnode.weights.folder import FolderIn, FolderOut
from swarmnode.weights.meeting import Address
from swarmnode.weights.places import place_of
from swarmnode.weights.plan import Plan
from swarmnode.weights.shared_memory import SharedMemoryIn, SharedMemoryOut


def open_out(
    settings: WeightSync,
    home: Path,
    user: int,
    plan: Plan,
    generators: int,
    device: torch.device | str = "cpu",
    *,
    gathered: bool = False,
) -> WeightsOut:
    """Open the trainer's end. `home` is the node's, `user` the id of the one who runs it; the
    tensors lie on `device`, or are `gathered` there for each publication. Raises WeightsError."""
    if settings.channel == "folder":
        return FolderOut(_folder(settings, home), plan)
    if settings.channel == "broadcast":
        return BroadcastOut(
            _address(settings),
            generators,
            plan,
            device=device,
            buffer_bytes=settings.buffer_mib << 20,
            verify=settings.verify_broadcast,
            gathered=gathered,
        )
    return SharedMemoryOut(place_of(home, user), plan)


def open_in(
    settings: WeightSync,
    home: Path,
    user: int,
    base: str,
    number: int = 1,
    device: torch.device | str = "cpu",
) -> WeightsIn:
    """Open a generator's end, the one of this `number` from 1 on; `base` is the fingerprint of what
    isn't sent. A broadcast needs the trainer to be there. Raises WeightsError."""
    if settings.channel == "folder":
        return FolderIn(_folder(settings, home), base)
    if settings.channel == "broadcast":
        return BroadcastIn(_address(settings), number, base, device=device)
    return SharedMemoryIn(place_of(home, user), base)


def _folder(settings: WeightSync, home: Path) -> Path:
    return Path(settings.folder) if settings.folder else home / "weights"


def _address(settings: WeightSync) -> Address:
    host, _, port = settings.address.rpartition(":")
    return Address(host.strip("[]"), int(port), settings.timeout_seconds)
