"""Settings of how a trainer's weights get to those that sample with them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from swarmnode.config.base import Section

Channel = Literal["shared-memory", "folder", "broadcast"]


class WeightSync(Section):
    """How a trainer's weights get to its generators (docs/weights.md)."""

    channel: Channel = "shared-memory"
    """What carries them. `shared-memory`: on one machine; two copies of what is sent must fit into
    its memory beside the models. `folder`: across whatever lets two machines see one folder.
    `broadcast`: by torch.distributed, gloo between processors and NCCL between CUDA devices; the
    trainer waits for every generator to come to the end of a batch."""
    folder: str = ""
    """The folder of `folder`; the trainer and its generators must see the same one. Empty is
    `weights` in the node's home."""
    address: Annotated[str, Field(pattern=r"^\S+:\d{1,5}$")] = "127.0.0.1:29400"
    """The trainer's address and port for `broadcast`, as its generators reach it. Whoever reaches
    it can read and falsify weights: it must be on a network that only they are on."""
    buffer_mib: Annotated[int, Field(ge=1, le=65536)] = 1024
    """Size of each of the two buffers that `broadcast` packs parameters into, on both sides; they
    are smaller where all weights would go into fewer than eight."""
    timeout_seconds: Annotated[float, Field(gt=0, le=86400)] = 60.0
    """How long each side of `broadcast` waits for the other before it gives the version up."""
    verify_broadcast: bool = True
    """Whether `broadcast` sums up all bytes on both sides and compares. On CUDA that copies them to
    memory, which may take longer than sending them. The other channels always do."""
