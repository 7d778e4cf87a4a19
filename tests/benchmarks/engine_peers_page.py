"""The generated part of docs/results/speed.md about whole rounds: its tables, by name. Pure text.

Only rounds of the full size are shown, 8 questions with 8 completions. What was not measured yet is
UNKNOWN, or left out; a bound that a measured figure misses says so.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from tests.benchmarks.engine_peers_rows import (
    OURS,
    SWEEP,
    Pair,
    Run,
    Shape,
    best_micro_batch,
    median_ratio,
    pairs,
)
from tests.benchmarks.sharing_markdown import UNKNOWN, decimal, fill, table, whole

STUDY = "engine-peers"
FULL = (8, 8)
TIMES = {"trl": 2.5, "genrl": 4.0}
"""How many times our CPU seconds a peer has to take, by its name without micro-batch."""
NAMES = {OURS: "swarmnode", "trl": "TRL 1.16.0", "genrl": "genrl 0.3.0"}


def fill_page(page: str, runs: Sequence[Run]) -> str:
    """The page with the tables of these runs. ValueError where it lacks their markers."""
    return fill(page, render(runs), STUDY)


def render(runs: Sequence[Run]) -> dict[str, str]:
    """Every table by its name."""
    full = [run for run in runs if (run.shape.questions, run.shape.completions) == FULL]
    return {name: block(full) for name, block in BLOCKS.items()}


def ratios(runs: Sequence[Run]) -> str:
    """Each peer against ours, within pairs."""
    lines = []
    for shape, peer in _compared(runs):
        found = pairs(runs, shape, peer)
        set_as = next(
            (run.contestant for run in runs if _is_of(run, shape, peer)),
            peer,
        )
        start = [_length(shape), contestant_name(set_as), str(len(found))]
        if not found:
            lines.append([*start, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, _why_not(runs, shape, peer)])
            continue
        each = sorted(pair.ratio for pair in found)
        bound = TIMES[peer.partition("-")[0]]
        lines.append(
            [
                *start,
                f"**{decimal(median_ratio(found))}**",
                f"{decimal(each[0])} to {decimal(each[-1])}",
                decimal(statistics.median(pair.wall_ratio for pair in found)),
                decimal(_memory_ratio(found)),
                _verdict(median_ratio(found) >= bound, bound, _memory_ratio(found) <= 1),
            ]
        )
    head = ["new tokens", "against", "pairs", "times our CPU seconds", "in single pairs"]
    return table([*head, "times by the clock", "our peak memory / its", ""], lines)


def rounds(runs: Sequence[Run]) -> str:
    """What a round takes, medians over all runs in pairs."""
    lines = []
    for shape, contestant in _contestants(runs):
        found = [run for run in _measured(runs) if _took_part(run, shape, contestant)]

        def median(of: Callable[[Run], float], found: Sequence[Run] = found) -> float:
            return statistics.median(map(of, found))

        lines.append(
            [
                _length(shape),
                contestant_name(contestant),
                str(len(found)),
                f"**{decimal(median(lambda run: run.cpu_seconds), 1)}**",
                decimal(median(lambda run: run.phases["generate"].cpu_seconds), 1),
                decimal(median(lambda run: run.phases["train"].cpu_seconds), 1),
                decimal(median(lambda run: run.wall_seconds), 1),
                whole(median(lambda run: run.figures["peak_mib"])),
                whole(median(lambda run: run.figures["completion_tokens"])),
                decimal(median(_tokens_a_second), 1),
            ]
        )
    head = ["new tokens", "", "runs", "CPU s", "generate", "the rest", "by the clock, s"]
    return table([*head, "peak MiB", "tokens sampled", "a CPU second"], lines)


def limits(runs: Sequence[Run]) -> str:
    """How far the machine's rates, measured by each process before its round, explain a round."""
    lines = []
    for shape, contestant in _contestants(runs):
        found = [run for run in _measured(runs) if _took_part(run, shape, contestant)]
        cells = []
        for name in ("generate", "train"):
            flops = statistics.median(run.phases[name].tera_flops for run in found)
            products = statistics.median(_product_share(run, name) for run in found)
            cells += [decimal(flops), _share(products)]
        reading = statistics.median(_reading_share(run) for run in found)
        lines.append(
            [_length(shape), contestant_name(contestant), *cells[:2], _share(reading), *cells[2:]]
        )
    head = ["new tokens", "", "generate: TFLOP", "of the products' rate"]
    return table([*head, "of reading weights", "the rest: TFLOP", "of the products' rate"], lines)


def sweep(runs: Sequence[Run]) -> str:
    """TRL's micro-batches."""
    lines = []
    for run in runs:
        if run.against == SWEEP:
            measured = run.outcome == "measured"
            chosen = run.contestant == best_micro_batch(runs, run.shape)
            lines.append(
                [
                    _length(run.shape),
                    contestant_name(run.contestant),
                    decimal(run.cpu_seconds, 1) if measured else UNKNOWN,
                    whole(run.figures["peak_mib"]),
                    "chosen" if chosen else "" if measured else "more memory than there is",
                ]
            )
    return table(["new tokens", "", "CPU s", "peak MiB", ""], lines)


def conditions(runs: Sequence[Run]) -> str:
    """When, how long, on what."""
    if not runs:
        return "Not measured yet."
    began = sorted(run.began for run in runs)
    seconds = sum(run.figures["seconds"] for run in runs)
    rates = [run.figures for run in _measured(runs)]
    text = [f"{len(runs)} runs, {whole(seconds / 60)} minutes in all, loading included"]
    text += [f"between {began[0][:16]} and {began[-1][:16]}"]
    if rates:
        gflops = sorted(each["sgemm_gflops"] for each in rates)
        read = sorted(each["read_gigabytes"] for each in rates)
        load = sorted(each["load"] for each in rates)
        text += [
            f"a CPU second multiplied at {_range(gflops, 0)} GFLOP/s and read at "
            f"{_range(read, 1)} GB/s",
            f"load average {_range(load, 1)}",
        ]
    return "; ".join(text) + "."


BLOCKS: Mapping[str, Callable[[Sequence[Run]], str]] = {
    "ratios": ratios,
    "rounds": rounds,
    "limits": limits,
    "sweep": sweep,
    "conditions": conditions,
}


def contestant_name(contestant: str) -> str:
    """As tables call it."""
    name, _, size = contestant.partition("-")
    if name == OURS:
        return NAMES[OURS]
    settings = f"micro-batch {size}" if size else "as it comes"
    return f"{NAMES[name]}, {settings}"


def _compared(runs: Sequence[Run]) -> list[tuple[Shape, str]]:
    return list(dict.fromkeys((run.shape, run.against) for run in runs if run.against != SWEEP))


def _contestants(runs: Sequence[Run]) -> list[tuple[Shape, str]]:
    in_pairs = [run for run in _measured(runs) if run.against != SWEEP]
    return list(dict.fromkeys((run.shape, run.contestant) for run in in_pairs))


def _measured(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.outcome == "measured"]


def _took_part(run: Run, shape: Shape, contestant: str) -> bool:
    return run.shape == shape and run.contestant == contestant and run.against != SWEEP


def _is_of(run: Run, shape: Shape, peer: str) -> bool:
    return run.shape == shape and run.against == peer and run.contestant != OURS


def _why_not(runs: Sequence[Run], shape: Shape, peer: str) -> str:
    failed = any(_is_of(run, shape, peer) and run.outcome != "measured" for run in runs)
    return "more memory than there is" if failed else "no pair is whole yet"


def _memory_ratio(found: Sequence[Pair]) -> float:
    return statistics.median(
        pair.ours.figures["peak_mib"] / pair.theirs.figures["peak_mib"] for pair in found
    )


def _verdict(fast_enough: bool, bound: float, small_enough: bool) -> str:
    speed = f"at least {bound:g}: {'met' if fast_enough else '**not met**'}"
    return f"{speed}; no more memory: {'met' if small_enough else '**not met**'}"


def _length(shape: Shape) -> str:
    length = f"{shape.new_tokens}" if shape.forced else f"up to {shape.new_tokens}"
    return length if shape.threads == 1 else f"{length}, {shape.threads} threads"


def _tokens_a_second(run: Run) -> float:
    return run.figures["completion_tokens"] / run.cpu_seconds


def _product_share(run: Run, name: str) -> float:
    phase = run.phases[name]
    return 1e3 * phase.tera_flops / run.figures["sgemm_gflops"] / phase.cpu_seconds


def _reading_share(run: Run) -> float:
    phase = run.phases["generate"]
    gigabytes = 1e-9 * run.figures["weight_bytes"] * phase.passes
    return gigabytes / run.figures["read_gigabytes"] / phase.cpu_seconds


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"


def _range(values: Sequence[float], digits: int) -> str:
    low, high = decimal(values[0], digits), decimal(values[-1], digits)
    return low if low == high else f"{low} to {high}"
