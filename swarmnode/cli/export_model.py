"""`swarmnode export model`: a checkpoint as a folder that transformers loads."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swarmnode.cli.checkpoints import Place, Step, chosen_checkpoint
from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.loading import load
from swarmnode.cli.running import reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmnode.cli.checkpoints import Chosen
    from swarmnode.config.settings import Settings
    from swarmnode.exporting import Export
    from swarmnode.types import RoundReport


def export_model(
    out: Annotated[Path, typer.Option(help="The folder to write; it must not be there yet.")],
    place: Place = None,
    step: Step = None,
    adapter: Annotated[
        bool,
        typer.Option(
            "--adapter/--merged", help="The adapter alone, or (the default) the whole model."
        ),
    ] = False,
) -> None:
    """Write a checkpoint's policy as a folder that transformers loads, with a model card.

    AutoModelForCausalLM.from_pretrained and AutoTokenizer.from_pretrained read it; nothing of
    swarmnode is needed for that.
    """
    from swarmnode.exporting import Export, TakenFolder, check_free

    try:
        check_free(out)
    except (TakenFolder, OSError) as error:
        raise _unusable(error, out) from error
    chosen = chosen_checkpoint(place, step)
    earlier = chosen.origin.settings
    settings = load(None, [], {} if earlier else {"policy.model": chosen.told.model}, earlier)
    if adapter and not settings.policy.lora.rank:
        raise Mistake(
            f"{chosen.told.model} was trained as a whole and has no adapter; leave --adapter out"
        )
    form = "adapter" if adapter else "merged"
    card = _card(chosen, settings, form)
    _write(Export(settings, chosen.path, form, card, out.absolute(), dict(os.environ)))
    sys.stdout.write(
        f"{chosen.path.name} of {chosen.told.model}, round {chosen.origin.round}: {out}\n"
        f"next: swarmnode push {out} NAME/REPOSITORY\n"
    )


def _card(chosen: Chosen, settings: Settings, form: str) -> str:
    from swarmnode.cli.model_card import Facts, model_card

    origin = chosen.origin
    return model_card(
        Facts(
            model=chosen.told.model,
            version=chosen.told.version,
            round=origin.round,
            pairs=settings.tasks.pairs if origin.settings else (),
            swarm_id=origin.swarm_id,
            swarm_name=origin.swarm_name,
            temperature=settings.policy.temperature,
            examples=settings.policy.shown_examples,
            instruction=settings.policy.instruction,
            form=form,
            reports=_reports(chosen),
        )
    )


def _reports(chosen: Chosen) -> Sequence[RoundReport]:
    """The rounds of its home up to the checkpoint; none where it lies alone."""
    from swarmnode.reports import report_from_json
    from swarmnode.store.reading import stored_rounds

    if chosen.home is None:
        return []
    with reading(chosen.home.database):
        stored = stored_rounds(chosen.home.database)
    return [report_from_json(each.report) for each in stored if each.number <= chosen.origin.round]


def _write(export: Export) -> None:
    from swarmnode.exporting import TakenFolder, write_export
    from swarmnode.process import ChildError, ChildRefused

    try:
        write_export(export)
    except (TakenFolder, OSError) as error:
        raise _unusable(error, export.folder) from error
    except ChildRefused as error:
        raise Mistake(str(error), Exit.CONFIG) from error
    except ChildError as error:
        raise Mistake(str(error), Exit.FAILURE) from error


def _unusable(error: Exception, folder: Path) -> Mistake:
    if isinstance(error, OSError):
        return Mistake(
            f"{error.filename or folder} cannot be written: {error.strerror}; choose another "
            "folder with --out",
            Exit.CONFIG,
        )
    return Mistake(str(error), Exit.CONFIG)
