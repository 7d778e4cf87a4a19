"""What answers earn that solve nothing, at every level of every task that can be enabled.

    python -m tests.benchmarks.reward_table

The expected reward, partial credit included, of the constant answer that earns most, of the best
shallow rule, of another question's answer, and of the right one. Constants and rules are chosen on
one half of a sample and measured on the other. Writes the table of docs/tasks.md and, of the tasks
beside the paper's nine, swarmnode/tasks/baselines.json; `task_attack` looks longer at the nine.
Deterministic; about five minutes on one core.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swarmnode.rewards import verify
from swarmnode.tasks import DEFAULT, ENABLED, LEVELS, Catalogue, Instance
from tests.benchmarks.attack_answers import Heuristic, heuristics
from tests.benchmarks.task_attack import (
    ATTACK_KEY,
    BASELINES,
    FINALISTS,
    PAGE,
    Attack,
    between,
    fixed_answers,
    is_measured,
)

QUESTIONS = 400


@dataclass(frozen=True)
class Row:
    """Expected rewards at one level."""

    task: str
    level: str
    constant: Attack
    rule: Attack
    another: float
    """Of the right answer to another question of the level."""
    right: float


def row(catalogue: Catalogue, task: str, level: str) -> Row:
    """Search and measure at one level."""
    instances = catalogue.draw(ATTACK_KEY, task, level, 0, QUESTIONS)[0]
    tried = [one for one in instances if not is_measured(one)]
    measured = [one for one in instances if is_measured(one)]
    answers = [one.question.answer for one in tried]
    return Row(
        task,
        level,
        constant=_best(fixed_answers(task, answers), tried, measured),
        rule=_best(heuristics(task, []), tried, measured),
        another=_expected(lambda text: answers[_hashed(text) % len(answers)], measured),
        right=sum(_reward(one, one.question.answer) for one in measured) / len(measured),
    )


def _hashed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[8:16])


def _best(
    rules: Mapping[str, Heuristic], tried: Sequence[Instance], measured: Sequence[Instance]
) -> Attack:
    """The one that earns most on the measured half, of those that earned most on the other."""
    finalists = sorted(rules, key=lambda name: -_expected(rules[name], tried))[:FINALISTS]
    found = [Attack(name, _expected(rules[name], measured)) for name in finalists]
    return max(found, key=lambda one: one.success)


def _expected(rule: Heuristic, instances: Sequence[Instance]) -> float:
    return sum(_reward(one, rule(one.question.text)) for one in instances) / len(instances)


def _reward(instance: Instance, answer: str | None) -> float:
    question = instance.question
    if answer is None:
        return 0.0
    return verify(question.task, question.answer, instance.metadata, answer)


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown, what earns most without solving anything first."""
    lines = [
        "| task:level | best constant | earns | best shallow rule | earns | another's answer "
        "| right answer |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in sorted(
        rows, key=lambda one: (-max(one.constant.success, one.rule.success), one.task)
    ):
        constant = one.constant.name.replace("|", "\\|").replace("`", "'")
        cells = (
            f"{one.task}:{one.level}",
            f"`{constant}`" if one.constant.success else "none",
            f"{one.constant.success:.3f}",
            one.rule.name if one.rule.success else "none",
            f"{one.rule.success:.3f}",
            f"{one.another:.3f}",
            f"{one.right:.3f}",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure all levels; print and write what was found."""
    catalogue = Catalogue(bytes(32))
    nine = [(task, level) for task in LEVELS for level in LEVELS[task]]
    rows = []
    for task, level in [*nine, *((task, DEFAULT) for task in sorted(ENABLED))]:
        rows.append(row(catalogue, task, level))
        print(rows[-1], flush=True)
    PAGE.write_text(between(PAGE.read_text("utf-8"), "reward_table", table(rows)), "utf-8")
    baselines = json.loads(BASELINES.read_text("utf-8"))
    baselines |= {
        f"{one.task}:{one.level}": round(max(one.constant.success, one.rule.success), 4)
        for one in rows
        if one.level == DEFAULT
    }
    BASELINES.write_text(json.dumps(baselines, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
