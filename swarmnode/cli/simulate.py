"""`swarmnode simulate`: a whole swarm on this machine."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swarmnode.cli.exits import Exit, Mistake

if TYPE_CHECKING:
    from swarmnode.config.settings import Settings

Mix = tuple[int, int]


def simulate(
    nodes: Annotated[int | None, typer.Option(help="Nodes in the swarm.")] = None,
    mix: Annotated[
        str | None, typer.Option(help="Local and external groups a round trains on, such as 4/4.")
    ] = None,
    questions: Annotated[
        int | None, typer.Option(help="Questions a node answers in a round.")
    ] = None,
    completions: Annotated[int | None, typer.Option(help="Answers sampled per question.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds that every node goes through.")] = None,
    task: Annotated[
        list[str] | None, typer.Option(help="A task, or task:level; repeatable.")
    ] = None,
    level: Annotated[str | None, typer.Option(help="Level of the tasks: easy or paper.")] = None,
    filter: Annotated[
        str | None, typer.Option(help="Filter that picks the external groups.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Models, given to the nodes in turn; repeatable.")
    ] = None,
    skills: Annotated[
        list[str] | None,
        typer.Option(help="Tasks that a node's warm start teaches, joined by +; repeatable."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed of everything.")] = None,
    assignment: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting: section.name=value.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with settings.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; finished runs in it are kept.")
    ] = None,
    compare: Annotated[
        str | None, typer.Option(help="Mixes to compare, such as 8/0,6/2,4/4,2/6.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Seeds that each mix is run with.")] = 1,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON, progress to stderr.")
    ] = False,
) -> None:
    """Run a swarm of nodes on this machine and write a report."""
    mixes = [_parse_mix(text) for text in compare.split(",")] if compare else []
    if mix and compare:
        raise Mistake("give --mix for one mix or --compare for several, not both")
    if seeds < 1:
        raise Mistake("--seeds must be at least 1")
    flags: dict[str, object] = {
        "simulation.nodes": nodes,
        "rounds.questions_per_round": questions,
        "rounds.completions_per_group": completions,
        "simulation.rounds": rounds,
        "tasks.names": task,
        "tasks.level": level,
        "selection.filter": filter,
        "simulation.models": model,
        "simulation.skills": skills,
        "simulation.seed": seed,
    }
    if mix:
        local, external = _parse_mix(mix)
        flags |= {
            "rounds.local_groups_per_round": local,
            "rounds.external_groups_per_round": external,
        }
    settings = _load(config, assignment or [], flags)
    _check(settings)
    rounds_of = settings.rounds
    own_mix = (rounds_of.local_groups_per_round, rounds_of.external_groups_per_round)
    _run(settings, mixes or [own_mix], seeds, out, as_json=as_json)


def _parse_mix(text: str) -> Mix:
    local, slash, external = text.strip().partition("/")
    if not (slash and local.isdigit() and external.isdigit()):
        raise Mistake(f"{text!r} is no mix; write local/external groups, such as 4/4")
    if int(local) + int(external) == 0:
        raise Mistake("a mix of 0/0 trains on nothing; take at least one group, such as 8/0")
    return int(local), int(external)


def _load(config: Path | None, assignments: Sequence[str], flags: Mapping[str, object]) -> Settings:
    from swarmnode.config.settings import SettingsError, load_settings

    given = {name: value for name, value in flags.items() if value is not None and value != []}
    try:
        return load_settings(
            file=config, environment=os.environ, assignments=assignments, flags=given
        )
    except SettingsError as error:
        from_file = config is not None and str(config) in str(error)
        raise Mistake(str(error), Exit.CONFIG if from_file else Exit.USAGE) from error


def _check(settings: Settings) -> None:
    """Whatever can be known to be wrong before anything is started."""
    from swarmnode.policy.names import check_model
    from swarmnode.selection.filters import UnknownFilter, draw_rule, load_filter
    from swarmnode.tasks.errors import TaskError
    from swarmnode.tasks.registry import check

    rounds = settings.rounds
    if rounds.local_groups_per_round + rounds.external_groups_per_round == 0:
        raise Mistake("a mix of 0/0 trains on nothing; take at least one group, such as 8/0")
    try:
        load_filter(settings.selection.filter, draw_rule(settings.selection.draw))
        for task, level in settings.tasks.pairs:
            check(task, level)
        for model in settings.simulation.models:
            check_model(model)
    except (UnknownFilter, TaskError, ValueError) as error:
        raise Mistake(str(error)) from error
    tasks = {task for task, _ in settings.tasks.pairs}
    for skills in settings.simulation.skills:
        unknown = set(skills.split("+")) - tasks - {"all"}
        if unknown:
            raise Mistake(
                f"--skills {skills}: {', '.join(sorted(unknown))} is not among the tasks of this "
                f"swarm ({', '.join(sorted(tasks))})"
            )


def _run(
    settings: Settings, mixes: Sequence[Mix], seeds: int, out: Path | None, *, as_json: bool
) -> None:
    from swarmnode.cli.screen import Screen
    from swarmnode.paths import cache_folder
    from swarmnode.process import ChildError
    from swarmnode.sim.report import write_report
    from swarmnode.sim.study import arms, run_study
    from swarmnode.tasks import baseline

    folder = out or Path("runs") / time.strftime("%Y-%m-%d-%H%M%S")
    _make(folder)
    screen = Screen(sys.stderr if as_json else sys.stdout)
    study = arms(settings, mixes, seeds)
    screen.starting(settings.simulation.nodes, len(study))
    try:
        runs, complete = run_study(
            study,
            folder,
            environment=os.environ,
            cache=cache_folder(os.environ) / "warm-starts",
            progress=screen,
        )
    except ChildError as error:
        sys.stderr.write(f"swarmnode: {error}; its own message is above\n")
        raise typer.Exit(Exit.FAILURE) from error
    if not runs:
        raise typer.Exit(Exit.INTERRUPTED)
    command = shlex.join(["swarmnode", *sys.argv[1:]])
    report = write_report(
        folder,
        runs,
        settings,
        complete=complete,
        command=command,
        baselines={task: baseline(task, level) for task, level in settings.tasks.pairs},
    )
    if as_json:
        sys.stdout.write((folder / "summary.json").read_text(encoding="utf-8"))
    else:
        screen.finish(runs, report)
    if not complete:
        raise typer.Exit(Exit.INTERRUPTED)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise Mistake(
            f"{folder} cannot be written: {error.strerror}; choose another folder with --out",
            Exit.CONFIG,
        ) from error
