"""Settings of rewards: what counts as one, and the limits of the scorer process."""

from __future__ import annotations

from pydantic import Field

from swarmnode.config.base import Section
from swarmnode.config.channels import Channels


class Rewards(Section):
    """How completions become rewards, and what the scorer may cost."""

    partial_credit: bool = False
    """Train on a verifier's score itself instead of success (a score of at least 0.99) alone.
    Scores below success are small and mostly say that nothing was solved, but advantages are
    relative: they turn them into full-size updates."""

    channels: Channels = Channels()
    """What is paid beside success."""

    groups_per_request: int = Field(default=64, ge=1, le=128)
    """Groups that the scorer takes at a time; 128 of the largest that peers may send fit a frame
    between processes."""

    request_seconds: float = Field(default=1.0, gt=0, le=60)
    """Seconds that those may take together before the worker is killed and the culprit sought."""

    group_seconds: float = Field(default=0.25, gt=0, le=60)
    """Seconds that one group may take when a culprit is sought; the one that takes longer is
    scored 0 and named."""

    completion_cpu_seconds: float = Field(default=0.05, gt=0, le=60)
    """CPU seconds that one completion may take before it ends the scorer's worker. The
    dearest answer takes about 0.001 s on a laptop; nobody is blamed where right answers take too
    long as well."""

    prefix_share: float = Field(default=0.1, gt=0, le=1)
    """Share of one core that the groups of peers from one address prefix may take to be scored,
    over time; what exceeds it is dropped unscored."""

    prefix_seconds: float = Field(default=10.0, gt=0)
    """Seconds of scoring that an address prefix may save up."""

    draw_seconds: float = Field(default=120.0, gt=0)
    """Seconds that drawing questions may take; a warm start draws thousands in one request."""

    start_seconds: float = Field(default=120.0, gt=0)
    """Seconds that the scorer process may need to import reasoning-gym and be ready."""

    memory_mib: int = Field(default=512, ge=64)
    """MiB that the scorer's worker may allocate beyond what it has when it is locked."""
