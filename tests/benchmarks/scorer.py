"""`make bench NAME=scorer`: what verification costs, and how fast a killed scorer is back.

Rates are by CPU second of all processes that take part (the daemon's half, the zygote, its
workers), which is what one core does on an otherwise idle machine; they hold on a busy one too.
The times of a kill are elapsed ones and hold on an idle machine alone. Writes the tables of
docs/results/security.md.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import psutil

from swarmnode.config.rewards import Rewards
from swarmnode.process import Child, WorkKilled
from swarmnode.rewards.client import Scorer
from swarmnode.types import Group
from tests.benchmarks.scorer_swarm import verified
from tests.benchmarks.scorer_work import COMPLETIONS, NINE, SWARM, made, public_key
from tests.benchmarks.sharing_markdown import table

PAGE = Path("docs/results/security.md")
BEGIN, END = "<!-- scorer:figures -->", "<!-- /scorer:figures -->"
GROUPS = 504
"""In a run on the mix; 56 of each task."""
GROUPS_OF_A_TASK = 168
RUNS = 2
BUNDLE = 8
KILLS = 100
LEVELS = ("easy", "paper")


def child_of(module: str) -> Child:
    """A scorer process with the default limits, started."""
    limits = [str(Rewards().memory_mib), str(Rewards().completion_cpu_seconds)]
    child = Child(module, name="scorer", arguments=[SWARM.hex(), *limits])
    child.start()
    return child


def cpu_seconds(child: Child) -> float:
    """Of this process and of a scorer with all its workers, dead ones included."""
    zygote = psutil.Process(child.process_id)
    times = [zygote.cpu_times(), *(each.cpu_times() for each in zygote.children())]
    theirs: float = sum(each.user + each.system for each in times)
    buried: float = times[0].children_user + times[0].children_system
    return time.process_time() + theirs + buried


async def rate(child: Child, work: Callable[[], Awaitable[object]], completions: int) -> float:
    """Completions by CPU second: the better of two runs, after one that warms up."""
    await work()
    costs = []
    for _ in range(RUNS):
        before = cpu_seconds(child)
        await work()
        costs.append(cpu_seconds(child) - before)
    return completions / min(costs)


async def cached(child: Child, levels: Sequence[tuple[str, str]], count: int) -> float:
    """Own groups, whose questions the worker has drawn."""
    scorer = Scorer(child, Rewards())
    groups = made(0, levels, count)
    return await rate(child, lambda: scorer.score(groups), COMPLETIONS * len(groups))


async def uncached(
    child: Child,
    levels: Sequence[tuple[str, str]],
    count: int,
    strangers: Iterator[int],
    *,
    trusting: bool,
) -> float:
    """Bundles of authors never seen before; `trusting` leaves them all to one worker."""
    scorer = Scorer(child, Rewards(), trusting=trusting)

    def groups() -> list[Group]:
        return [
            group
            for number in itertools.islice(strangers, count // BUNDLE)
            for group in made(number, _turned(levels, number), BUNDLE)
        ]

    batches = iter([groups() for _ in range(RUNS + 1)])
    return await rate(child, lambda: scorer.score_external(next(batches)), COMPLETIONS * count)


def _turned(levels: Sequence[tuple[str, str]], places: int) -> Sequence[tuple[str, str]]:
    """So that all tasks come up equally often in bundles of fewer groups."""
    at = places % len(levels)
    return [*levels[at:], *levels[:at]]


async def kills(child: Child, danger: str) -> tuple[list[float], list[float]]:
    """Elapsed seconds until a text has ended its worker, and from then to an honest answer.

    Each of the three requests has a worker of its own.
    """
    question = made(1, [("bf", "easy")], 1)[0].question
    author = public_key(1)

    def item(text: str) -> list[list[object]]:
        return [[author, "bf", "easy", question.index, question.text, False, [[text, "stop"]]]]

    ended, back = [], []
    for _ in range(KILLS):
        await child.work("score", item(question.answer), 60, 1.0, apart=True)
        started = time.perf_counter()
        try:
            await child.work("score", item(danger), 60, 1.0, apart=True)
        except WorkKilled:
            killed = time.perf_counter()
        await child.work("score", item(question.answer), 60, 1.0, apart=True)
        ended.append(killed - started)
        back.append(time.perf_counter() - killed)
    return ended, back


def percentiles(seconds: Sequence[float]) -> str:
    """p50 and p99 in milliseconds."""
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return f"{1e3 * cuts[49]:.0f} / {1e3 * cuts[98]:.0f}"


def measured() -> str:
    """The tables, as Markdown."""
    child, strangers = child_of("swarmnode.scoring"), itertools.count(1)
    try:
        rates = asyncio.run(throughput(child, strangers))
        slowest = asyncio.run(by_task(child, strangers))
    finally:
        child.close_now()
    parts = [rates, slowest, killed(), asyncio.run(verified(child_of, cpu_seconds))]
    load = os.getloadavg()[0]
    return "\n\n".join([*parts, f"Load at the end: {load:.1f} on {os.cpu_count()} cores."])


async def throughput(child: Child, strangers: Iterator[int]) -> str:
    """Completions by CPU second on the mix of nine tasks."""
    rows = []
    for level in LEVELS:
        levels = [(task, level) for task in NINE]
        figures = [
            await cached(child, levels, GROUPS),
            await uncached(child, levels, GROUPS, strangers, trusting=True),
            await uncached(child, levels, GROUPS, strangers, trusting=False),
        ]
        rows.append([level, *(f"{figure:,.0f}" for figure in figures)])
    names = ["level", "cached", "uncached", f"a worker for each bundle of {BUNDLE} groups"]
    return table(names, rows)


async def by_task(child: Child, strangers: Iterator[int]) -> str:
    """The same of each task on its own."""
    rows = []
    for task in NINE:
        row = [task]
        for level in LEVELS:
            one, count = [(task, level)], GROUPS_OF_A_TASK
            row.append(f"{await cached(child, one, count):,.0f}")
            row.append(f"{await uncached(child, one, count, strangers, trusting=True):,.0f}")
        rows.append(row)
    return table(["task", "easy, cached", "uncached", "paper, cached", "uncached"], rows)


def killed() -> str:
    """Of `KILLS` kills each."""
    rows = []
    child = child_of("tests.security.dangerous_scoring")
    try:
        asyncio.run(Scorer(child, Rewards()).draw(public_key(1), "bf", "easy", 0, 1))
        for danger, name in (("leave", "ends the worker"), ("hang", "never ends")):
            before = cpu_seconds(child)
            ended, back = asyncio.run(kills(child, danger))
            cost = 1e3 * (cpu_seconds(child) - before) / KILLS
            rows.append([name, percentiles(ended), percentiles(back), f"{cost:.0f}"])
    finally:
        child.close_now()
    names = ["a completion that", "until it is killed", "then, to an honest answer"]
    return table([*names, "CPU ms, with an honest answer before and after"], rows)


def main() -> None:
    """Measure, print, and write the page."""
    figures = measured()
    print(figures)
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{figures}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
