"""The training step of pre-training: draw by the shares, learn, tell the scheduler what came of it.

A step's sequences go through the model domain by domain and add up their gradients; what the sum
changed by is a domain's gradient, which costs no backward pass of its own. Knows no files; what it
is given and what its state holds is all that its future depends on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from swarmnode.config.pretraining import Pretraining
from swarmnode.pretraining.corpus import Domain, Rows
from swarmnode.pretraining.model import ByteModel, optimizer_of
from swarmnode.pretraining.order import counts, drawn_by, place
from swarmnode.scheduling.agent.gradients import DomainGradients, LayerChanges
from swarmnode.scheduling.scheduler import ByDomain, Outcome, Scheduler, State, advance, beginning

PARTS = ("data", "model", "gradients", "scheduler")
"""What a step's time is split into."""

_ORDER, _DRAW = 1, 2
"""Beside the seed, so that order and draws don't follow from one another."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a step was."""

    number: int
    """From 1 on."""
    shares: Sequence[float]
    """Those of the scheduler."""
    sequences: Sequence[int]
    """By domain."""
    losses: ByDomain
    """Nats a token, of the step's own sequences before the step."""
    learning_rate: float
    metrics: Mapping[str, float]
    """The scheduler's."""
    seconds: Mapping[str, float]
    """By part."""


class Trainer:
    """A model, a corpus and a scheduler in training."""

    def __init__(
        self,
        model: ByteModel,
        domains: Sequence[Domain],
        scheduler: Scheduler,
        settings: Pretraining,
        *,
        gradients: bool,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`gradients`: whether the scheduler asks for the domains' gradients.

        `clock`, in seconds, measures what the parts of a step take.
        """
        self._model = model
        self._domains = domains
        self._scheduler = scheduler
        self._settings = settings
        self._gradients = gradients
        self._clock = clock
        self._optimizer = optimizer_of(model, settings.learning_rate, settings.weight_decay)
        self._aligned = model.aligned(settings.alignment_layers)
        self._changes = LayerChanges(model.watched())
        self._read = [0] * len(domains)
        self._state = beginning(
            len(domains), total_steps=settings.steps, smoothing=settings.loss_smoothing
        )
        self._validated: ByDomain | None = None
        self._seconds = dict.fromkeys(PARTS, 0.0)

    @property
    def steps(self) -> int:
        """Steps made."""
        return self._state.step

    @property
    def read(self) -> Sequence[int]:
        """Sequences of each domain so far."""
        return tuple(self._read)

    def step(self) -> Step:
        """Make one."""
        self._seconds = dict.fromkeys(PARTS, 0.0)
        number, settings = self._state.step, self._settings
        with self._timed("scheduler"):
            shares = tuple(self._scheduler.weights(self._state))
        with self._timed("data"):
            sequences = counts(
                shares,
                settings.sequences_per_step,
                settings.floor_sequences,
                settings.seed,
                _DRAW,
                number,
            )
            rows, diversity = self._drawn(sequences)
        losses, products = self._learn(rows, sequences)
        with self._timed("gradients"):
            norms, changes = self._changes.taken()
        outcome = Outcome(
            weights=drawn_by(shares, settings.sequences_per_step, settings.floor_sequences),
            samples=tuple(map(float, sequences)),
            losses=self._told(losses),
            diversity=diversity,
            gradient_products=products,
            layer_norms=norms,
            layer_changes=changes,
        )
        with self._timed("scheduler"):
            metrics = self._scheduler.update(outcome)
            self._state = advance(self._state, outcome)
        return Step(
            number=number + 1,
            shares=shares,
            sequences=sequences,
            losses=losses,
            learning_rate=self._rate(number),
            metrics=dict(metrics),
            seconds=dict(self._seconds),
        )

    def validate(self) -> tuple[float, ...]:
        """Nats a token of each domain's validation rows."""
        with torch.no_grad():
            found = tuple(
                sum(float(self._model.loss(rows)) for rows in self._at_once(domain.validation))
                / _predicted(domain.validation)
                for domain in self._domains
            )
        self._validated = found
        return found

    def _told(self, losses: ByDomain) -> ByDomain:
        if self._settings.state_losses == "training":
            return losses
        # Until the next validation the scheduler keeps what it knows.
        found, self._validated = self._validated, None
        return found or (None,) * len(losses)

    def _drawn(self, sequences: Sequence[int]) -> tuple[list[Rows | None], ByDomain]:
        """The rows of each domain, and their MTLD; None for a domain without any."""
        rows: list[Rows | None] = []
        diversity: list[float | None] = []
        for domain, count in enumerate(sequences):
            found = self._next(domain, count) if count else (None, None)
            rows.append(found[0])
            diversity.append(found[1])
            self._read[domain] += count
        return rows, tuple(diversity)

    def _next(self, domain: int, count: int) -> tuple[Rows, float | None]:
        first, of = self._read[domain], self._domains[domain].facts.rows
        key = (self._settings.seed, _ORDER, domain)
        return self._domains[domain].take(
            [place(first + ahead, of, *key) for ahead in range(count)]
        )

    def _learn(
        self, rows: Sequence[Rows | None], sequences: Sequence[int]
    ) -> tuple[ByDomain, tuple[ByDomain, ...]]:
        """Update the model; each domain's mean loss, and the products of their gradients."""
        settings = self._settings
        tokens = sum(sequences) * settings.context
        self._optimizer.zero_grad(set_to_none=True)
        taken = None
        if self._gradients:
            with self._timed("gradients"):
                taken = DomainGradients(self._aligned, len(sequences))
        losses: list[float | None] = []
        for domain, of_domain in enumerate(rows):
            if of_domain is None:
                losses.append(None)
                continue
            with self._timed("model"):
                summed = self._accumulate(of_domain, tokens)
                losses.append(float(summed) / _predicted(of_domain))
            if taken is not None:
                with self._timed("gradients"):
                    taken.took(domain, scale=_predicted(of_domain) / tokens)
        with self._timed("model"):
            self._update()
        with self._timed("gradients"):
            return tuple(losses), taken.products() if taken is not None else ()

    def _accumulate(self, rows: Rows, tokens: int) -> Tensor:
        """Add the gradient of the rows' loss over all tokens of the step; returns their loss."""
        summed = torch.zeros((), device=self._model.device)
        for some in self._at_once(rows):
            loss = self._model.loss(some)
            (loss / tokens).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            summed += loss.detach()
        return summed

    def _update(self) -> None:
        parameters = self._model.module.parameters()
        norm = torch.nn.utils.clip_grad_norm_(parameters, self._settings.clip_norm)
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate(self._state.step)
        # A step that would make the weights useless is left out; the loss tells of it.
        if math.isfinite(float(norm)):
            self._optimizer.step()

    def _rate(self, step: int) -> float:
        """The learning rate of the step with this number, from 0 on."""
        settings = self._settings
        rise = min(1.0, (step + 1) / settings.rise_steps) if settings.rise_steps else 1.0
        if settings.learning_rate_schedule == "constant":
            return settings.learning_rate * rise
        done = min(1.0, step / settings.steps)
        return settings.learning_rate * rise * (0.55 + 0.45 * math.cos(math.pi * done))

    def _at_once(self, rows: Rows) -> Iterator[Tensor]:
        for start in range(0, len(rows), self._settings.sequences_at_once):
            some = rows[start : start + self._settings.sequences_at_once].astype(np.int64)
            yield torch.from_numpy(some).to(self._model.device)

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        started = self._clock()
        yield
        self._seconds[part] += self._clock() - started

    def state_dict(self) -> dict[str, Any]:
        """All that the following steps depend on, beside what the trainer was made with."""
        return {
            "model": self._model.module.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "scheduler": self._scheduler.state_dict(),
            "state": self._state.to_values(),
            "read": list(self._read),
            "validated": None if self._validated is None else list(self._validated),
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave, bit for bit on the same machine and libraries."""
        self._model.module.load_state_dict(saved["model"])
        self._optimizer.load_state_dict(saved["optimizer"])
        self._scheduler.load_state_dict(saved["scheduler"])
        self._state = State.from_values(saved["state"])
        self._read = list(saved["read"])
        validated = saved["validated"]
        self._validated = None if validated is None else tuple(validated)
        self._changes = LayerChanges(self._model.watched())


def _predicted(rows: Rows) -> int:
    """Tokens that are predicted in rows."""
    return len(rows) * (int(rows.shape[1]) - 1)
