"""The tables of docs/results/dpo.md, from the rows of the seeds. Pure but for `make_page`.

The seed is the unit of observation: a start, its two trainings, one difference.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from swarmnode.files import write_atomically
from tests.benchmarks.dpo_protocol import CHOICES, RATES, Method
from tests.benchmarks.sharing_markdown import decimal, fill, percent, points, rate, table
from tests.benchmarks.sharing_statistics import Estimate, estimate
from tests.benchmarks.short_tables import NOT_RUN

RESULTS = Path("docs") / "results" / "dpo.json"
PAGE = Path("docs") / "results" / "dpo.md"

Row = dict[str, Any]
"""What dpo_baseline.py keeps of a seed; comparisons are documents of `swarmnode compare --json`."""
Compared = Mapping[str, Any]

FIGURES: Mapping[str, str] = {
    "success": "sampled answers right",
    "greedy": "greedy answers right",
}
LENGTHS: Mapping[str, str] = {"tokens": "tokens an answer", "characters": "characters an answer"}


def best_rate(rows: Sequence[Row], method: Method, rates: Sequence[float]) -> float:
    """The rate of the highest held-out success, mean over seeds; the smaller of two equals."""
    reached = tried_rates(rows, method, rates)
    return max(rates, key=lambda rate: (reached[str(rate)], -rate))


def tried_rates(rows: Sequence[Row], method: Method, rates: Sequence[float]) -> Mapping[str, float]:
    """Held-out success that each rate reached, mean over seeds."""
    return {
        str(rate): sum(_success(row[method][str(rate)]["against_start"]) for row in rows)
        / len(rows)
        for rate in rates
    }


def render(rows: Sequence[Row]) -> dict[str, str]:
    """The page's blocks; links to files only where these are."""
    made: Mapping[str, Callable[[], str]] = {
        "state": lambda: f"Over the seeds {', '.join(str(row['seed']) for row in rows)}.",
        "methods": lambda: _methods(rows),
        "judges": lambda: _judges(rows),
        "costs": lambda: _costs(rows),
        "guard-rails": lambda: _rails(rows),
        "rows": lambda: f"Rows of every seed: [{RESULTS.name}]({RESULTS.name}).",
    }
    blocks = {name: make() if rows else NOT_RUN for name, make in made.items()}
    return {**blocks, "rates": _rates()}


def make_page(rows: Sequence[Row], into: Path | None = None) -> None:
    """Write the tables into the page, or another one like it."""
    write_atomically(into or PAGE, fill(PAGE.read_text("utf-8"), render(rows), "dpo"))


def verdict(primary: Estimate) -> str:
    """What the interval says of the article's claim."""
    if primary.low > 0:
        return "confirmed: GRPO is better"
    return "contradicted: DPO is better" if primary.high < 0 else "not decided"


def _rates() -> str:
    """What was tried on the development seeds, and what was taken."""
    if not CHOICES.exists():
        return NOT_RUN
    found = json.loads(CHOICES.read_text("utf-8"))
    lines = [
        [method, rate(float(tried)), percent(success), "taken" * (float(tried) == taken)]
        for method, taken in found["chosen"].items()
        for tried, success in found["tried"][method].items()
    ]
    edges = [
        method
        for method, taken in found["chosen"].items()
        if taken in (min(RATES[method]), max(RATES[method]))
    ]
    warning = f"\n\nAt the edge of what was tried: {', '.join(edges)}." if edges else ""
    return table(["method", "rate", "held-out success, %", ""], lines) + warning


def _judges(rows: Sequence[Row]) -> str:
    """What the reward models were worth that paid the third arm."""
    lines = [
        [
            *(str(row["seed"]), str(row["judged"]["steps"]), percent(row["judged"]["accuracy"])),
            decimal(math.nan if (found := row["judged"]["length_correlation"]) is None else found),
        ]
        for row in rows
    ]
    return table(["seed", "steps", "held-out pairs decided, %", "score with length"], lines)


def _only(row: Row, method: Method) -> Mapping[str, Any]:
    ((_, figures),) = row[method].items()
    found: Mapping[str, Any] = figures
    return found


def _success(document: Compared) -> float:
    return float(document["mean"]["success"]["a"]["mean"])


def _comparisons(rows: Sequence[Row]) -> list[tuple[str, list[Compared]]]:
    return [
        ("GRPO - DPO", [row["grpo_against_dpo"] for row in rows]),
        ("GRPO - start", [_only(row, "grpo")["against_start"] for row in rows]),
        ("DPO - start", [_only(row, "dpo")["against_start"] for row in rows]),
        ("GRPO by reward model - DPO", [row["judged"]["against_dpo"] for row in rows]),
        ("GRPO by reward model - start", [row["judged"]["against_start"] for row in rows]),
    ]


def _methods(rows: Sequence[Row]) -> str:
    lines = []
    for name, documents in _comparisons(rows):
        for figure, words in {**FIGURES, **LENGTHS}.items():
            shown = _percents if figure in FIGURES else _numbers
            lines.append([name, words, *shown([each["mean"][figure] for each in documents])])
    head = ["arms", "figure", "first", "second", "difference", "95 % interval over seeds"]
    primary = estimate([_gap(row["grpo_against_dpo"]["mean"]["success"]) for row in rows])
    return f"{table(head, lines)}\n\nThe claim is {verdict(primary)}."


def _gap(figure: Mapping[str, Any]) -> float:
    return float(figure["difference"]["mean"])


def _percents(figures: Sequence[Mapping[str, Any]]) -> list[str]:
    return _cells(figures, percent, points)


def _numbers(figures: Sequence[Mapping[str, Any]]) -> list[str]:
    return _cells(figures, "{:.2f}".format, "{:+.2f}".format)


def _cells(
    figures: Sequence[Mapping[str, Any]],
    shown: Callable[[float], str],
    signed: Callable[[float], str],
) -> list[str]:
    found = estimate(list(map(_gap, figures)))
    means = [sum(each[side]["mean"] for each in figures) / len(figures) for side in ("a", "b")]
    ends = f"{signed(found.low)} to {signed(found.high)}"
    return [*map(shown, means), signed(found.mean), ends]


def _costs(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        grpo, dpo = _only(row, "grpo"), _only(row, "dpo")
        lines.append(
            [
                *(str(row["seed"]), str(grpo["steps"]), f"{grpo['tokens']:,}"),
                *(str(dpo["steps"]), f"{dpo['tokens']:,}", str(dpo["pairs"])),
                *(f"{dpo['epochs']:.1f}", f"{dpo['margin']:.2f}", str(row["seconds"])),
            ]
        )
    head = ["seed", "steps, GRPO", "answers' tokens, GRPO", "steps, DPO", "tokens, DPO"]
    return table([*head, "pairs", "epochs", "margin", "seconds"], lines)


def _rails(rows: Sequence[Row]) -> str:
    """In how many seeds a guard-rail would have warned of an arm, had it been like the other."""
    documents = [row["grpo_against_dpo"]["guard_rails"] for row in rows]
    names = sorted({name for each in documents for name in each})
    lines = []
    for name in names:
        known = [each[name] for each in documents if name in each]
        means = [_mean([rail[side] for rail in known]) for side in ("a", "b")]
        warned = [
            str(sum(rail[f"verdict_{side}"] != "normal" for rail in known)) for side in ("a", "b")
        ]
        lines.append([f"`{name}`", *means, *warned])
    return table(["guard-rail", "GRPO", "DPO", "warns of GRPO", "warns of DPO"], lines)


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.3f}" if known else "–"
