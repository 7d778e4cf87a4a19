"""The wiring of a pre-training run: texts, model, scheduler and trainer, files and report.

A run that was stopped or killed goes on from its last checkpoint and comes to the same rows and
weights as one that was not, on the same machine, libraries and threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from swarmnode.config.scheduling import Scheduling
from swarmnode.config.settings import Settings
from swarmnode.policy.checkpoint import save_checkpoint
from swarmnode.policy.device import choose_device
from swarmnode.policy.plain_state import load_state, save_state
from swarmnode.pretraining.corpus import Domain, open_corpus
from swarmnode.pretraining.export import save_model
from swarmnode.pretraining.folder import Row, RunFolder, first_row, row_of
from swarmnode.pretraining.model import ByteModel
from swarmnode.pretraining.prepare import Cut, prepared
from swarmnode.pretraining.sources import CorpusError, Source
from swarmnode.pretraining.trainer import Trainer
from swarmnode.scheduling.agent.build import Scheduled, build
from swarmnode.scheduling.kinds import WITHOUT_GRADIENTS
from swarmnode.scheduling.simplex import normalised


class Progress(Protocol):
    """What a run tells while it goes on."""

    def ready(self, domains: Sequence[Domain], parameters: int, steps: int) -> None:
        """Texts and model are there; so many steps were made by an earlier call."""

    def row(self, row: Row) -> None:
        """A step was made."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What a run came to."""

    rows: Sequence[Row]
    domains: Sequence[Domain]
    parameters: int
    """Of the model."""
    static: Sequence[float]
    """Shares in proportion to the texts, or those of the settings."""
    complete: bool
    """Whether all steps were made; else the run was stopped."""


def sources_of(settings: Settings, beside: Path) -> list[Source]:
    """Where the texts are; relative paths are taken from the folder `beside`."""
    return [
        Source(each.name, beside / each.path, each.field) for each in settings.pretraining.domains
    ]


def pretrain(
    settings: Settings,
    sources: Sequence[Source],
    out: Path,
    cache: Path,
    progress: Progress,
    stopped: Callable[[], bool],
    clock: Callable[[], float] = time.perf_counter,
) -> Finished:
    """Train, or go on training, until all steps are made or `stopped` says so.

    `clock`, in seconds, measures what the parts of a step take.
    Raises CorpusError, OtherSettings, CheckpointError, UnusableModel, OSError.
    """
    chosen = settings.pretraining
    cut = Cut(chosen.context, chosen.validation_sequences, chosen.most_bytes_per_domain)
    corpus = prepared(sources, cut, cache)
    domains = open_corpus(corpus, chosen.context)
    model = ByteModel(
        chosen.model, chosen.context, chosen.seed, choose_device(settings.policy.device)
    )
    static = static_shares(settings.scheduling, domains)
    trainer = _trainer(settings, domains, model, static, clock)
    folder = RunFolder(out)
    checkpoint = folder.begin(settings, corpus.name)
    if checkpoint is not None:
        trainer.load_state_dict(load_state(checkpoint))
    rows = folder.keep_rows(None if checkpoint is None else trainer.steps)
    progress.ready(domains, model.size, trainer.steps)
    complete = _train(trainer, folder, settings, progress, stopped, begun=bool(rows))
    save_model(model, folder.model)
    return Finished(folder.rows(), domains, model.size, static, complete)


def static_shares(settings: Scheduling, domains: Sequence[Domain]) -> Sequence[float]:
    """The shares of the settings, or in proportion to the bytes of text. Raises CorpusError."""
    shares = settings.static_weights or [domain.facts.bytes for domain in domains]
    if len(shares) != len(domains):
        raise CorpusError(
            f"scheduling.static_weights has {len(shares)} shares for {len(domains)} domains; give"
            " one for each, in their order"
        )
    return normalised(shares)


def _trainer(
    settings: Settings,
    domains: Sequence[Domain],
    model: ByteModel,
    static: Sequence[float],
    clock: Callable[[], float],
) -> Trainer:
    chosen = settings.pretraining
    scheduling = settings.scheduling.model_copy(update={"static_weights": tuple(static)})
    scheduled = Scheduled(
        domains=len(domains),
        layers=len(model.watched()),
        model_parameters=model.size,
        total_steps=chosen.steps,
        seed=chosen.seed,
    )
    gradients = settings.scheduling.kind not in WITHOUT_GRADIENTS
    scheduler = build(scheduling, scheduled)
    return Trainer(model, domains, scheduler, chosen, gradients=gradients, clock=clock)


def _train(
    trainer: Trainer,
    folder: RunFolder,
    settings: Settings,
    progress: Progress,
    stopped: Callable[[], bool],
    *,
    begun: bool,
) -> bool:
    """Make the steps that are left; whether all were made."""
    chosen = settings.pretraining
    if not begun:
        row = first_row(trainer.validate())
        folder.append(row)
        progress.row(row)
    while trainer.steps < chosen.steps:
        step = trainer.step()
        last = step.number == chosen.steps
        validated = last or step.number % chosen.validate_every == 0
        row = row_of(step, trainer.validate() if validated else None)
        folder.append(row)
        progress.row(row)
        over = last or stopped()
        if over or step.number % chosen.checkpoint_every == 0:
            _save(trainer, folder)
        if over and not last:
            return False
    return True


def _save(trainer: Trainer, folder: RunFolder) -> None:
    state = trainer.state_dict()

    def write(temporary: Path) -> None:
        save_state(state, temporary)

    save_checkpoint(folder.checkpoints, trainer.steps, _size(state), write)


def _size(tree: Any) -> int:
    """About the bytes that a state takes on disk."""
    if isinstance(tree, torch.Tensor):
        return tree.nbytes
    if isinstance(tree, dict):
        return sum(map(_size, tree.values()))
    if isinstance(tree, list | tuple):
        return sum(map(_size, tree))
    return 16
