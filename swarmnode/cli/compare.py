"""`swarmnode compare A B`: which of two policies is right more often, and how else they differ."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swarmnode.cli.contestants import Named, named, pairs_of, settings_of
from swarmnode.cli.eval import MOST_SAMPLES
from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.options import Assignments, Config, Tasks

if TYPE_CHECKING:
    from swarmnode.cli.compare_figures import Told
    from swarmnode.comparing import Contest, Reply

MOST_EXAMPLES = 100

_WORD = "A home, the --out of a training run, a checkpoint, an exported folder, or a model."


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help=_WORD)],
    b: Annotated[str, typer.Argument(metavar="B", help="The same.")],
    task: Tasks = None,
    level: Annotated[str | None, typer.Option(help="Level of tasks that name none.")] = None,
    questions: Annotated[int | None, typer.Option(help="Questions of each task.")] = None,
    samples: Annotated[
        int, typer.Option(help="Sampled answers to each question.", min=1, max=MOST_SAMPLES)
    ] = 8,
    examples: Annotated[
        int,
        typer.Option(
            help="Questions to show that A answers better, and as many for B.",
            min=0,
            max=MOST_EXAMPLES,
        ),
    ] = 2,
    report: Annotated[
        Path | None, typer.Option(help="Write the comparison as a page (HTML) into this file too.")
    ] = None,
    assignment: Assignments = None,
    config: Config = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The figures as JSON, progress to stderr.")
    ] = False,
) -> None:
    """Let two policies answer the same held-out questions, which nobody ever trains on.

    Shows who is right more often, by how much, with 95 % intervals, and how their answers differ in
    length and in what the guard-rails watch. Nodes that run with these homes go on undisturbed.
    """
    if report is not None and not report.absolute().parent.is_dir():
        # Before the minutes that answering takes.
        raise Mistake(f"{report} cannot be written: there is no folder {report.parent}; make it")
    both = named(a), named(b)
    flags = {
        "tasks.names": task,
        "tasks.level": level,
        "evaluation.questions_per_task": questions,
    }
    contest = _contest(both, flags, config, assignment or [], samples)
    replies = _answered(contest)
    _tell(contest, both, replies, examples, report, as_json=as_json)


def _contest(
    both: tuple[Named, Named],
    flags: Mapping[str, object],
    config: Path | None,
    assignments: list[str],
    samples: int,
) -> Contest:
    from swarmnode.comparing import Contest, Contestant
    from swarmnode.paths import cache_folder

    pairs, questions = pairs_of(both, config, assignments, flags)
    one, other = both
    return Contest(
        contestants=(
            Contestant(settings_of(one, other, config, assignments), _path(one)),
            Contestant(settings_of(other, one, config, assignments), _path(other)),
        ),
        pairs=pairs,
        questions=questions,
        samples=samples,
        environment=dict(os.environ),
        cache=cache_folder(os.environ) / "warm-starts",
    )


def _path(one: Named) -> Path | None:
    return one.chosen.path if one.chosen else None


def _answered(contest: Contest) -> tuple[Reply, Reply]:
    from swarmnode.cli.asking import asking
    from swarmnode.comparing import contend

    with asking(contest.cache) as progress:
        return contend(contest, progress)


def _tell(
    contest: Contest,
    both: tuple[Named, Named],
    replies: tuple[Reply, Reply],
    examples: int,
    report: Path | None,
    *,
    as_json: bool,
) -> None:
    from swarmnode.cli.compare_figures import Told, document
    from swarmnode.cli.compare_screen import show
    from swarmnode.comparison import compare

    a, b = replies
    found = compare(a.answers, b.answers, (a.info, b.info), examples)
    told = Told(contest, (both[0].chosen, both[1].chosen), found)
    if report is not None:
        _write(told, report)
    if as_json:
        sys.stdout.write(json.dumps(document(told), indent=2) + "\n")
    else:
        show(told)
        if report is not None:
            sys.stdout.write(f"report: {report}\n")


def _write(told: Told, report: Path) -> None:
    from swarmnode.cli.compare_page import page
    from swarmnode.files import write_atomically

    try:
        write_atomically(report, page(told))
    except OSError as error:
        raise Mistake(f"{report} cannot be written: {error.strerror}", Exit.FAILURE) from error
