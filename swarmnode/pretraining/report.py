"""What a run leaves for people and for programs: summary.json, curves.png, report.html.

The only effect is writing these three files, each in one step.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from swarmnode import __version__
from swarmnode.config.settings import Settings
from swarmnode.files import write_atomically
from swarmnode.pretraining.corpus import facts_of
from swarmnode.pretraining.run import Finished
from swarmnode.pretraining.summary import Summary, summarize

OVERHEAD_WORDS = (
    "Medians. Gradients are the differences of accumulated gradients and their products, scheduler"
    " the rewards and the agent. Together they are {share} of what model and data cost."
)


@dataclass(frozen=True, slots=True)
class _Told:
    """A run with everything that a page says of it."""

    finished: Finished
    settings: Settings
    command: str
    summary: Summary

    @property
    def names(self) -> list[str]:
        """Of the domains."""
        return [domain.facts.name for domain in self.finished.domains]


def write_report(out: Path, finished: Finished, settings: Settings, command: str) -> Path:
    """Write the three files into `out`; returns the path of report.html. Raises OSError."""
    # matplotlib takes half a second to load, which only those pay who write a report.
    from swarmnode.drawing import as_png, as_svg, page_style
    from swarmnode.pretraining.curves import draw

    summary = summarize(finished.rows, finished.static)
    told = _Told(finished, settings, command, summary)
    picture = partial(draw, summary, told.names)
    document = json.dumps(summary_as_json(told), indent=1, allow_nan=False)
    write_atomically(out / "summary.json", document + "\n")
    write_atomically(out / "curves.png", as_png(picture))
    write_atomically(out / "report.html", _page(told, as_svg(picture), page_style()))
    return out / "report.html"


def summary_as_json(told: _Told) -> dict[str, Any]:
    """The run as plain values; what was not measured is None.

    Losses are in nats a byte. `macro` is the mean over domains, `mixture` weighted by `static`.
    `milliseconds`: median of a step, by part. `last_shares`: over the last tenth of the steps.
    """
    summary, curves = told.summary, told.summary.curves
    return {
        "version": __version__,
        "command": told.command,
        "complete": told.finished.complete,
        "settings": told.settings.model_dump(mode="json", include={"pretraining", "scheduling"}),
        "parameters": told.finished.parameters,
        "steps": len(summary.shares),
        "domains": list(facts_of(told.finished.domains)),
        "static": list(told.finished.static),
        "validation": {
            "steps": list(curves.steps),
            "macro": [_number(value) for value in curves.macro],
            "mixture": [_number(value) for value in curves.mixture],
            "by_domain": [[_number(value) for value in each] for each in curves.by_domain],
        },
        "last_shares": [_number(share) for share in summary.last_shares],
        "read": list(summary.read),
        "milliseconds": {part: _number(value) for part, value in summary.milliseconds.items()},
        "overhead": _number(summary.overhead),
        "metrics": {name: _number(value) for name, value in summary.metrics.items()},
    }


def _number(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _page(told: _Told, svg: str, style: str) -> str:
    frame = Template((files("swarmnode.pretraining") / "page.html").read_text(encoding="utf-8"))
    return frame.substitute(
        title=_text(f"swarmnode: {_answer(told)}"),
        style=style,
        version=_text(__version__),
        answer=_text(_answer(told)),
        stopped="" if told.finished.complete else _stopped(told),
        what_was_run=_text(_what_was_run(told)),
        command=_text(told.command),
        curves=svg,
        domains=_domains(told),
        costs=_costs(told.summary.milliseconds),
        overhead=_text(OVERHEAD_WORDS.format(share=f"{100 * told.summary.overhead:.1f} %")),
        metrics=_metrics(told.summary.metrics),
        settings=_text(
            told.settings.model_dump_json(indent=2, include={"pretraining", "scheduling"})
        ),
    )


def _text(value: str) -> str:
    return html.escape(value)


def _answer(told: _Told) -> str:
    macro, steps = told.summary.curves.macro, len(told.summary.shares)
    return (
        f"{told.settings.scheduling.kind}: from {macro[0]:.3f} to {macro[-1]:.3f} nats a byte over"
        f" {len(told.names)} domains in {steps} steps"
    )


def _what_was_run(told: _Told) -> str:
    chosen = told.settings.pretraining
    return (
        f"A decoder of {told.finished.parameters:,} parameters, {chosen.sequences_per_step}"
        f" sequences of {chosen.context} bytes a step, at least {chosen.floor_sequences} of each"
        f" domain; seed {chosen.seed}."
    )


def _stopped(told: _Told) -> str:
    asked = told.settings.pretraining.steps
    return (
        f'<p class="warning">Stopped at step {len(told.summary.shares)} of {asked}; the same'
        " command with --out goes on.</p>"
    )


def _domains(told: _Told) -> str:
    summary, curves = told.summary, told.summary.curves
    rows = [
        [
            _text(domain.facts.name),
            f"{domain.facts.bytes / 1e6:.1f}",
            f"{domain.facts.repeated:,} / {domain.facts.copied:,}",
            _figure(told.finished.static[i]),
            _figure(summary.last_shares[i]),
            f"{summary.read[i]:,}",
            f"{summary.read[i] / domain.facts.rows:.2f}",
            _figure(curves.by_domain[0][i]),
            _figure(curves.by_domain[-1][i]),
        ]
        for i, domain in enumerate(told.finished.domains)
    ]
    head = (
        *("domain", "MB", "left out", "static share", "share at the end"),
        *("sequences read", "epochs", "loss, start", "loss, end"),
    )
    return _table(head, rows)


def _costs(milliseconds: Mapping[str, float]) -> str:
    return _table(
        ("part", "ms a step"), [[_text(part), f"{ms:.2f}"] for part, ms in milliseconds.items()]
    )


def _metrics(metrics: Mapping[str, float]) -> str:
    if not metrics:
        return "<p>It learns nothing.</p>"
    rows = [[_text(name), f"{value:.4g}"] for name, value in sorted(metrics.items())]
    return _table(("metric", "value"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are already HTML under headings that are text."""
    heading = "".join(f"<th>{_text(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{heading}</tr></thead><tbody>{body}</tbody></table>"


def _figure(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"
