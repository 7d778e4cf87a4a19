"""`make bench NAME=gated_sharing`: does enforcing the log-prob gate leave what sharing gains?

Three arms of the sharing study at their frozen learning rates, under seeds of their own: alone,
sharing as by default (the gate counts), and sharing with the gate enforced. The gate may be
enforced where at least four fifths of the gain over being alone are left (issue 6, Deliver 4).
Writes docs/results/gated-sharing.json and the table of log-prob-gate.md. One run at a time on every
core; a run that is whole in runs/gated_sharing/ is not run again.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from swarmnode.files import write_atomically
from tests.benchmarks.sharing_markdown import decimal, fill, percent, table
from tests.benchmarks.sharing_protocol import (
    BY_NAME,
    REFERENCE_ARM,
    SHARING_ARM,
    StudyArm,
    StudyRun,
    frozen_rates,
)
from tests.benchmarks.sharing_rows import row_of
from tests.benchmarks.sharing_statistics import Estimate, estimate
from tests.benchmarks.short_tables import interval
from tests.benchmarks.studies import run_all
from tests.benchmarks.study_rows import write_rows

OUT = Path("runs") / "gated_sharing"
PAGE = Path("docs") / "results" / "log-prob-gate.md"
ROWS = PAGE.with_name("gated-sharing.json")
SEEDS = (400, 401, 402, 403, 404, 405)
GATED_ARM = "4/4 gated"
KEPT = 0.8
"""Of the gain, the part that has to be left."""

GATED = StudyArm(
    GATED_ARM,
    "sharing by default, with the gate enforced",
    (*BY_NAME[SHARING_ARM].assignments, "selection.log_prob_gate.action=enforce"),
)


class GatedRow(TypedDict):
    """Held-out success of one run over its last tenth, and peers' completions at the gate."""

    arm: str
    seed: int
    end: float
    measured: float
    over: float


def all_runs() -> list[StudyRun]:
    """Every arm under every seed; the gated arm takes the rate of sharing."""
    rates = frozen_rates()
    arms = (BY_NAME[REFERENCE_ARM], BY_NAME[SHARING_ARM], GATED)
    rate = {REFERENCE_ARM: rates[REFERENCE_ARM]}
    return [
        StudyRun("main", arm, rate.get(arm.name, rates[SHARING_ARM]), seed)
        for seed in SEEDS
        for arm in arms
    ]


def gated_row(run: StudyRun) -> GatedRow:
    """The row of a whole run."""
    reports = run.simulated.folder(OUT).read()

    def total(name: str) -> float:
        return sum(report.metrics.get(name, 0.0) for report in reports)

    return GatedRow(
        arm=run.arm.name,
        seed=run.seed,
        end=row_of(run, reports)["held_out"]["end"],
        measured=total("log_prob_gate/measured/same_tokenizer"),
        over=total("log_prob_gate/over/same_tokenizer"),
    )


def ends(rows: Sequence[GatedRow], arm: str) -> Mapping[int, float]:
    """Held-out success at the end, by seed."""
    return {row["seed"]: row["end"] for row in rows if row["arm"] == arm}


def margin(rows: Sequence[GatedRow], kept: float) -> Estimate:
    """Of (gated - alone) - kept · (shared - alone), over seeds: not below 0 where enough is left.

    Linear in the runs, so that its interval holds where that of a ratio of gains would not.
    """
    alone, shared, gated = (ends(rows, arm) for arm in (REFERENCE_ARM, SHARING_ARM, GATED_ARM))
    return estimate(
        [gated[seed] - alone[seed] - kept * (shared[seed] - alone[seed]) for seed in alone]
    )


def verdict(rows: Sequence[GatedRow]) -> str:
    """What the margin says, in words."""
    found = margin(rows, KEPT)
    if math.isnan(found.low):
        return "Too few seeds to say."
    if found.low >= 0:
        return "At least four fifths of the gain are left: the gate may be enforced."
    if found.high < 0:
        return "Less than four fifths of the gain are left: the gate should not be enforced."
    return "These seeds don't tell whether four fifths of the gain are left."


def block(rows: Sequence[GatedRow]) -> str:
    """The table of the page."""
    alone = ends(rows, REFERENCE_ARM)
    lines = []
    for arm in (REFERENCE_ARM, SHARING_ARM, GATED_ARM):
        found, of_arm = ends(rows, arm), [row for row in rows if row["arm"] == arm]
        gain = estimate([found[seed] - alone[seed] for seed in found])
        measured, over = (sum(row[name] for row in of_arm) for name in ("measured", "over"))
        lines.append(
            (
                arm,
                percent(statistics.fmean(found.values())),
                "–" if arm == REFERENCE_ARM else interval(gain),
                f"{over:.0f} of {measured:.0f}",
            )
        )
    left = margin(rows, KEPT)
    head = ("arm", "held-out success, %", f"less {REFERENCE_ARM}, points", "past the gate's limit")
    return "\n\n".join(
        [
            table(head, lines),
            f"Gain with the gate, less {decimal(KEPT, 1)} of the gain without: "
            f"{interval(left)} points, over seeds {', '.join(map(str, sorted(alone)))}. "
            f"{verdict(rows)}",
        ]
    )


def make_page(rows: Sequence[GatedRow]) -> None:
    """Write the block of log-prob-gate.md."""
    text = fill(PAGE.read_text("utf-8"), {"sharing": block(rows)}, "gated")
    write_atomically(PAGE, text)


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code."""
    match list(arguments):
        case ["page"]:
            make_page(json.loads(ROWS.read_text("utf-8")))
            return 0
        case []:
            runs = all_runs()
            if not run_all([run.simulated for run in runs], OUT):
                print("stopped; give the same command to go on")
                return 130
            rows = [gated_row(run) for run in runs]
            write_rows(ROWS, rows)
            make_page(rows)
            return 0
    print("make bench NAME=gated_sharing takes ARGUMENTS=page or none")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
