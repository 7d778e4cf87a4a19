"""Runs with rewards that a test chooses, for the tests of what a study shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swarmnode.rewards.common_answers import Observation, tally
from swarmnode.sim.summary import Run
from swarmnode.types import Evaluation, RoundReport, SampledAnswers, TaskRewards


def report(
    node: int,
    number: int,
    local: Mapping[str, float],
    *,
    training_set: Mapping[str, float] | None = None,
    held_out: Mapping[str, str] | None = None,
    dropped: Mapping[str, int] | None = None,
    live: tuple[float, float] = (0.0, 0.0),
    answers: Mapping[str, SampledAnswers] | None = None,
    excess: Mapping[str, float] | None = None,
) -> RoundReport:
    """A report whose training set is its local groups, unless said otherwise.

    `excess` is the guard-rail's metric by task.
    """
    metrics = {"mix/local_live_groups": live[0], "mix/external_live_groups": live[1]}
    metrics |= {f"answers/common_excess/{task}": value for task, value in (excess or {}).items()}
    return RoundReport(
        node=node,
        round=number,
        clock_seconds=float(number),
        local=TaskRewards(local),
        training_set=TaskRewards(local if training_set is None else training_set),
        evaluation=None if held_out is None else Evaluation(held_out, held_out, answers or {}),
        metrics=metrics,
        dropped=dropped or {},
    )


def swarm(
    variant: str = "4/4",
    *,
    seed: int = 0,
    nodes: int = 3,
    rounds: int = 20,
    every: int = 10,
    tasks: Sequence[str] = ("bf", "arc_1d"),
) -> Run:
    """A run whose success grows by rounds, differs by node, task and seed, and is never random."""
    reports = []
    for number in range(rounds + 1):
        for node in range(nodes):
            right = 1 + (4 + node) * number // rounds
            marks = {
                task: ("1" * (right + place + seed)).ljust(20, "0")
                for place, task in enumerate(tasks)
            }
            success = {task: text.count("1") / 20 for task, text in marks.items()}
            evaluated = number % every == 0 or number == rounds
            reports.append(
                report(
                    node,
                    number,
                    success if number else {},
                    training_set={t: v + 0.1 for t, v in success.items()} if number else {},
                    held_out=marks if evaluated else None,
                    dropped={"missing": 1} if number == 1 else {},
                    live=(1.0, 2.0),
                )
            )
    return Run(variant, seed, reports)


def loophole(
    *,
    texts: Sequence[str] = ("(P ∨ Q)", "(Q ∨ P)"),
    right: int = 15,
    skill_at_start: bool = True,
    seen: Mapping[int, float] | None = None,
    task: str = "propositional_logic",
    variant: str = "4/4",
) -> Run:
    """Two nodes whose `right` answers each are all `texts` at the end, whatever the reference.

    `seen` is the excess by round that node 1 watches in its own answers.
    """
    questions = range(right)
    varied = tally(Observation(f"r{n}", f"r{n}", True) for n in questions)
    weak = tally(Observation(f"r{n}", texts[n % len(texts)], True) for n in questions)
    marks = {task: "1" * right}
    reports = []
    for node in range(2):
        start = varied if skill_at_start else weak
        reports.append(report(node, 0, {}, held_out=marks, answers={task: start}))
        for number in range(1, 6):
            excess = (seen or {}).get(number) if node else None
            reports.append(
                report(
                    node,
                    number,
                    {task: 0.5},
                    held_out=marks if number == 5 else None,
                    answers={task: weak},
                    excess=None if excess is None else {task: excess},
                )
            )
    return Run(variant, 0, reports)
