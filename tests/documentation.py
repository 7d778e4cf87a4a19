"""Writes the generated pages of docs/: `make docs`. A test holds them against the code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from swarmnode.config.settings import Settings, describe
from swarmnode.observe.facts import Severity
from swarmnode.observe.health import health_table
from swarmnode.observe.healthy_figures import healthy_figure
from swarmnode.observe.metrics import DROPPED, METRICS
from swarmnode.observe.training_metrics import CHANNEL_METRICS, TRAINING_METRICS, TRL_NAMES
from swarmnode.selection.admission import Reason

DOCS = Path(__file__).parent.parent / "docs"

SETTINGS_HEAD = """# Settings

Every setting with its default. They are read in this order, the later winning: the defaults, a TOML
file (`--config FILE`, sections as tables), the environment (`SWARMNODE_SECTION__NAME=value`), the
command line (`--set section.name=value`, and the flags of a command). Unknown names are errors.

This page is made from the code by `make docs`.
"""

METRICS_HEAD = """# Metrics

Every line of `rounds.jsonl`, which simulations and nodes write, is one node's round: the rewards by
task, `metrics` by the names below, and `dropped`, which counts what was dropped since the round
before, by reason. Round 0 is the
evaluation before the first round. Rewards are successes: 1 where the verifier's score is at least
0.99. Each is computed per task and then averaged over tasks with equal weights.

The [dashboard](dashboard.md) shows most of it, and serves all of it to Prometheus;
[trackers](trackers.md) draw it. Names with (TRL) behind them are those of TRL's trainer, and mean
the same.

This page is made from the code by `make docs`.
"""

HEALTH_HEAD = """# Health warnings

What a running node can complain of. `swarmnode status` shows what applies at the moment, with
figures and what to do; `swarmnode status --json` has it under `warnings`, with the codes below,
which stay the same from version to version. The dashboard and the log say the same in the same
words, the log when a warning begins and when it is over; Prometheus has `swarmnode_warning` with
code and severity, 1 while it applies. Nothing is remembered: a warning goes with its cause.
Of a cause and its consequence only the cause is shown.

This page is made from the code by `make docs`.
"""

SEVERITIES = {
    Severity.INFO: "nothing is wrong; it explains why the node does what it does",
    Severity.WARNING: "the node works, but not as well as it could",
    Severity.ERROR: "part of the node's work is not done until somebody acts",
}


def settings_page() -> str:
    """docs/settings.md."""
    lines = [SETTINGS_HEAD]
    section = ""
    for name, default, text in describe(Settings):
        if name.split(".")[0] != section:
            section = name.split(".")[0]
            about = Settings.model_fields[section].description
            lines += [f"\n## {section}\n", f"{about}\n", "| setting | default | meaning |"]
            lines.append("| --- | --- | --- |")
        lines.append(f"| `{name}` | `{_shown(default)}` | {text} |")
    return "\n".join(lines) + "\n"


def metrics_page() -> str:
    """docs/metrics.md."""
    assert set(DROPPED) == {reason.value for reason in Reason}
    verdicts = {reason.value: reason.verdict.value for reason in Reason}
    reasons = {name: f"{text} ({verdicts[name]})" for name, text in DROPPED.items()}
    return "\n".join(
        [
            METRICS_HEAD,
            _figures("Rewards, mix and traffic", METRICS),
            _figures("The training step", TRAINING_METRICS),
            _figures("Reward channels, where there are several, by channel", CHANNEL_METRICS),
            _table("Reasons for dropping what a peer sent", reasons),
            "`reject` means that only a faulty or hostile sender can be the cause; `ignore` that "
            "it may be of use to others, or new.\n",
        ]
    )


def health_page() -> str:
    """docs/health.md."""
    severities = {severity.value: SEVERITIES[severity] for severity in Severity}
    warnings = f"## The warnings\n\n{health_table()}"
    return "\n".join([HEALTH_HEAD, _table("Severities", severities), warnings])


def _figures(title: str, meanings: Mapping[str, str]) -> str:
    rows = [
        f"| `{name}`{' (TRL)' if name in TRL_NAMES else ''} | {text} | {healthy_figure(name)} |"
        for name, text in meanings.items()
    ]
    head = ["| name | meaning | healthy, and what to do |", "| --- | --- | --- |"]
    return "\n".join([f"## {title}\n", *head, *rows, ""])


def _table(title: str, meanings: Mapping[str, str]) -> str:
    rows = [f"| `{name}` | {text} |" for name, text in meanings.items()]
    return "\n".join([f"## {title}\n", "| name | meaning |", "| --- | --- |", *rows, ""])


def _shown(default: object) -> str:
    if default is None:
        return "unset"
    if isinstance(default, tuple):
        return "[" + ", ".join(json.dumps(each) for each in default) + "]"
    return str(default).lower() if isinstance(default, bool) else str(default)


PAGES = {"settings.md": settings_page, "metrics.md": metrics_page, "health.md": health_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
