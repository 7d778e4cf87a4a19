"""The tables of numbers on the study's page: each a function from the runs to Markdown.

Successes are in percent, differences in points, which are absolute percent points of held-out
success. Every table names its seeds; what has not been run says so.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from tests.benchmarks.sharing_markdown import (
    UNKNOWN,
    arrow,
    decimal,
    mean,
    percent,
    points,
    rate,
    table,
    whole,
)
from tests.benchmarks.sharing_runs import NOT_RUN, Runs, change, compared, counted, gain
from tests.benchmarks.sharing_statistics import (
    Row,
    by_seed,
    choose_rate,
    estimate,
    held_out_end,
)


def arms(runs: Runs) -> str:
    """What each arm is."""
    return table(("arm", "what it is"), list(runs.protocol.arms.items()))


def answer(runs: Runs) -> str:
    """Every arm against the reference, then sharing against each control: two Holm families."""
    protocol = runs.protocol
    if not runs.present("main"):
        return NOT_RUN
    by_arm = {name: runs.of(name) for name in protocol.arms}
    sharing = by_arm.get(protocol.sharing, [])
    rivals = [by_arm.get(name, []) for name in protocol.controls]
    against = compared([(sharing, rival) for rival in rivals])
    lines = [
        (name, change(rival, "held_out"), *cells)
        for name, rival, cells in zip(protocol.controls, rivals, against, strict=True)
    ]
    head = ("control", "held-out success, %", f"{protocol.sharing} less it, points", "p (Holm)")
    return "\n\n".join(
        [
            _against_reference(runs, by_arm, tested=True),
            f"{runs.caption(by_arm)} Success is the mean over seeds at the start → over the last "
            "tenth of the rounds. In brackets: 95 % intervals by Student's t over seeds. "
            "Differences are paired by seed; p is of the paired t-test, adjusted by Holm over the "
            "comparisons of the table.",
            f"{protocol.sharing}, {change(sharing, 'held_out')}, against each control:",
            table(head, lines),
        ]
    )


def _against_reference(
    runs: Runs, by_arm: Mapping[str, Sequence[Row]], *, tested: bool = False
) -> str:
    """With p only where the protocol names the comparison a test."""
    reference = runs.protocol.reference
    others = [name for name in by_arm if name != reference]
    pairs = [(by_arm[name], by_arm.get(reference, [])) for name in others]
    cells = dict(zip(others, compared(pairs), strict=True))
    lines = [
        (name, change(rows, "held_out"), gain(rows), *cells.get(name, (UNKNOWN, UNKNOWN)))
        for name, rows in by_arm.items()
    ]
    head = ("arm", "held-out success, %", "gain, points", f"less {reference}, points", "p (Holm)")
    columns = len(head) if tested else len(head) - 1
    return table(head[:columns], [line[:columns] for line in lines])


def raw(runs: Runs) -> str:
    """Held-out success of every main run."""
    present = runs.present("main")
    if not present:
        return NOT_RUN
    seeds = sorted({row["seed"] for rows in present.values() for row in rows})
    starts: dict[int, dict[str, None]] = {seed: {} for seed in seeds}
    lines = []
    for name, rows in present.items():
        found = by_seed(rows)
        ends = [percent(held_out_end(found[s]), 2) if s in found else UNKNOWN for s in seeds]
        lines.append((name, *ends))
        for row in rows:
            starts[row["seed"]][percent(row["held_out"]["start"], 2)] = None
    lines.insert(0, ("start, every arm", *(" or ".join(starts[seed]) for seed in seeds)))
    caption = "Held-out success in percent over the last tenth of the rounds, each run by itself."
    head = ("arm", *(f"seed {seed}" for seed in seeds))
    return "\n\n".join([table(head, lines), f"{runs.caption(present)} {caption}"])


def rates(runs: Runs) -> str:
    """The development runs by arm and learning rate, and what was chosen."""
    protocol = runs.protocol
    rows = [row for row in runs.rows if row["stage"] == "development"]
    if not rows:
        return NOT_RUN
    lines = []
    for arm in dict.fromkeys([*protocol.arms, *(row["arm"] for row in rows)]):
        best, chosen = _chosen(runs, rows, arm)
        cells = []
        for each in protocol.rates:
            found = by_seed(r for r in rows if (r["arm"], r["learning_rate"]) == (arm, each))
            ends = [held_out_end(row) for row in found.values()]
            cell = f"**{mean(ends, percent)}**" if each == best else mean(ends, percent)
            cells.append(f"{cell} ({', '.join(map(percent, ends))})" if ends else UNKNOWN)
        lines.append((arm, *cells, chosen))
    seeds = ", ".join(map(str, protocol.development_seeds))
    caption = (
        "Held-out success in percent over the last tenth of the rounds: the mean over the "
        f"development seeds {seeds}, and each of them. Bold: the chosen rate."
    )
    head = ("arm", *(f"rate {rate(each)}" for each in protocol.rates), "chosen")
    return "\n\n".join([table(head, lines), caption])


def _chosen(runs: Runs, rows: Sequence[Row], arm: str) -> tuple[float | None, str]:
    """The rate that the development runs choose, and the cell that tells of it."""
    best, text = None, "runs are missing"
    protocol = runs.protocol
    done = {(r["learning_rate"], r["seed"]) for r in rows if r["arm"] == arm}
    tried = sorted({each for each, _ in done})
    wanted = {(each, seed) for each in tried for seed in protocol.development_seeds}
    if len(tried) > 1 and wanted <= done:
        choice = choose_rate(rows, arm, tried, protocol.development_seeds)
        best = choice.rate
        text = rate(best) + (", at the edge of the grid" if choice.at_edge else "")
    used = sorted({row["learning_rate"] for row in runs.of(arm)} - {best})
    return best, f"{text}; main runs used {', '.join(map(rate, used))}" if used else text


def mixes(runs: Runs) -> str:
    """From no sharing to mostly sharing, over the seeds that the runs of stage mixes have."""
    seeds = {row["seed"] for rows in runs.present("mixes").values() for row in rows}
    if not seeds:
        return NOT_RUN
    both = {name: (runs.of(name), runs.of(name, "mixes")) for name in runs.protocol.mixes}
    by_arm = {
        name: [row for row in main or other if row["seed"] in seeds]
        for name, (main, other) in both.items()
    }
    caption = f"Over {counted(len(seeds), 'seed')} ({', '.join(map(str, sorted(seeds)))})."
    return "\n\n".join([_against_reference(runs, by_arm), caption])


def long(runs: Runs) -> str:
    """Held-out success at quarters of the long runs, each run by itself, then the differences."""
    present = runs.present("long")
    if not present:
        return NOT_RUN
    every = [row for rows in present.values() for row in rows]
    quarters = _quarters(every)
    lines = [
        (
            row["arm"],
            str(row["seed"]),
            percent(row["held_out"]["start"]),
            *(percent(_held_out_at(row, quarter)) for quarter in quarters),
            percent(held_out_end(row)),
        )
        for row in every
    ]
    head = ("arm", "seed", "start", *(f"round {quarter}" for quarter in quarters), "last tenth")
    blocks = [table(head, lines), f"{runs.caption(present)} Held-out success in percent."]
    if runs.protocol.reference in present:
        blocks.append(_against_reference(runs, present))
    return "\n\n".join(blocks)


def _quarters(rows: Iterable[Row]) -> Sequence[int]:
    """The evaluated rounds nearest to the quarters of the longest run."""
    rounds = {number for row in rows for number in row["curve"]["rounds"]}
    if not rounds:
        return ()
    aims = [max(rounds) * quarter / 4 for quarter in (1, 2, 3)]
    return list(dict.fromkeys(min(rounds, key=lambda each: abs(each - aim)) for aim in aims))


def _held_out_at(row: Row, number: int) -> float:
    """NaN where this round was not evaluated."""
    curve = dict(zip(row["curve"]["rounds"], row["curve"]["held_out"], strict=True))
    return curve.get(number, math.nan)


def tasks(runs: Runs) -> str:
    """Success per task beside what the best constant answer reaches."""
    present = runs.present("main")
    if not present:
        return NOT_RUN
    lines = []
    for task in runs.protocol.tasks:
        constant = runs.protocol.baselines.get(task)
        cells = [_task_cell(rows, task, constant) for rows in present.values()]
        lines.append((f"`{task}`", UNKNOWN if constant is None else percent(constant), *cells))
    caption = (
        "Held-out success in percent, start → end. Bold: the whole 95 % interval over seeds of the "
        "end lies above the best constant answer."
    )
    head = ("task", "best constant answer", *present)
    return "\n\n".join([table(head, lines), f"{runs.caption(present)} {caption}"])


def _task_cell(rows: Sequence[Row], task: str, constant: float | None) -> str:
    found = [row["by_task"][task] for row in rows if task in row["by_task"]]
    text = arrow([each["start"] for each in found], [each["end"] for each in found])
    ends = [each["end"] for each in found if math.isfinite(each["end"])]
    above = constant is not None and estimate(ends).low > constant
    return f"**{text}**" if above else text


def costs(runs: Runs) -> str:
    """What each arm asked, generated and trained on."""
    present = runs.present("main")
    if not present:
        return NOT_RUN
    generated = {n: [row["tokens_generated"] for row in rows] for n, rows in present.items()}
    reference = statistics.fmean(generated.get(runs.protocol.reference, [math.nan]))
    lines = [
        (
            name,
            mean([row["questions"] for row in rows], decimal),
            mean([row["live_own"] for row in rows], decimal),
            mean([row["live_external"] for row in rows], decimal),
            mean([row["steps"] for row in rows], whole),
            mean(generated[name], whole),
            mean([each / reference for each in generated[name]], decimal),
            mean([row["tokens_trained"] for row in rows], whole),
        )
        for name, rows in present.items()
    ]
    head = (
        *("arm", "questions", "live groups, own", "live groups, external", "steps"),
        *("tokens generated", f"times {runs.protocol.reference}'s", "tokens trained on"),
    )
    caption = (
        "Questions asked and live groups trained on are means per node and round; steps and tokens "
        "are totals of a node."
    )
    return "\n\n".join([table(head, lines), f"{runs.caption(present)} {caption}"])


def selection(runs: Runs) -> str:
    """The successes that must not be confused, side by side."""
    present = runs.present("main")
    if not present:
        return NOT_RUN
    lines = [
        (
            name,
            mean([row["local_end"] for row in rows], percent),
            mean([row["training_set_end"] for row in rows], percent),
            mean([row["training_set_end"] - row["local_end"] for row in rows], points),
            mean([held_out_end(row) for row in rows], percent),
            change(rows, "greedy"),
        )
        for name, rows in present.items()
    ]
    caption = (
        "Success in percent over the last tenth of the rounds. The selection effect is what the "
        "training set holds above a node's own fresh answers: chosen, not learned."
    )
    head = (
        *("arm", "local", "training set", "selection effect, points", "held out, sampled"),
        "held out, greedy, start → end",
    )
    return "\n\n".join([table(head, lines), f"{runs.caption(present)} {caption}"])


def forgetting(runs: Runs) -> str:
    """What became of the own specialty, and of the policy's entropy."""
    present = runs.present("main")
    if not present:
        return NOT_RUN
    lines = []
    for name, rows in present.items():
        entropy = [row["entropy"] for row in rows]
        starts, ends = [each["start"] for each in entropy], [each["end"] for each in entropy]
        cells = (change(rows, "own_tasks"), change(rows, "other_tasks"))
        lines.append((name, *cells, arrow(starts, ends, decimal)))
    caption = (
        "Start → end. Held-out success in percent on the tasks that a node's own warm start taught "
        "and on the others. Entropy in nats per trained token, over the first → the last tenth of "
        "the rounds; arms train on different tokens, so that it tells little across arms."
    )
    head = ("arm", "own tasks", "other tasks", "entropy")
    return "\n\n".join([table(head, lines), f"{runs.caption(present)} {caption}"])
