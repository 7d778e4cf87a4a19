"""`make bench NAME=split`: what a round takes with generation and training apart, and its bound.

A node on its own goes through rounds with a model, time and again in each of three ways that take
turns: `sync` with one thread, whose two phases are timed; `split` with one generator, one thread to
each side; and `sync` with two threads, which uses the same two cores. Told are medians over all
rounds but the first of each run: the bound max(generation, training) over the round of `split`, its
sides' idle time, and the round of `sync` with two threads over it. All of a node's other work
competes for the same cores. With `--generators`, staleness and pace by their number as well.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from swarmnode.home import Home
from swarmnode.reports import report_from_json
from swarmnode.sim.real import real_environment, start
from swarmnode.store.reading import stored_rounds
from swarmnode.types import RoundReport

TASKS = 'tasks.names=["basic_arithmetic", "fraction_simplification"]'
COMMON = (
    TASKS,
    "rounds.external_groups_per_round=0",
    "evaluation.questions_per_task=1",
    "evaluation.every_rounds=1000000",
    "selection.filter=uniform",
    "daemon.checkpoint_seconds=100000",
)
WARM_ROUNDS = 2
"""Of each run, which are not counted: the first batch of `split` overlaps with nothing."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to go through rounds."""

    name: str
    settings: tuple[str, ...]


ARMS = (
    Arm("sync, 1 thread", ("policy.mode=sync", "policy.threads=1")),
    Arm("split, 1 + 1 threads", ("policy.mode=split", "policy.threads=1")),
    Arm("sync, 2 threads", ("policy.mode=sync", "policy.threads=2")),
)


def with_generators(count: int) -> Arm:
    """Split with so many."""
    settings = ("policy.mode=split", "policy.threads=1", f"policy.generators={count}")
    return Arm(f"split, {count} generators", settings)


def run(arm: Arm, model: str, rounds: int, more: Sequence[str], folder: Path) -> list[RoundReport]:
    """The counted rounds of a node in a new home. RuntimeError with what it said, if it fails."""
    home = Home(folder / "home")
    sets = [f"policy.model={model}", *COMMON, *arm.settings, *more]
    arguments = [word for each in sets for word in ("--set", each)]
    home.path.mkdir(parents=True)
    process = start(
        ["run", "--solo", "--rounds", str(rounds + WARM_ROUNDS), *arguments],
        home,
        real_environment(os.environ, folder.parent / "cache"),
    )
    if process.wait():
        raise RuntimeError((home.path / "output").read_text("utf-8", "replace"))
    reports = sorted(
        (report_from_json(each.report) for each in stored_rounds(home.database)),
        key=lambda report: report.round,
    )
    return reports[WARM_ROUNDS:]


def intervals(reports: Sequence[RoundReport]) -> list[float]:
    """Seconds from the end of each round to the next one's."""
    ends = [report.clock_seconds for report in reports]
    return [later - earlier for earlier, later in pairwise(ends)]


def medians(reports: Sequence[RoundReport], names: Sequence[str]) -> Mapping[str, float]:
    """Of these metrics, without the round that only begins to count."""
    return {
        name: statistics.median(report.metrics[name] for report in reports[1:]) for name in names
    }


def main() -> None:
    """Run the arms in turns and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--generators", type=int, nargs="*", default=[])
    parser.add_argument("--set", action="append", default=[], help="further settings of all arms")
    given = parser.parse_args()
    arms = (*ARMS, *map(with_generators, given.generators))
    seen: defaultdict[str, list[list[RoundReport]]] = defaultdict(list)
    with TemporaryDirectory() as folder:
        for repeat in range(given.repeats):
            for place, arm in enumerate(arms):
                reports = run(
                    arm, given.model, given.rounds, given.set, Path(folder) / f"{repeat}-{place}"
                )
                seen[arm.name].append(reports)
                print(f"repeat {repeat + 1}: {arm.name} done", flush=True)
    _print(seen)


def _print(seen: Mapping[str, list[list[RoundReport]]]) -> None:
    rounds = {
        name: statistics.median(each for reports in runs for each in intervals(reports))
        for name, runs in seen.items()
    }
    sync = [report for reports in seen[ARMS[0].name] for report in reports]
    phases = medians(sync, ["seconds/produce", "seconds/learn"])
    bound = max(phases.values())
    print(f"generation {phases['seconds/produce']:.2f} s, training {phases['seconds/learn']:.2f} s")
    for name, seconds in rounds.items():
        print(f"{name}: {seconds:.2f} s a round, {rounds[ARMS[0].name] / seconds:.2f} x sync")
        if not name.startswith("split"):
            continue
        reports = [report for one in seen[name] for report in one]
        told = medians(
            reports,
            ["split/lag_mean", "split/trainer_idle_share", "split/generator_idle_share"],
        )
        last = [one[-1].metrics for one in seen[name]]
        stale = sum(each["split/dropped/lag"] + each["split/dropped/age"] for each in last)
        made = sum(each["split/generated_groups"] for each in last)
        print(
            f"  {bound / seconds:.0%} of the bound, trainer idle "
            f"{told['split/trainer_idle_share']:.0%}, generators idle "
            f"{told['split/generator_idle_share']:.0%}, mean lag {told['split/lag_mean']:.2f}, "
            f"{stale / made:.1%} stale"
        )
    both = rounds[ARMS[2].name] / rounds[ARMS[1].name]
    print(f"sync with both threads over split: {both:.2f}")


if __name__ == "__main__":
    main()
