"""What the two words of `swarmnode compare` mean, and how each of the two policies is asked.

A word is a folder (a home, the --out of a training run, a checkpoint, an exported model), a
built-in model or the id of one of the hub. Only reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swarmnode.cli.checkpoints import Chosen, chosen_checkpoint
from swarmnode.cli.exits import Mistake
from swarmnode.cli.loading import check_tasks, load
from swarmnode.cli.running import check_open_to_us

if TYPE_CHECKING:
    from swarmnode.config.settings import Settings


@dataclass(frozen=True, slots=True)
class Named:
    """What a word means: a checkpoint, or a model as it is."""

    chosen: Chosen | None
    model: str | None

    @property
    def earlier(self) -> Mapping[str, Any] | None:
        """The settings of the run that it is from."""
        return self.chosen.origin.settings if self.chosen else None


def named(word: str) -> Named:
    """Raises Mistake."""
    from swarmnode.policy.names import BUILT_IN, UnknownModel, model_kind

    path = Path(word).expanduser()
    if word not in BUILT_IN and path.is_dir():
        check_open_to_us(path)
        if (path / "config.json").exists():
            return Named(None, str(path.absolute()))
        return Named(chosen_checkpoint(path, None), None)
    try:
        model_kind(word)
    except UnknownModel as error:
        raise Mistake(str(error)) from error
    return Named(None, word)


def settings_of(
    one: Named, other: Named, config: Path | None, assignments: Sequence[str]
) -> Settings:
    """The settings that make `one` and say how it is asked. Raises Mistake.

    A checkpoint is asked as in its run. A model that is no part of a run is asked like the other
    policy, if that one is: with its examples, instruction, temperature and longest answer. So a
    model beside what was trained from it, or an export of another trainer, answers the same
    prompts.
    """
    if one.earlier is not None:
        return load(config, assignments, {}, one.earlier)
    if other.earlier is None:
        return load(config, assignments, {"policy.model": one.model})
    run = load(config, assignments, {}, other.earlier)
    # A revision is one of the run's own model.
    revision = run.policy.revision if one.model == run.policy.model else "main"
    asked = run.policy.model_copy(
        update={
            "model": one.model,
            "revision": revision,
            "examples": run.policy.shown_examples,
            "max_new_tokens": run.policy.new_tokens,
            "lora": run.policy.lora.model_copy(update={"rank": 0}),
        }
    )
    return run.model_copy(update={"policy": asked})


def pairs_of(
    both: tuple[Named, Named],
    config: Path | None,
    assignments: Sequence[str],
    flags: Mapping[str, object],
) -> tuple[Sequence[tuple[str, str]], int]:
    """Tasks with their levels, and how many questions of each.

    Without tasks that are named in `flags`, those of the run; of two runs what they share. Raises
    Mistake.
    """
    asked = [load(config, assignments, flags, one.earlier) for one in both if one.earlier]
    asked = asked or [load(config, assignments, flags)]
    for settings in asked:
        check_tasks(settings)
    first = asked[0].tasks.pairs
    shared = [pair for pair in first if all(pair in each.tasks.pairs for each in asked)]
    if not shared:
        raise Mistake("the two runs have no task in common: say which are asked, with --task")
    return shared, asked[0].evaluation.questions_per_task
