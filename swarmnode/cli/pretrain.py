"""`swarmnode pretrain`: a small language model over domains of text, under any scheduler."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.loading import load
from swarmnode.cli.options import Assignments

if TYPE_CHECKING:
    from swarmnode.config.settings import Settings
    from swarmnode.pretraining.corpus import Domain
    from swarmnode.pretraining.folder import Row
    from swarmnode.pretraining.run import Finished
    from swarmnode.progress import Step

LINE_EVERY_SECONDS = 5.0


def pretrain(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG.toml", help="The file that names the texts.")
    ],
    steps: Annotated[int | None, typer.Option(help="Optimizer steps.")] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Who decides what is read next: uniform, odm, hds, …")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed of everything.")] = None,
    assignment: Assignments = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the results, runs/DATE-TIME by default; a run goes on."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON, progress to stderr.")
    ] = False,
) -> None:
    """Train a small language model on your texts and write a report.

    docs/pretraining.md begins at the beginning.
    """
    flags: dict[str, object] = {
        "pretraining.steps": steps,
        "scheduling.kind": scheduler,
        "pretraining.seed": seed,
    }
    settings = load(config, assignment or [], flags)
    if len(settings.pretraining.domains) < 2:
        raise Mistake(
            f"{config} names fewer than two domains of text; give each a table"
            " [[pretraining.domains]] with name and path",
            Exit.CONFIG,
        )
    folder = out or Path("runs") / time.strftime("%Y-%m-%d-%H%M%S")
    stream = sys.stderr if as_json else sys.stdout
    finished = _run(settings, config.absolute().parent, folder, _Lines(stream, settings))
    report = _report(folder, finished, settings)
    if as_json:
        sys.stdout.write((folder / "summary.json").read_text(encoding="utf-8"))
    else:
        stream.write(f"report: {report}\n")
    if not finished.complete:
        stream.write(f"stopped; the same command with --out {folder} goes on\n")
        raise typer.Exit(Exit.INTERRUPTED)


def _run(settings: Settings, beside: Path, folder: Path, lines: _Lines) -> Finished:
    from swarmnode.paths import cache_folder
    from swarmnode.policy.checkpoint import CheckpointError
    from swarmnode.policy.names import UnusableModel
    from swarmnode.pretraining.folder import OtherSettings
    from swarmnode.pretraining.run import pretrain as run
    from swarmnode.pretraining.run import sources_of
    from swarmnode.pretraining.sources import CorpusError
    from swarmnode.progress import listening

    cache = cache_folder(os.environ) / "corpora"
    try:
        with _interruptible() as asked:

            def told(step: Step) -> None:
                if asked:
                    # Of texts that are half prepared there is nothing to keep.
                    raise KeyboardInterrupt
                lines.preparing(step)

            sources = sources_of(settings, beside)
            with listening(told):
                return run(settings, sources, folder, cache, lines, lambda: bool(asked))
    except (CorpusError, OtherSettings) as error:
        raise Mistake(str(error), Exit.CONFIG) from error
    except UnusableModel as error:
        # No model is opened here: it can only be about the device.
        raise Mistake(f"{error}", Exit.CONFIG) from error
    except CheckpointError as error:
        raise Mistake(str(error), Exit.FAILURE) from error
    except OSError as error:
        raise Mistake(
            f"{error.filename or folder}: {error.strerror}; what was trained is kept in {folder}, "
            "make room and give the same command with --out",
            Exit.FAILURE,
        ) from error
    finally:
        lines.prepared()


@contextmanager
def _interruptible() -> Iterator[list[int]]:
    """The first Ctrl-C, or SIGTERM, puts its number into the list; the second ends everything."""
    asked: list[int] = []

    def take(number: int, _frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before = {each: signal.signal(each, take) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _report(folder: Path, finished: Finished, settings: Settings) -> Path:
    from swarmnode.pretraining.report import write_report

    try:
        return write_report(folder, finished, settings, shlex.join(["swarmnode", *sys.argv[1:]]))
    except OSError as error:
        raise Mistake(
            f"{error.filename or folder} cannot be written: {error.strerror}; make room and give "
            "the same command with --out",
            Exit.FAILURE,
        ) from error


class _Lines:
    """Progress on one stream; on stderr while texts are prepared."""

    def __init__(self, stream: TextIO, settings: Settings) -> None:
        from swarmnode.cli.start_screen import StartScreen

        self._stream = stream
        self._screen = StartScreen()
        self._steps = settings.pretraining.steps
        self._kind = settings.scheduling.kind
        self._started = self._last_line = time.monotonic()

    def preparing(self, step: Step) -> None:
        """Show how far the texts are."""
        self._screen.show(step)

    def prepared(self) -> None:
        """Show that no longer; it may be called again."""
        self._screen.show(None)

    def ready(self, domains: Sequence[Domain], parameters: int, steps: int) -> None:
        """Say what is about to happen."""
        self.prepared()
        size = sum(domain.facts.bytes for domain in domains) / 1e6
        names = ", ".join(domain.facts.name for domain in domains)
        self._say(f"texts     {size:.1f} MB: {names}")
        self._say(f"training  {parameters:,} parameters, scheduler {self._kind}")
        if steps:
            self._say(f"going on after step {steps}")
        self._started = time.monotonic()

    def row(self, row: Row) -> None:
        """Not every step gets a line."""
        now = time.monotonic()
        if row.validation is None and now - self._last_line < LINE_EVERY_SECONDS:
            return
        self._last_line = now
        told = f"step {row.step:>5}/{self._steps}"
        known = [loss for loss in row.losses if loss is not None]
        if known:
            told += f"  loss {sum(known) / len(known):.3f}"
        if row.validation is not None:
            told += f"  validation {sum(row.validation) / len(row.validation):.3f}"
        self._say(f"{told}  {now - self._started:.0f} s")

    def _say(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()
