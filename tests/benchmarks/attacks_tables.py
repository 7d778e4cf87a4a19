"""The generated part of docs/results/attacks.md: blocks by name. Pure text.

A study that is not whole renders too, and says over which seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tests.benchmarks.attacks_protocol import ARMS, DEFENCES, KEYS, SEEDS, LabArm, nobody
from tests.benchmarks.attacks_rows import Row
from tests.benchmarks.sharing_markdown import UNKNOWN, arrow, decimal, mean, percent, points, table
from tests.benchmarks.sharing_statistics import estimate

Rows = Mapping[str, Sequence[Row]]

SAYING = {
    "out-of-context": "mark",
    "false-steps": "false_step",
    "loophole": "weak_answer",
    "false-truth": "false_answer",
    "sybil": "mark",
    "eclipse": "mark",
}
"""What an attack wants said, by the names of swarmnode.sim.attacks.measures."""

HEAD = (
    *("attack", "attackers", "defence", "attackers' tokens, %", "said, %", "answer, tokens"),
    *("held-out, %", "against none, points", "groups of honest nodes", "paused, %"),
)


def grouped(rows: Iterable[Row]) -> Rows:
    """By arm, each arm's by seed."""
    found: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["seed"]):
        found.setdefault(row["arm"], []).append(row)
    return found


def attacks(rows: Rows) -> str:
    """A line for each attack and defence, beside the same swarm without attackers."""
    lines = [
        _line(arm, rows)
        for arm in ARMS
        if arm.attackers and arm.attack != "sybil" and rows_of(arm, rows)
    ]
    return "\n\n".join([table(HEAD, lines), _seeds(rows)])


def honest(rows: Rows) -> str:
    """What defences cost where nobody attacks."""
    head = ("defence", "held-out, %", "gain, points", "groups of peers", "paused, %", "gated, %")
    lines = []
    for defence in (*DEFENCES, "top-reward", "gameable", "strict"):
        some = rows_of(nobody(defence), rows)
        if some:
            lines.append(
                (
                    defence,
                    _held_out(some),
                    _interval([row["held_out"]["end"] - row["held_out"]["start"] for row in some]),
                    mean([row["honest_groups"] for row in some], decimal),
                    mean([row["paused"] for row in some], percent),
                    mean([row["gated"] for row in some], percent),
                )
            )
    return table(head, lines)


def keys(rows: Rows) -> str:
    """The share of training tokens against the number of keys behind one prefix."""
    head = ("keys", "by keys alone, %", "by default, %", "held-out, by keys", "by default")
    lines = []
    for count in KEYS:
        bare, default = (
            rows_of(arm, rows) for arm in ARMS if (arm.attack, arm.attackers) == ("sybil", count)
        )
        shares = [mean([row["token_share"] for row in some], percent) for some in (bare, default)]
        lines.append((str(count), *shares, _held_out(bare), _held_out(default)))
    return table(head, lines)


def dropped(rows: Rows) -> str:
    """Why what attackers sent was not taken: reasons that are commoner than without them."""
    lines = []
    for arm in ARMS:
        some, none = rows_of(arm, rows), rows_of(nobody(arm.beside), rows)
        if arm.attackers and arm.attack != "sybil" and some and none:
            lines.append((arm.attack, str(arm.attackers), arm.defence, _reasons(some, none)))
    return table(("attack", "attackers", "defence", "more dropped than without, a run"), lines)


BLOCKS: Mapping[str, Callable[[Rows], str]] = {
    "attacks": attacks,
    "keys": keys,
    "honest": honest,
    "dropped": dropped,
}


def render(rows: Iterable[Row]) -> dict[str, str]:
    """Every block by its name."""
    by_arm = grouped(rows)
    return {name: block(by_arm) for name, block in BLOCKS.items()}


def rows_of(arm: LabArm, rows: Rows) -> Sequence[Row]:
    """Those of one arm."""
    return rows.get(arm.name, ())


def _line(arm: LabArm, rows: Rows) -> tuple[str, ...]:
    some, none = rows_of(arm, rows), rows_of(nobody(arm.beside), rows)
    saying = SAYING.get(arm.attack)
    return (
        f"`{arm.attack}`",
        str(arm.attackers),
        arm.defence,
        mean([row["token_share"] for row in some], percent),
        mean([row["said"][saying]["end"] for row in some], percent) if saying else UNKNOWN,
        arrow(
            [row["answer_tokens"]["start"] for row in some],
            [row["answer_tokens"]["end"] for row in some],
            lambda value: decimal(value, 1),
        ),
        _held_out(some),
        _interval(_differences(some, none)),
        mean([row["honest_groups"] for row in some], decimal),
        mean([row["paused"] for row in some], percent),
    )


def _differences(some: Sequence[Row], none: Sequence[Row]) -> list[float]:
    """At the end, of the seeds that both have."""
    other = {row["seed"]: row["held_out"]["end"] for row in none}
    return [row["held_out"]["end"] - other[row["seed"]] for row in some if row["seed"] in other]


def _held_out(rows: Sequence[Row]) -> str:
    return arrow(
        [row["held_out"]["start"] for row in rows], [row["held_out"]["end"] for row in rows]
    )


def _interval(values: Sequence[float]) -> str:
    if len(values) < 2:
        return points(values[0]) if values else UNKNOWN
    found = estimate(values)
    return f"{points(found.mean)} ({points(found.low)} to {points(found.high)})"


def _reasons(some: Sequence[Row], none: Sequence[Row]) -> str:
    reasons = sorted({reason for row in some for reason in row["dropped"]})
    more = {reason: _per_run(some, reason) - _per_run(none, reason) for reason in reasons}
    told = [f"{reason} {count:,.0f}" for reason, count in more.items() if count >= 1.0]
    return ", ".join(told) or "nothing"


def _per_run(rows: Sequence[Row], reason: str) -> float:
    return sum(row["dropped"].get(reason, 0) for row in rows) / len(rows)


def _seeds(rows: Rows) -> str:
    found = sorted({row["seed"] for some in rows.values() for row in some})
    fewer = [f"; {name} has {len(some)}" for name, some in rows.items() if len(some) < len(found)]
    missing = "" if len(found) == len(SEEDS) else f"; {len(SEEDS)} were planned"
    return f"Over seeds {', '.join(map(str, found)) or 'none'}{missing}{''.join(fewer)}."
