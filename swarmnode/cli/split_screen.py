"""The lines of `swarmnode status` about a node whose generation and training are apart."""

from __future__ import annotations

from collections.abc import Iterator

from swarmnode.observe.split_status import GeneratorStatus, SplitStatus
from swarmnode.observe.words import lasting


def split_lines(split: SplitStatus) -> Iterator[tuple[str, str]]:
    """Name and text of each line."""
    dropped = ", ".join(f"{name} {count}" for name, count in sorted(split.dropped.items()))
    yield (
        "queue",
        f"{split.queue_groups} groups wait ({split.capacity_groups} may wait or be under way), "
        f"lag {split.lag} of {split.max_lag} versions; {split.generated_groups} generated, "
        + (f"dropped: {dropped}" if dropped else "none dropped"),
    )
    pace = split.trainer_round_seconds
    yield (
        "trainer",
        f"version {split.version}, "
        + ("no round yet" if pace is None else f"{pace:.2f} s a round")
        + f", idle {split.trainer_idle_share:.0%}"
        + (", waits for groups" if split.trainer_waits else ""),
    )
    for generator in split.generators:
        yield generator.name, _generator(generator)


def _generator(generator: GeneratorStatus) -> str:
    pace, waiting = generator.group_seconds, generator.waiting_seconds
    doing = f"{generator.under_way} groups under way" if generator.under_way else "between batches"
    if waiting is not None:
        doing = f"held back for {lasting(waiting)}"
    return (
        f"version {generator.version}, "
        + ("no group yet" if pace is None else f"{pace:.2f} s a group")
        + f", idle {generator.idle_share:.0%}, {doing}"
    )
