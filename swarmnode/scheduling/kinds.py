"""The schedulers that need neither gradients nor torch, by their kind."""

from __future__ import annotations

import random
from collections.abc import Sequence

from swarmnode.config.scheduling import Scheduling
from swarmnode.scheduling.bandits import Dump, Sec
from swarmnode.scheduling.fixed import Drawn, Static
from swarmnode.scheduling.odm import Odm
from swarmnode.scheduling.scheduler import Scheduler, Signal
from swarmnode.scheduling.simplex import equal

WITHOUT_GRADIENTS = ("uniform", "static", "random", "sec", "dump", "odm")
"""Kinds that are known here."""


def without_gradients(
    settings: Scheduling, static_weights: Sequence[float], signal: Signal, seed: int = 0
) -> Scheduler:
    """The scheduler of `settings.kind`. Raises ValueError for kinds that are not known here."""
    domains = len(static_weights)
    match settings.kind:
        case "uniform":
            return Static(equal(domains))
        case "static":
            return Static(static_weights)
        case "random":
            return Drawn(domains, random.Random(seed))
        case "sec":
            return Sec(
                domains,
                rate=settings.sec_rate,
                temperature=settings.sec_temperature,
                signal=signal,
            )
        case "dump":
            return Dump(
                domains,
                window=settings.dump_window,
                temperature=settings.dump_temperature,
                signal=signal,
            )
        case "odm":
            return Odm(
                static_weights,
                form=settings.odm_form,
                smoothing=settings.odm_smoothing,
                warmup_steps=settings.odm_warmup_steps,
                signal=signal,
            )
        case _:
            raise ValueError(f"{settings.kind} needs gradients")
