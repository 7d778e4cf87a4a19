"""Settings of a node that runs for days: what it keeps, and how it ends."""

from __future__ import annotations

from pydantic import Field

from swarmnode.config.base import Section


class Daemon(Section):
    """`swarmnode run`."""

    shortest_round_seconds: float = Field(default=2.0, ge=0)
    """Seconds that a round takes at least, so that a tiny model does not flood a swarm with
    bundles; rounds of larger models are longer by themselves. A node on its own doesn't wait."""

    checkpoint_seconds: float = Field(default=120.0, gt=0)
    """Seconds between checkpoints; what was learned since the last one is lost when the power
    fails."""

    checkpoints: int = Field(default=3, ge=2, le=100)
    """Checkpoints that are kept."""

    rollout_bytes: int = Field(default=64 * 2**20, ge=0)
    """Bytes of rollouts that are kept, the newest: own ones, and those of peers that were admitted
    ([data](data.md)). 0 keeps none."""

    published_bytes: int = Field(default=64 * 2**20, ge=0)
    """Bytes of own bundles that are kept as they left, the newest; one is always kept."""

    rounds_kept: int = Field(default=100_000, ge=100)
    """Reports of rounds that are kept, the newest."""

    sample_seconds: float = Field(default=30.0, ge=0)
    """Seconds between questions that the log shows, each with a right and a wrong answer to it
    where there are such."""
    grace_seconds: float = Field(default=20.0, gt=0)
    """Seconds that the running round may still take after the first signal; then it is given up.
    A second signal ends everything at once."""
