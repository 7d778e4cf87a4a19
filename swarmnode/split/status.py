"""Both loops as a part of the status document."""

from __future__ import annotations

from swarmnode.observe.facts import SplitFacts
from swarmnode.observe.split_status import GeneratorStatus, SplitStatus
from swarmnode.split.generators import Generator
from swarmnode.split.loops import Split


def split_status(split: Split, now: float) -> SplitStatus:
    """What the two sides do at this moment, in seconds since 1970."""
    return SplitStatus(
        version=split.publishing.versions.newest,
        queue_groups=len(split.queue),
        capacity_groups=split.capacity,
        lag=split.lag,
        max_lag=split.max_lag,
        trainer_round_seconds=split.trainer_pace.unit_seconds,
        trainer_idle_share=split.trainer_pace.idle_share,
        trainer_waits=split.waiting_since is not None,
        generated_groups=split.queue.put_in,
        dropped={why.value: count for why, count in split.queue.dropped.items() if count},
        generators=tuple(_generator(one, now) for one in split.generators),
    )


def split_facts(split: Split, now: float) -> SplitFacts:
    """What warnings are made from at this moment."""
    since = {one.name: one.waiting_since for one in split.generators}
    worst = max(split.generators, key=lambda one: one.failures)
    return SplitFacts(
        generators=len(split.generators),
        failures={one.name: one.failures for one in split.generators if one.failures},
        problem=worst.problem,
        publish_problem=split.publishing.problem,
        held_back_seconds={
            name: max(0.0, now - begun) for name, begun in since.items() if begun is not None
        },
        trainer_waits_seconds=_seconds(split.waiting_since, now),
        trainer_idle_share=split.trainer_pace.settled_idle_share,
        generators_idle_share=min(one.pace.settled_idle_share for one in split.generators),
    )


def _seconds(since: float | None, now: float) -> float:
    return 0.0 if since is None else max(0.0, now - since)


def _generator(generator: Generator, now: float) -> GeneratorStatus:
    since = generator.waiting_since
    return GeneratorStatus(
        name=generator.name,
        version=generator.policy.info.version,
        under_way=generator.under_way,
        group_seconds=generator.pace.unit_seconds,
        idle_share=generator.pace.idle_share,
        waiting_seconds=None if since is None else max(0.0, now - since),
    )
