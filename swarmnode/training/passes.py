"""One round's passes over the model: forward and backward, in micro-batches that fit memory.

Holds the round's rows and how they are batched, never the optimizer. A micro-batch that runs out of
memory is halved; a row that does so alone recomputes its activations where the model can, and is
left out where it can't or that doesn't help. The attempt is then begun anew, so that nothing of a
failed one stays in the gradients. Invariant: how rows are batched changes neither loss nor
gradient, but for rounding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TypeVar

import torch
from torch import Tensor

from swarmnode.config.training import Training
from swarmnode.training.batches import TrainingBatch, training_batch
from swarmnode.training.covariance import restrained_tokens, token_covariances, token_draws
from swarmnode.training.groups import (
    GradientWatcher,
    RecomputingModel,
    ReferenceModel,
    TrainableModel,
)
from swarmnode.training.logprobs import chunked_statistics
from swarmnode.training.losses import TokenStatistics
from swarmnode.training.memory import ActivationCost, is_out_of_memory
from swarmnode.training.objective import BatchLoss, Fixed, batch_loss
from swarmnode.training.packing import micro_batches
from swarmnode.training.plan import TrainedRow
from swarmnode.training.records import divisor, token_record

OUT_OF_MEMORY = "steps/out_of_memory"
DROPPED = "groups/out_of_memory"
MPS_MULTIPLE = 64
"""MPS compiles each shape anew and keeps what it compiled: its shapes must not multiply."""

Rows = tuple[int, ...]
"""A micro-batch: positions in the round's rows."""
Result = TypeVar("Result")


class RoundPasses:
    """A round's rows under one policy; `longest` is the most tokens a completion may have.

    With `tasks`, one for each row, micro-batches are of one task each and tasks come one after the
    other, so that the gradient of a task is one difference; else rows are batched by length alone.
    """

    def __init__(
        self,
        model: TrainableModel,
        settings: Training,
        temperature: float,
        longest: int,
        rows: Sequence[TrainedRow],
        cost: ActivationCost | None,
        tasks: Sequence[str] | None = None,
    ) -> None:
        self._model = model
        self._settings = settings
        self._temperature = temperature
        self._longest = longest
        self._rows = rows
        self._parameters = [one for one in model.parameters() if one.requires_grad]
        self._device = self._parameters[0].device
        self._batches: dict[Rows, TrainingBatch] = {}
        self._old: dict[int, Tensor] = {}
        self._reference: dict[int, Tensor] = {}
        self._vocabulary = 0
        self.counts: Counter[str] = Counter()
        """Under names of `training.METRICS`."""
        self.dropped: set[int] = set()
        """Rows that were left out because they alone ran out of memory."""
        limit = settings.activation_limit_mib * 2**20
        lengths = [row.tree.length for row in rows]

        def fits(count: int, longest_row: int) -> bool:
            return cost is None or cost.bytes(count, longest_row) <= limit

        self._tasks = tasks or ("",) * len(rows)
        places = range(len(rows))
        self._layout: list[Rows] = [
            tuple(of_task[index] for index in chosen)
            for task in sorted(set(self._tasks))
            if (of_task := [place for place in places if self._tasks[place] == task])
            for chosen in micro_batches(
                [lengths[place] for place in of_task], settings.micro_batch_tokens, fits
            )
        ]
        self._recomputed = {index for index, length in enumerate(lengths) if not fits(1, length)}

    @property
    def old_logprobs(self) -> Mapping[int, Tensor]:
        """By row, those of its tokens under the policy at the start of the round; after
        `gradients`, and only of rows that fit."""
        return self._old

    @torch.no_grad()
    def look(self) -> Mapping[int, Tensor]:
        """The same without `gradients`, by a pass of its own."""
        while self._layout:
            found: dict[int, Tensor] = {}

            def kept(rows: Rows, found: dict[int, Tensor] = found) -> None:
                found.update(_split(self._statistics(rows).logprobs, rows, self._batch(rows)))

            if self._over_layout(kept) is not None:
                return found
        return {}

    def gradients(self, steps: int, watcher: GradientWatcher | None = None) -> list[Tensor]:
        """Adds the gradients of the summed loss to the parameters'; the record of each micro-batch.

        `steps` are the optimizer steps before this one; a `watcher` needs `tasks`. Without any row
        that fits it is empty.
        """
        while self._layout:
            for one in self._parameters:
                one.grad = None
            restrained = self._restrained(steps)
            if restrained is None:
                continue
            found: dict[int, Tensor] = {}
            records = self._added_up(restrained, found, watcher)
            if records is not None:
                self._old = self._old or found
                return records
        return []

    def _added_up(
        self,
        restrained: dict[int, Tensor],
        found: dict[int, Tensor],
        watcher: GradientWatcher | None,
    ) -> list[Tensor] | None:
        """The records of all micro-batches, or None as `_over_layout` says."""
        if watcher is None:
            return self._over_layout(lambda rows: self._backward(rows, restrained, found))
        watcher.begin()
        last = {self._tasks[rows[0]]: rows for rows in self._layout}
        of_task: list[Tensor] = []

        def watched(rows: Rows) -> Tensor:
            record = self._backward(rows, restrained, found)
            of_task.append(record)
            task = self._tasks[rows[0]]
            if rows == last[task]:
                watcher.took(task, float(divisor(of_task)))
                of_task.clear()
            return record

        return self._over_layout(watched)

    def _over_layout(self, work: Callable[[Rows], Result]) -> list[Result] | None:
        """What `work` gives for each micro-batch; None if one was made smaller instead."""
        results: list[Result] = []
        failed = False
        for rows in self._layout:
            try:
                results.append(work(rows))
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                failed = True
            # Outside of the handler: the error's frames hold the attempt's tensors.
            if failed:
                results.clear()
                self._shrink(rows)
                return None
        return results

    def _shrink(self, rows: Rows) -> None:
        self.counts[OUT_OF_MEMORY] += 1
        place = self._layout.index(rows)
        smaller: list[Rows] = []
        if len(rows) > 1:
            half = len(rows) // 2
            smaller = [rows[:half], rows[half:]]
        elif isinstance(self._model, RecomputingModel) and rows[0] not in self._recomputed:
            self._recomputed.add(rows[0])
            smaller = [rows]
        else:
            self.counts[DROPPED] += 1
            self.dropped.add(rows[0])
        self._layout[place : place + 1] = smaller
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _batch(self, rows: Rows) -> TrainingBatch:
        if rows not in self._batches:
            self._batches[rows] = training_batch([self._rows[one] for one in rows], self._device)
        return self._batches[rows]

    def _statistics(self, rows: Rows) -> TokenStatistics:
        packed = self._batch(rows).packed
        recomputing = not self._recomputed.isdisjoint(rows)
        model = self._model
        with (
            model.recomputed_activations()
            if recomputing and isinstance(model, RecomputingModel)
            else nullcontext()
        ):
            hidden = model.tree_hidden(packed.token_ids, packed.positions, packed.segments)
        hidden = hidden.flatten(0, 1).index_select(0, packed.predictors)
        if not self._vocabulary:
            with torch.no_grad():
                self._vocabulary = model.head(hidden[:1]).shape[-1]
        return chunked_statistics(
            model.head,
            hidden,
            packed,
            self._temperature,
            self._vocabulary,
            entropy_gradient=self._settings.entropy_weight > 0.0,
            rows_multiple=MPS_MULTIPLE if self._device.type == "mps" else 1,
        )

    def _backward(
        self, rows: Rows, restrained: dict[int, Tensor], found: dict[int, Tensor]
    ) -> Tensor:
        """The record of a micro-batch; `found` takes its log-probs by row."""
        batch = self._batch(rows)
        reference = self._reference_logprobs(rows)
        tokens = self._statistics(rows)
        tokens.logprobs.retain_grad()
        logprobs = tokens.logprobs.detach()
        # In the first inner step the policy is the one at the start of the round.
        fixed = Fixed(
            old_logprobs=_joined(self._old, rows) if self._old else logprobs,
            reference_logprobs=reference,
            restrained=_joined(restrained, rows) if restrained else None,
        )
        loss = batch_loss(batch, tokens, fixed, self._settings, self._longest)
        loss.losses.sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        found.update(_split(logprobs, rows, batch))
        return _record(batch, tokens, fixed, loss)

    @torch.no_grad()
    def _reference_logprobs(self, rows: Rows) -> Tensor | None:
        model = self._model
        if self._settings.kl_weight == 0.0 or not isinstance(model, ReferenceModel):
            return None
        if any(one not in self._reference for one in rows):
            with model.reference():
                logprobs = self._statistics(rows).logprobs
            self._reference.update(_split(logprobs, rows, self._batch(rows)))
        return _joined(self._reference, rows)

    @torch.no_grad()
    def _restrained(self, steps: int) -> dict[int, Tensor] | None:
        """The tokens that `covariance` chooses, by row; empty without it, None if memory failed."""
        if self._settings.covariance == "none":
            return {}
        logprobs = self._over_layout(lambda rows: self._statistics(rows).logprobs)
        if logprobs is None:
            return None
        order = [one for rows in self._layout for one in rows]
        draws = token_draws([self._rows[one] for one in order], steps)
        advantages = torch.cat([self._batch(rows).advantages for rows in self._layout])
        chosen = restrained_tokens(
            token_covariances(torch.cat(logprobs), advantages),
            torch.tensor(draws, device=self._device),
            self._settings,
        )
        sizes = [self._rows[one].tokens for one in order]
        return dict(zip(order, torch.split(chosen, sizes), strict=True))


def _split(values: Tensor, rows: Rows, batch: TrainingBatch) -> dict[int, Tensor]:
    parts = torch.split(values, list(batch.tokens_of_row))
    return dict(zip(rows, parts, strict=True))


def _joined(values: dict[int, Tensor], rows: Rows) -> Tensor:
    return torch.cat([values[one] for one in rows])


def _record(batch: TrainingBatch, tokens: TokenStatistics, fixed: Fixed, loss: BatchLoss) -> Tensor:
    pushes = tokens.logprobs.grad
    unknown = torch.full_like(tokens.entropies, torch.nan)
    return token_record(
        {
            "losses": loss.losses,
            "shares": loss.shares,
            "advantages": batch.advantages,
            "entropies": tokens.entropies,
            "low": loss.policy.low_clipped,
            "high": loss.policy.high_clipped,
            "logprobs": tokens.logprobs,
            "sampler": batch.sampler_logprobs,
            "external": batch.external,
            "weights": loss.weights,
            "corrected": loss.corrected,
            "divergences": loss.divergences,
            "restrained": unknown if fixed.restrained is None else fixed.restrained,
            "pushes": torch.zeros_like(unknown) if pushes is None else pushes.abs(),
            "peers": batch.peers,
        }
    )
