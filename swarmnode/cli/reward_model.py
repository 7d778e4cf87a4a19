"""`swarmnode reward-model train`: a reward model out of preference pairs or signals of users."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.groups import group_of_commands

if TYPE_CHECKING:
    from collections.abc import Iterator

    from swarmnode.reward_models.comparisons import Comparisons
    from swarmnode.reward_models.findings import Findings
    from swarmnode.reward_models.recipe import Recipe, Trained

LINE_EVERY_SECONDS = 5.0
REPORT = "figures.json"

reward_model = group_of_commands("Train a model that judges answers.")


@reward_model.command()
def train(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.jsonl",
            help="prompt, chosen, rejected or prompt, completion, signal in each line.",
        ),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write; not there yet.")],
    base: Annotated[
        str | None,
        typer.Option(
            "--model", help="What to begin with: a folder or an id of the hub; else a small one."
        ),
    ] = None,
    epochs: Annotated[int, typer.Option(help="Times over the data.", min=1)] = 3,
    batch_size: Annotated[int, typer.Option(help="Comparisons of a step.", min=1)] = 16,
    learning_rate: Annotated[float | None, typer.Option(help="The highest one.", min=0.0)] = None,
    held_out: Annotated[
        float, typer.Option(help="Share of the prompts to examine it on.", min=0.01, max=0.9)
    ] = 0.2,
    max_tokens: Annotated[
        int, typer.Option(help="Of prompt and answer together.", min=8, max=32_768)
    ] = 512,
    seed: Annotated[int, typer.Option(help="Random seed of everything.", min=0)] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="The figures as JSON, progress to stderr.")
    ] = False,
) -> None:
    """Train a reward model and say how well it judges what it never saw.

    docs/reward-channels.md says how a policy is paid by it.
    """
    from swarmnode.exporting import TakenFolder, check_free
    from swarmnode.reward_models.recipe import Recipe

    try:
        check_free(out)
    except TakenFolder as error:
        raise Mistake(str(error), Exit.CONFIG) from error
    recipe = Recipe(base or "", epochs, batch_size, learning_rate, max_tokens, seed)
    lines = _Lines(sys.stderr if as_json else sys.stdout)
    data, made = _trained(file, recipe, held_out, lines)
    report = {
        **made.findings.as_json(),
        "comparisons_learned": len(data.every) - made.findings.comparisons,
        "left_out": data.left_out + made.left_out,
        "steps": made.steps,
        "held_out_share": held_out,
        "recipe": asdict(recipe),
    }
    _write(made, report, out)
    if as_json:
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
    lines.result(made.findings, out)


def _trained(
    file: Path, recipe: Recipe, share: float, lines: _Lines
) -> tuple[Comparisons, Trained]:
    from swarmnode.policy.names import UnusableModel
    from swarmnode.reward_models.comparisons import UnusableData, read_comparisons, split
    from swarmnode.reward_models.recipe import train_reward_model, without_progress_bars

    without_progress_bars()
    try:
        data = read_comparisons(file)
        learned, held = split(data.every, share, recipe.seed)
        lines.data(len(learned), len(held), data.left_out)
        return data, train_reward_model(recipe, learned, held, lines.step)
    except UnusableData as error:
        raise Mistake(str(error), Exit.CONFIG) from error
    except UnusableModel as error:
        raise Mistake(f"{recipe.base}: {error}", Exit.CONFIG) from error
    except OSError as error:
        raise Mistake(
            f"{error.filename or file} cannot be read: {error.strerror}; check the path",
            Exit.CONFIG,
        ) from error


def _write(made: Trained, report: object, out: Path) -> None:
    """The folder is whole or not there."""
    try:
        with _beside(out) as folder:
            made.save(folder)
            (folder / REPORT).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
            folder.chmod(0o755)
            for path in folder.iterdir():
                # Some writers make files for this user alone.
                path.chmod(0o644)
            os.replace(folder, out)
    except OSError as error:
        raise Mistake(
            f"{error.filename or out} cannot be written: {error.strerror}; choose another place",
            Exit.CONFIG,
        ) from error


@contextmanager
def _beside(out: Path) -> Iterator[Path]:
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.absolute().parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Lines:
    """Progress on one stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last = time.monotonic()

    def data(self, learned: int, held: int, left_out: int) -> None:
        """Say what was read."""
        silent = f", {left_out} lines say nothing" if left_out else ""
        self._say(f"comparisons  {learned} to learn from, {held} held out{silent}")

    def step(self, done: int, steps: int, loss: float) -> None:
        """Not every step gets a line."""
        if done == steps or time.monotonic() - self._last > LINE_EVERY_SECONDS:
            self._last = time.monotonic()
            self._say(f"step {done:>5}/{steps}  loss {loss:.3f}")

    def result(self, found: Findings, out: Path) -> None:
        """Say what it is worth."""
        right, length = found.accuracy, found.length_correlation
        self._say(
            f"accuracy     {right.mean:.1%} of {found.comparisons} held-out comparisons, "
            f"95 % interval {right.low:.1%} to {right.high:.1%} over {found.prompts} prompts"
        )
        if not math.isnan(length.mean):
            self._say(
                f"length       correlation with the score {length.mean:+.2f} "
                f"({length.low:+.2f} to {length.high:+.2f})"
            )
        if not math.isnan(found.model_prefers_shorter):
            self._say(
                f"shorter      preferred in {found.model_prefers_shorter:.0%} of held-out pairs, "
                f"by the data in {found.data_prefers_shorter:.0%}"
            )
        if found.warning:
            self._say(f"look out: {found.warning}")
        self._say(f"written      {out}")

    def _say(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()
