"""The learning rate by optimizer step: a function of the step alone, so that resuming is exact."""

from __future__ import annotations

import math

from swarmnode.config.training import Training


def learning_rate(settings: Training, steps: int) -> float:
    """The rate of the next step after `steps` steps.

    A linear rise over `warmup_steps` to `learning_rate`, then constant, or down to `schedule_floor`
    of it at `schedule_steps`: linearly, or along half a cosine (SGDR, arXiv 1608.03983,
    equation 5, without restarts).
    """
    warmup = max(1, settings.warmup_steps)
    rising = min(1.0, (steps + 1) / warmup)
    if settings.schedule == "constant" or rising < 1.0:
        return settings.rate * rising
    progress = (steps + 1 - warmup) / (settings.schedule_steps - warmup)
    left = 1.0 - min(1.0, progress)
    if settings.schedule == "cosine":
        left = (1.0 - math.cos(math.pi * left)) / 2.0
    return settings.rate * (settings.schedule_floor + (1.0 - settings.schedule_floor) * left)
