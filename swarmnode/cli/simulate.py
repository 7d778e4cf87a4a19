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

from swarmnode.cli.clusters import check_cluster
from swarmnode.cli.comparing import (
    MIX,
    Comparison,
    mix_flags,
    mix_name,
    parse_comparison,
    parse_mix,
)
from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.loading import check_tasks, load
from swarmnode.cli.options import Assignments, Config, MixText, Tasks

if TYPE_CHECKING:
    from swarmnode.cli.screen import Screen
    from swarmnode.config.settings import Settings
    from swarmnode.sim.study import Arm
    from swarmnode.sim.summary import Run

MOST_SEEDS = 1000


def simulate(
    nodes: Annotated[int | None, typer.Option(help="Nodes in the swarm.")] = None,
    mix: MixText = None,
    questions: Annotated[
        int | None, typer.Option(help="Questions a node answers in a round.")
    ] = None,
    completions: Annotated[int | None, typer.Option(help="Answers sampled per question.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds that every node goes through.")] = None,
    task: Tasks = None,
    level: Annotated[
        str | None, typer.Option(help="Level of tasks that name none: easy or paper.")
    ] = None,
    filter: Annotated[
        str | None, typer.Option(help="Filter that picks the external groups.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="MODEL", help="Models, given to the nodes in turn; repeatable."),
    ] = None,
    skills: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TASK+TASK", help="Tasks that a node's warm start teaches; repeatable."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed of everything.")] = None,
    attack: Annotated[
        str | None, typer.Option(help="What attackers do: docs/attacks.md has the list.")
    ] = None,
    attackers: Annotated[
        int | None, typer.Option(help="Attacking nodes beside the honest ones, 1 by default.")
    ] = None,
    assignment: Assignments = None,
    config: Config = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the results, runs/DATE-TIME by default; finished runs are kept."
        ),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            help="Mixes to compare, such as 8/0,6/2,4/4, or values of a setting, such as "
            "scheduling.kind=uniform,sec,hds."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Seeds that each variant is run with.")] = 1,
    real: Annotated[
        bool,
        typer.Option("--real", help="Real processes on a real network of loopback, in real time."),
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="ray, or ray:HOST:PORT: policies compute on the machines of a Ray cluster."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON, progress to stderr.")
    ] = False,
) -> None:
    """Run a swarm of nodes on this machine and write a report.

    docs/settings.md has the defaults, and what else can be set.
    """
    comparison = parse_comparison(compare) if compare else None
    if mix and comparison and comparison.what == MIX:
        raise Mistake("give --mix for one mix or --compare for several, not both")
    if real and (compare or seeds != 1):
        raise Mistake("--real runs one variant once; leave --compare and --seeds out")
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
        "simulation.attack": attack,
        "simulation.attackers": attackers,
        "simulation.cluster": cluster,
    }
    if mix:
        flags |= mix_flags(parse_mix(mix))
    settings = load(config, assignment or [], flags)
    if attackers is not None and settings.simulation.attack == "none":
        raise Mistake("--attackers needs --attack NAME; docs/attacks.md has the names")
    if settings.simulation.cluster:
        if real:
            raise Mistake("--cluster is for simulations in memory; leave --real out")
        check_cluster(settings.simulation.cluster, os.environ)
    if real and settings.simulation.attack != "none":
        raise Mistake("--attack is for simulations in memory; leave --real out")
    rounds_of = settings.rounds
    own_mix = (rounds_of.local_groups_per_round, rounds_of.external_groups_per_round)
    comparison = comparison or Comparison(MIX, {mix_name(own_mix): {}})
    _check_seeds(settings.simulation.seed, seeds)
    # Through the settings, so that every variant is held against their ranges.
    variants = {
        name: load(config, assignment or [], flags | dict(own))
        for name, own in comparison.variants.items()
    }
    for each in variants.values():
        check(each)
    _run(settings, comparison.what, variants, seeds, out, real=real, as_json=as_json)


def _check_seeds(seed: int, seeds: int) -> None:
    if not 1 <= seeds <= MOST_SEEDS:
        raise Mistake(f"--seeds must be 1 to {MOST_SEEDS}; each is a whole run of every variant")
    if seed + seeds > 2**32:
        raise Mistake(f"--seed {seed} with --seeds {seeds} goes beyond the last seed, {2**32 - 1}")


def check(settings: Settings) -> None:
    """Whatever can be known to be wrong before anything is started."""
    from swarmnode.policy.names import UnknownModel, model_kind
    from swarmnode.scheduling.tasks import UnusableScheduler, check_for_node
    from swarmnode.selection.filters import UnknownFilter, draw_rule, load_filter
    from swarmnode.sim.attacks.forging import LOOPHOLE_TASK

    rounds = settings.rounds
    if rounds.local_groups_per_round + rounds.external_groups_per_round == 0:
        raise Mistake("a mix of 0/0 trains on nothing; take at least one group, such as 8/0")
    if rounds.questions == 0:
        raise Mistake(
            "no node would ask anything, so that there is nothing to train on; give --questions "
            "at least 1 (without it, a node asks as many as the mix has local groups)"
        )
    check_tasks(settings)
    try:
        load_filter(settings.selection.filter, draw_rule(settings.selection.draw))
        for model in (settings.policy.model, *settings.simulation.models):
            model_kind(model)
        check_for_node(settings.scheduling, len(settings.tasks.pairs))
    except (UnknownFilter, UnknownModel, UnusableScheduler, ValueError) as error:
        raise Mistake(str(error)) from error
    tasks = {task for task, _ in settings.tasks.pairs}
    for skills in settings.simulation.skills:
        unknown = set(skills.split("+")) - tasks - {"all"}
        if unknown:
            raise Mistake(
                f"--skills {skills}: {', '.join(sorted(unknown))} is not among the tasks of this "
                f"swarm ({', '.join(sorted(tasks))})"
            )
    if settings.simulation.attack == "loophole" and LOOPHOLE_TASK not in tasks:
        raise Mistake(
            f"--attack loophole is about one task: add --task {LOOPHOLE_TASK}:paper beside others, "
            f"whose verifier can be gamed, or {LOOPHOLE_TASK}:easy, whose can't"
        )


def _run(
    settings: Settings,
    compared: str,
    variants: Mapping[str, Settings],
    seeds: int,
    out: Path | None,
    *,
    real: bool,
    as_json: bool,
) -> None:
    from swarmnode.cli.screen import Screen
    from swarmnode.cluster.cluster import ClusterError
    from swarmnode.paths import cache_folder
    from swarmnode.process import ChildError, ChildRefused
    from swarmnode.sim.study import arms, run_study

    folder = out or Path("runs") / time.strftime("%Y-%m-%d-%H%M%S")
    cache = cache_folder(os.environ) / "warm-starts"
    study = arms(variants, seeds)
    _prepare(study, folder, cache)
    screen = Screen(sys.stderr if as_json else sys.stdout, compared)
    screen.starting(settings, len(study))
    try:
        if real:
            runs, complete = _real_runs(study[0], folder, cache.parent, screen)
        else:
            runs, complete = run_study(
                study,
                folder,
                environment=os.environ,
                cache=cache,
                progress=screen,
                said=screen.note,
            )
        report = _report(folder, runs, settings, compared, complete=complete) if runs else None
    except ChildRefused as error:
        raise Mistake(str(error), Exit.CONFIG) from error
    except ClusterError as error:
        raise Mistake(
            f"{error}; finished runs are kept in {folder}, give the same command with --out",
            Exit.FAILURE,
        ) from error
    except ChildError as error:
        raise Mistake(f"{error}; its own message is above", Exit.FAILURE) from error
    except OSError as error:
        raise Mistake(
            f"{error.filename or folder}: {error.strerror}; finished runs are kept in {folder}, "
            "make room and give the same command with --out",
            Exit.FAILURE,
        ) from error
    if report is None:
        raise Mistake(
            "stopped before a round had ended; there is nothing to report", Exit.INTERRUPTED
        )
    if as_json:
        sys.stdout.write((folder / "summary.json").read_text(encoding="utf-8"))
    else:
        screen.finish(runs, report, settings.simulation.attack)
    if not complete:
        raise typer.Exit(Exit.INTERRUPTED)


def _real_runs(arm: Arm, folder: Path, cache: Path, screen: Screen) -> tuple[Sequence[Run], bool]:
    """One run of real processes, and whether it is whole."""
    from swarmnode.sim.real import RealSwarmError, real_environment, run_real
    from swarmnode.sim.summary import Run, last_round

    environment = real_environment(os.environ, cache)
    try:
        reports, complete = run_real(arm.settings, folder, environment, screen)
    except RealSwarmError as error:
        raise Mistake(str(error), Exit.FAILURE) from error
    run = Run(arm.variant, arm.seed, reports)
    return [run] if last_round(reports) >= 1 else [], complete


def _prepare(study: Sequence[Arm], folder: Path, cache: Path) -> None:
    _make(cache, "choose another folder with the environment variable SWARMNODE_HOME")
    _make(folder, "choose another folder with --out")
    _make(folder / "runs", "choose another folder with --out")
    for arm in study:
        _refuse_other_settings(arm, folder)


def _report(
    folder: Path, runs: Sequence[Run], settings: Settings, compared: str, *, complete: bool
) -> Path:
    from swarmnode.sim.report import write_report
    from swarmnode.tasks import baseline

    return write_report(
        folder,
        runs,
        settings,
        compared=compared,
        complete=complete,
        command=shlex.join(["swarmnode", *sys.argv[1:]]),
        baselines={task: baseline(task, level) for task, level in settings.tasks.pairs},
    )


def _make(folder: Path, remedy: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise Mistake(
            f"{folder} cannot be written: {error.strerror}; {remedy}", Exit.CONFIG
        ) from error


def _refuse_other_settings(arm: Arm, out: Path) -> None:
    """A finished run is never overwritten by one with other settings."""
    run = arm.folder(out)
    if (run.path / "done").exists() and not run.finished(arm.settings):
        raise Mistake(
            f"{run.path} holds a finished run with other settings; choose another folder with "
            "--out, or delete that one",
            Exit.CONFIG,
        )
