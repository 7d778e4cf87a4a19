"""`swarmnode eval`: what a policy can do on unseen questions, beside what it could at its start."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from swarmnode.cli.checkpoints import Place, Step, chosen_checkpoint
from swarmnode.cli.exits import Mistake
from swarmnode.cli.loading import check_tasks, load
from swarmnode.cli.options import Assignments, Config, Tasks

if TYPE_CHECKING:
    from swarmnode.cli.checkpoints import Chosen
    from swarmnode.config.settings import Settings
    from swarmnode.examining import Exam, ExamResult

MOST_SAMPLES = 256


def evaluate(
    place: Place = None,
    step: Step = None,
    model: Annotated[
        str | None, typer.Option(help="Examine this model as it is, instead of a checkpoint.")
    ] = None,
    task: Tasks = None,
    level: Annotated[str | None, typer.Option(help="Level of tasks that name none.")] = None,
    questions: Annotated[
        int | None, typer.Option(help="Questions of each task; the same for every policy.")
    ] = None,
    samples: Annotated[
        int, typer.Option(help="Sampled answers to each question.", min=1, max=MOST_SAMPLES)
    ] = 8,
    assignment: Assignments = None,
    config: Config = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The figures as JSON, progress to stderr.")
    ] = False,
) -> None:
    """Let a policy answer held-out questions, which nobody ever trains on.

    Shows pass@1 and pass@K with 95 % intervals, for the newest checkpoint and for the start of its
    run. A node that runs with that home goes on undisturbed.
    """
    if model and (place or step is not None):
        raise Mistake("give a folder or --model, not both")
    chosen = None if model else chosen_checkpoint(place, step)
    settings, asked = _settings(chosen, model, task, level, questions, assignment, config)
    exam = _exam(chosen, settings, asked, samples)
    result = _examined(exam)
    _tell(exam, chosen, result, as_json=as_json)


def _settings(
    chosen: Chosen | None,
    model: str | None,
    task: list[str] | None,
    level: str | None,
    questions: int | None,
    assignment: Assignments,
    config: Config,
) -> tuple[Settings, Settings]:
    """Those that make the policy, and those that say what is asked."""
    from swarmnode.policy.names import UnknownModel, model_kind

    earlier = chosen.origin.settings if chosen else {}
    of_policy = {"policy.model": model}
    of_questions = {
        "tasks.names": task,
        "tasks.level": level,
        "evaluation.questions_per_task": questions,
    }
    asked = load(config, assignment or [], {**of_policy, **of_questions}, earlier)
    check_tasks(asked)
    made = load(config, assignment or [], of_policy, earlier)
    try:
        model_kind(made.policy.model)
    except UnknownModel as error:
        raise Mistake(str(error)) from error
    return made, asked


def _exam(chosen: Chosen | None, settings: Settings, asked: Settings, samples: int) -> Exam:
    from swarmnode.examining import Exam
    from swarmnode.paths import cache_folder

    return Exam(
        settings=settings,
        public_key=chosen.origin.public_key if chosen else b"",
        checkpoint=chosen.path if chosen else None,
        pairs=asked.tasks.pairs,
        questions=asked.evaluation.questions_per_task,
        samples=samples,
        environment=dict(os.environ),
        cache=cache_folder(os.environ) / "warm-starts",
    )


def _examined(exam: Exam) -> ExamResult:
    from swarmnode.cli.asking import asking
    from swarmnode.examining import examine

    with asking(exam.cache) as progress:
        return examine(exam, progress)


def _tell(exam: Exam, chosen: Chosen | None, result: ExamResult, *, as_json: bool) -> None:
    from swarmnode.cli.eval_screen import show
    from swarmnode.cli.exam_figures import figures_of

    figures = figures_of(result, exam.pairs, exam.samples)
    if not as_json:
        show(figures, exam, chosen)
        return
    checkpoint = chosen and {
        "path": str(chosen.path),
        "version": chosen.told.version,
        "round": chosen.origin.round,
    }
    document = {
        "model": exam.settings.policy.model,
        "checkpoint": checkpoint,
        "questions_per_task": exam.questions,
        "samples": exam.samples,
        "temperature": exam.settings.policy.temperature,
        "max_new_tokens": exam.settings.policy.new_tokens,
        **figures.as_json(),
    }
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
