"""`make bench NAME=engine ARGUMENTS=peers`: a whole round against TRL 1.16 and genrl 0.3.0.

SmolLM2-135M in float32 on the CPU, 8 questions of the nine tasks with 8 completions each: sampling,
reward, one update. Every run has a process of its own; pairs of ours and a peer's take turns, and
first TRL's micro-batch is chosen. All of it takes hours (docs/results/speed.md says how many). What
was measured is kept in docs/results/engine.json, and the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from swarmnode.files import write_atomically
from swarmnode.paths import MODELS_FOLDER, cache_folder
from swarmnode.policy.names import UnusableModel
from tests.benchmarks.engine_peers_child import Failed, run_contestant
from tests.benchmarks.engine_peers_environment import NotToBeHad, genrl_python
from tests.benchmarks.engine_peers_page import fill_page
from tests.benchmarks.engine_peers_rows import (
    OURS,
    SWEEP,
    Phase,
    Run,
    Shape,
    as_json,
    best_micro_batch,
    from_json,
    with_run,
)
from tests.benchmarks.engine_peers_work import Work, questions_of_round

RESULTS = Path("docs") / "results"
ROWS = RESULTS / "engine.json"
PAGE = RESULTS / "speed.md"
SECTION = "peers"
TRL = "trl"
GENRL = "genrl"
PEERS = (TRL, GENRL, "genrl-16")
MICRO_BATCHES = (8, 16, 64)
PAIRS = {24: 5, 128: 3}
FORCED_UP_TO = 24
"""New tokens up to which every completion is made that long; longer ones end where they end."""


@dataclass(frozen=True, slots=True)
class Step:
    """A run of the sweep, or a pair that is done together."""

    shape: Shape
    against: str
    pair: int
    contestants: tuple[str, ...]


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """The command's options. SystemExit with 2 for others."""
    parser = argparse.ArgumentParser("engine peers", description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--peers", nargs="+", default=list(PEERS), help="trl, trl-N, genrl, genrl-N: micro-batch N")
    add("--tokens", nargs="+", type=int, default=sorted(PAIRS), help="new tokens")
    add("--pairs", type=int, help="pairs of each peer, instead of 5 at 24 tokens and 3 at 128")
    add("--sweep", nargs="*", type=int, default=list(MICRO_BATCHES), help="micro-batches for trl")
    add("--threads", type=int, default=1, help="threads of every contestant")
    add("--minutes", type=float, help="begin no pair that, by earlier runs, lasts longer")
    add("--questions", type=int, default=8)
    add("--completions", type=int, default=8)
    add("--model", type=Path, help="a Hugging Face folder, instead of smollm2-135m")
    add("--rows", type=Path, default=ROWS, help="where runs are kept; others make no page")
    add("--page", action="store_true", help="only make the page of what was measured")
    options = parser.parse_args(given)
    for peer in options.peers:
        if peer not in (TRL, GENRL) and not _micro_batch(peer):
            parser.error(f"no such peer: {peer}; there are trl, trl-N, genrl, genrl-N")
    return options


def _micro_batch(peer: str) -> int | None:
    name, _, size = peer.partition("-")
    return int(size) if name in (TRL, GENRL) and size.isdecimal() and int(size) else None


def steps(options: argparse.Namespace) -> Iterator[Step]:
    """What is to be run, in order: the sweep, then a pair of each kind, then the next."""
    if TRL in options.peers:
        for size in options.sweep:
            yield Step(sweep_shape(options), SWEEP, 0, (f"{TRL}-{size}",))
    counts = {tokens: options.pairs or PAIRS.get(tokens, 3) for tokens in options.tokens}
    for pair in range(max(counts.values())):
        for tokens, count in counts.items():
            for peer in options.peers:
                if pair < count:
                    yield Step(shape_of(options, tokens), peer, pair, (OURS, peer))


def shape_of(options: argparse.Namespace, tokens: int) -> Shape:
    """The round at this many new tokens."""
    return Shape(
        new_tokens=tokens,
        forced=tokens <= FORCED_UP_TO,
        questions=options.questions,
        completions=options.completions,
        threads=options.threads,
    )


def sweep_shape(options: argparse.Namespace) -> Shape:
    """Where the sweep chooses a micro-batch, for longer rounds as well."""
    return shape_of(options, min(FORCED_UP_TO, *options.tokens))


def resolved(step: Step, runs: Sequence[Run], swept: Shape) -> Step:
    """The step with the micro-batch that the sweep chose. LookupError where it chose none."""
    if step.against != TRL:
        return step
    best = best_micro_batch(runs, swept)
    if best is None:
        raise LookupError("trl needs its sweep of micro-batches, or a micro-batch: trl-8")
    return replace(step, contestants=(OURS, best))


def is_done(step: Step, runs: Sequence[Run]) -> bool:
    """Whether it was measured, or can't be because its last contestant ran out of memory."""
    last = step.contestants[-1]
    return any(
        run.contestant == last
        and run.shape == step.shape
        and (run.outcome == "out of memory" or (run.against, run.pair) == (step.against, step.pair))
        for run in runs
    )


def expected_seconds(step: Step, runs: Sequence[Run]) -> float:
    """As long as its contestants took the last time at as many tokens; 0 where nobody knows."""
    known = {run.contestant: run.figures["seconds"] for run in runs if run.shape == step.shape}
    return sum(known.get(each, 0.0) for each in step.contestants)


def read_document(path: Path) -> dict[str, Any]:
    """The whole file; other sections than ours belong to others."""
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


def read_runs(path: Path) -> list[Run]:
    """What was measured so far."""
    return [from_json(values) for values in read_document(path).get(SECTION, [])]


def write_run(path: Path, run: Run) -> None:
    """Put a run in the place of an older one of its kind."""
    document = read_document(path)
    document[SECTION] = [as_json(each) for each in with_run(read_runs(path), run)]
    write_atomically(path, _text(document))


def _text(document: dict[str, Any]) -> str:
    """JSON with one run a line."""
    parts = []
    for name, section in document.items():
        text = json.dumps(section, allow_nan=False)
        if isinstance(section, list):
            lines = (json.dumps(each, allow_nan=False) for each in section)
            text = "[\n" + ",\n".join(lines) + "\n]"
        parts.append(f"{json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def measure(step: Step, contestant: str, model: Path, python: Path) -> Run:
    """Run one contestant. Raises Failed."""
    shape = step.shape
    began = time.strftime("%Y-%m-%d %H:%M:%S")
    answer = run_contestant(
        Work(
            contestant=contestant,
            model_folder=str(model),
            prompts=questions_of_round(step.pair, shape.questions),
            completions=shape.completions,
            new_tokens=shape.new_tokens,
            forced=shape.forced,
            threads=shape.threads,
            seed=step.pair,
        ),
        python,
    )
    place = (contestant, step.against, step.pair, shape)
    if answer.result is None:
        figures = {"peak_mib": answer.peak_mib, "seconds": answer.seconds}
        return Run(*place, "out of memory", {}, figures, began)
    phases = {name: Phase(**each) for name, each in answer.result["phases"].items()}
    figures = {**answer.result["figures"], "seconds": answer.seconds}
    return Run(*place, "measured", phases, figures, began)


def run_all(options: argparse.Namespace) -> None:
    """Run what is not done yet. Raises Failed, UnusableModel, LookupError."""
    began = time.monotonic()
    model = options.model or _converted_model()
    pythons = _pythons(options.peers)
    for wanted in steps(options):
        runs = read_runs(options.rows)
        step = resolved(wanted, runs, sweep_shape(options))
        if is_done(step, runs) or any(_kind(each) not in pythons for each in step.contestants):
            continue
        spent = time.monotonic() - began
        if options.minutes and spent + expected_seconds(step, runs) > 60 * options.minutes:
            print("the time is used up; the same command goes on from here")
            return
        for contestant in step.contestants:
            run = measure(step, contestant, model, pythons[_kind(contestant)])
            write_run(options.rows, run)
            print(_line(run), flush=True)


def _kind(contestant: str) -> str:
    return contestant.partition("-")[0]


def _pythons(peers: Sequence[str]) -> dict[str, Path]:
    """The interpreter of each kind of contestant that can be had here."""
    found = {OURS: Path(sys.executable), TRL: Path(sys.executable)}
    if any(_kind(peer) == GENRL for peer in peers):
        try:
            found[GENRL] = genrl_python(cache_folder(os.environ))
        except NotToBeHad as error:
            print(error, file=sys.stderr)
    return found


def _converted_model() -> Path:
    # Brings torch, which the command needs for nothing else.
    from swarmnode.policy.smollm2 import smollm2_folder

    return smollm2_folder(cache_folder(os.environ) / MODELS_FOLDER)


def _line(run: Run) -> str:
    where = f"{run.began[11:]}  {run.shape.new_tokens:4} tokens, {run.against:8} {run.pair}"
    if run.outcome != "measured":
        return f"{where}  {run.contestant:10} {run.outcome} at {run.figures['peak_mib']:.0f} MiB"
    return (
        f"{where}  {run.contestant:10} {run.cpu_seconds:7.1f} CPU s, {run.wall_seconds:7.1f} s, "
        f"{run.figures['peak_mib']:6.0f} MiB"
    )


def main(given: Sequence[str]) -> int:
    """The command; returns its exit code: 1 when a contestant fails, 2 for bad arguments."""
    options = arguments(given)
    code = 0
    try:
        if not options.page:
            run_all(options)
    except LookupError as error:
        print(error, file=sys.stderr)
        code = 2
    except (Failed, UnusableModel) as error:
        print(error, file=sys.stderr)
        code = 1
    if options.rows == ROWS:
        write_atomically(PAGE, fill_page(PAGE.read_text("utf-8"), read_runs(ROWS)))
    return code
