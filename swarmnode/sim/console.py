"""What a simulation says in a terminal: one line of progress, and the table at the end. Pure.

Numbers are those of summary.py; a figure that does not exist is a dash, never a zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from swarmnode.observe.status import StatusDocument
from swarmnode.observe.words import plain
from swarmnode.sim.against import against_first
from swarmnode.sim.intervals import Estimate
from swarmnode.sim.summary import Variant, mean_reward
from swarmnode.sim.words import (
    alarms,
    suspicious_tasks,
)
from swarmnode.types import RoundReport


def progress_line(
    number: int,
    rounds: int,
    reports: Sequence[RoundReport],
    seconds_elapsed: float,
    *,
    start: float | None = None,
) -> str:
    """One line on round `number` of `rounds`, from the reports of all rounds since the last line.

    Rewards are means over these rounds; held-out success is that of their last evaluation, beside
    that of round 0 if it is given as `start` or among the reports.
    """
    width = len(str(rounds))
    parts = [f"round {number:>{width}}/{rounds}"]
    trained = [report for report in reports if report.round > 0]
    if trained:
        parts.append(f"local {_figure(mean_reward(trained, 'local'))}")
        parts.append(f"training set {_figure(mean_reward(trained, 'training_set'))}")
    held_out = _held_out(reports, start)
    if held_out:
        parts.append(held_out)
    if trained:
        own, peers = (
            sum(report.metrics.get(name, 0.0) for report in trained) / len(trained)
            for name in ("mix/local_live_groups", "mix/external_live_groups")
        )
        parts.append(f"live {own:.1f} own + {peers:.1f} from peers")
    parts.append(duration(seconds_elapsed))
    return "  ".join(parts)


def sample_line(answers: Mapping[str, str]) -> str:
    """How a node answered a question, in one line (swarmnode.observe.samples)."""
    return "  " + "  ".join(f"{name}: {plain(text)}" for name, text in answers.items())


def _held_out(reports: Sequence[RoundReport], start: float | None) -> str:
    evaluated = [report for report in reports if report.evaluation is not None]
    if not evaluated:
        return ""
    last = max(report.round for report in evaluated)
    now = mean_reward([report for report in evaluated if report.round == last], "held_out")
    at_start = [report for report in evaluated if report.round == 0]
    if start is None and at_start:
        start = mean_reward(at_start, "held_out")
    beside = "" if last == 0 or start is None else f" (round 0: {_figure(start)})"
    return f"held-out {_figure(now)}{beside}"


def real_line(statuses: Sequence[StatusDocument | None], seconds_elapsed: float) -> str:
    """One line on what real nodes say of themselves; None stands for one that does not answer."""
    running = [status for status in statuses if status and status.phase == "running"]
    parts = [f"{len(running)} of {len(statuses)} nodes train"]
    rounds = [status.round.number for status in running if status.round]
    if rounds:
        parts.append(f"rounds {min(rounds)} to {max(rounds)}")
    if running:
        peers = sum(status.network.peers for status in running) / len(running)
        parts.append(f"{peers:.1f} peers each")
    mixes = [status.mix for status in running if status.mix]
    if mixes:
        groups = sum(mix.external_groups for mix in mixes) / len(mixes)
        parts.append(f"{groups:.1f} groups of peers in the last round")
    local = [status.rewards.local.mean for status in running]
    known = [mean for mean in local if mean is not None]
    if known:
        parts.append(f"local {_figure(sum(known) / len(known))}")
    return "  ".join([*parts, duration(seconds_elapsed)])


def duration(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def results_table(variants: Sequence[Variant], compared: str = "mix") -> Table:
    """A row a variant: held-out success at start and end, its gain, and the other two rewards.

    `compared` is what they differ in. Fits into 80 columns.
    """
    table = Table(title="Success, 0 to 1, mean over tasks", title_justify="left", box=SIMPLE_HEAD)
    table.add_column(compared.split(".")[-1])
    for heading in (
        "seeds",
        "rounds",
        "held-out\nstart → end",
        "gain\n95 % interval",
        "local\nend",
        "training\nset, end",
    ):
        table.add_column(heading, justify="right")
    for variant in variants:
        start, end = variant.start["held_out"].mean, variant.end["held_out"].mean
        table.add_row(
            Text(variant.name),
            str(len(variant.seeds)),
            str(variant.rounds),
            f"{_figure(start)} → {_figure(end)}",
            _gain(variant.held_out_gain),
            _figure(variant.end["local"].mean),
            _figure(variant.end["training_set"].mean),
        )
    table.caption = Text(_caption(variants, compared))
    table.caption_justify = "left"
    return table


def _caption(variants: Sequence[Variant], compared: str) -> str:
    gains = [variant.held_out_gain for variant in variants]
    over = sorted({gain.over for gain in gains if not math.isnan(gain.low)})
    suspicious = [f"{each.name} {task}" for each in variants for task in suspicious_tasks(each)]
    complaints = [f"\n{each.name}: {alarms(each)}" for each in variants if each.alarms_seen]
    return (
        "held-out: unseen questions. local: own fresh answers. training set: what was trained on, "
        "lifted by choosing groups. "
        + (f"Intervals over {' or '.join(over)}." if over else "Too few nodes for an interval.")
        + "".join(f"\n{line}" for line in against_first(variants, compared))
        + (f"\nA loophole rather than a skill? {', '.join(suspicious)}" if suspicious else "")
        + "".join(complaints)
    )


def _gain(gain: Estimate) -> str:
    if math.isnan(gain.mean):
        return "-"
    if math.isnan(gain.low):
        return f"{gain.mean:+.3f}"
    return f"{gain.mean:+.3f}\n{gain.low:+.3f} to {gain.high:+.3f}"


def _figure(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"
