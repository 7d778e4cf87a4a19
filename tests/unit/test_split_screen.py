"""What `swarmnode status` shows of a node whose generation and training are apart."""

from __future__ import annotations

from swarmnode.cli.split_screen import split_lines
from swarmnode.observe.split_status import GeneratorStatus, SplitStatus


def test_both_sides_the_queue_and_what_is_held_back_are_told() -> None:
    status = SplitStatus(
        version=58,
        queue_groups=3,
        capacity_groups=12,
        lag=2,
        max_lag=4,
        trainer_round_seconds=4.25,
        trainer_idle_share=0.25,
        trainer_waits=True,
        generated_groups=400,
        dropped={"trainer_lost": 4, "lag": 1},
        generators=(
            GeneratorStatus(
                name="generator-1", version=58, under_way=4, group_seconds=0.5, idle_share=0.1
            ),
            GeneratorStatus(name="generator-2", version=57, waiting_seconds=90.0),
        ),
    )
    lines = dict(split_lines(status))
    assert lines["queue"] == (
        "3 groups wait (12 may wait or be under way), lag 2 of 4 versions; 400 generated, "
        "dropped: lag 1, trainer_lost 4"
    )
    assert lines["trainer"] == "version 58, 4.25 s a round, idle 25%, waits for groups"
    assert lines["generator-1"] == "version 58, 0.50 s a group, idle 10%, 4 groups under way"
    assert lines["generator-2"].startswith("version 57, no group yet, idle 0%, held back for ")
