"""The attack on every task and level: how far do answers get that solve nothing?

    python -m tests.benchmarks.task_attack

Searches the best constant answer and the best shallow rule on one half of a sample of questions,
measures the best few with our verifiers on the other half (no text is in both), and writes
swarmnode/tasks/baselines.json and the tables of docs/tasks.md between their markers. Success is a
score of at least SUCCESS_THRESHOLD. Deterministic; some minutes on one core.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from swarmnode.rewards import verify
from swarmnode.tasks import LEVELS, REFUSED, Catalogue, Instance, NoQuestion
from swarmnode.types import SUCCESS_THRESHOLD
from tests.benchmarks.attack_answers import Heuristic, constants, heuristics

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tasks.md"
BASELINES = ROOT / "swarmnode" / "tasks" / "baselines.json"

DRAWS = 6000
SEARCH_QUESTIONS = 400
MEASURED_QUESTIONS = 2000
FINALISTS = 5
ATTACK_KEY = hashlib.sha256(b"the attack's question stream").digest()


@dataclass(frozen=True)
class Attack:
    """The best answer of one kind and its success."""

    name: str
    success: float


@dataclass(frozen=True)
class Finding:
    """What the attack found for one level."""

    task: str
    level: str
    distinct: int
    """Distinct texts in DRAWS draws."""
    question_lengths: str
    answer_lengths: str
    constant: Attack
    heuristic: Attack

    @property
    def baseline(self) -> float:
        """The success of the best answer that solves nothing."""
        return max(self.constant.success, self.heuristic.success)


def attack(catalogue: Catalogue, task: str, level: str) -> Finding:
    """Search and measure for one level."""
    instances = _sample(catalogue, task, level)
    searched = [one for one in instances if not is_measured(one)]
    measured = [one for one in instances if is_measured(one)][:MEASURED_QUESTIONS]
    known, tried = searched[:-SEARCH_QUESTIONS], searched[-SEARCH_QUESTIONS:]
    pairs = [(one.question.text, one.question.answer) for one in known]
    return Finding(
        task,
        level,
        distinct=len({one.question.text for one in instances}),
        question_lengths=_lengths([one.question.text for one in instances]),
        answer_lengths=_lengths([one.question.answer for one in instances]),
        constant=best(fixed_answers(task, [answer for _, answer in pairs]), tried, measured),
        heuristic=best(heuristics(task, pairs), tried, measured),
    )


def _sample(catalogue: Catalogue, task: str, level: str) -> list[Instance]:
    found = []
    for index in range(DRAWS):
        try:
            found.append(catalogue.question(ATTACK_KEY, task, level, index))
        except NoQuestion:
            continue
    return found


def is_measured(instance: Instance) -> bool:
    """Whether a question belongs to the half that success is measured on."""
    return hashlib.sha256(instance.question.text.encode()).digest()[0] % 2 == 0


def _lengths(texts: Sequence[str]) -> str:
    lengths = [len(text) for text in texts]
    return f"{min(lengths)}, {sum(lengths) / len(lengths):.0f}, {max(lengths)}"


def fixed_answers(task: str, answers: Sequence[str]) -> dict[str, Heuristic]:
    """Rules that answer the same to every question, by a short form of it."""

    def always(answer: str) -> Heuristic:
        return lambda _: answer

    return {_shown(answer): always(answer) for answer in constants(task, answers)}


def _shown(answer: str) -> str:
    return " / ".join(answer[:40].split("\n"))


def best(
    rules: Mapping[str, Heuristic], tried: Sequence[Instance], measured: Sequence[Instance]
) -> Attack:
    """The best on the measured half among the finalists of those that were tried."""
    finalists = sorted(rules, key=lambda name: -success(rules[name], tried))[:FINALISTS]
    found = [Attack(name, success(rules[name], measured)) for name in finalists]
    return max(found, key=lambda one: one.success)


def success(rule: Heuristic, instances: Sequence[Instance]) -> float:
    """The share of questions that a rule answers rightly."""
    return sum(_is_right(rule, instance) for instance in instances) / len(instances)


def _is_right(rule: Heuristic, instance: Instance) -> bool:
    question = instance.question
    answer = rule(question.text)
    if answer is None:
        return False
    score = verify(question.task, question.answer, instance.metadata, answer)
    return score >= SUCCESS_THRESHOLD


def _levels_table(findings: Sequence[Finding]) -> str:
    lines = [
        "| task:level | parameters | distinct | question | answer | best fixed answer "
        "| best shallow rule | baseline |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in findings:
        cells = (
            f"{one.task}:{one.level}",
            LEVELS[one.task][one.level].note,
            str(one.distinct),
            one.question_lengths,
            one.answer_lengths,
            f"`{one.constant.name}` {one.constant.success:.1%}",
            f"{one.heuristic.name} {one.heuristic.success:.1%}",
            f"**{one.baseline:.1%}**" if one.baseline > 0.1 else f"{one.baseline:.1%}",
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _refused_table() -> str:
    rows = [f"| {task} | {reason} |" for task, reason in sorted(REFUSED.items())]
    return "\n".join(["| task | reason |", "|---|---|", *rows])


def between(page: str, name: str, body: str) -> str:
    """The page with the text between the markers of `name` replaced."""
    start, end = f"<!-- {name}: start -->\n", f"<!-- {name}: end -->"
    before, _, rest = page.partition(start)
    _, _, after = rest.partition(end)
    return f"{before}{start}{body}\n{end}{after}"


def main() -> None:
    """Attack all levels; print and write what was found."""
    catalogue = Catalogue(bytes(32))
    findings: list[Finding] = []
    pairs = [(task, level) for task in LEVELS for level in LEVELS[task]]
    for task, level in pairs:
        found = attack(catalogue, task, level)
        findings.append(found)
        print(f"{task}:{level} {found.constant} {found.heuristic}", flush=True)
    page = between(PAGE.read_text("utf-8"), "task_attack", _levels_table(findings))
    PAGE.write_text(between(page, "refused", _refused_table()), "utf-8")
    baselines = json.loads(BASELINES.read_text("utf-8"))
    baselines |= {f"{one.task}:{one.level}": round(one.baseline, 4) for one in findings}
    BASELINES.write_text(json.dumps(baselines, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
