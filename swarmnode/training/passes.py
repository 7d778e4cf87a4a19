"""One round's passes over the model: forward and backward, in micro-batches that fit memory.

Holds the round's rows and how they are batched, never the optimizer. A micro-batch that runs out of
memory is halved; a row that does so alone recomputes its activations where the model can, and is
left out where it can't or that doesn't help. The attempt is then begun anew, so that nothing of a
failed one stays in the gradients. Invariant: how rows are batched, and over how many ranks they are
spread, changes neither loss nor gradient, but for rounding.

Over several ranks (ranks.py) all make the same passes at the same time, which one that runs out of
memory can't: the error is raised, and ends the ranks.
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
from swarmnode.training.layout import Rows, layout_of
from swarmnode.training.logprobs import chunked_statistics
from swarmnode.training.losses import TokenStatistics
from swarmnode.training.memory import ActivationCost, is_out_of_memory
from swarmnode.training.objective import Fixed, batch_loss, batch_record
from swarmnode.training.plan import TrainedRow
from swarmnode.training.ranks import ALONE, Ranks, by_row
from swarmnode.training.records import FIELDS, divisor

OUT_OF_MEMORY = "steps/out_of_memory"
DROPPED = "groups/out_of_memory"
MPS_MULTIPLE = 64
"""MPS compiles each shape anew and keeps what it compiled: its shapes must not multiply."""

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
        ranks: Ranks = ALONE,
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
        """Under names of `TRAINING_METRICS`."""
        self.dropped: set[int] = set()
        """Rows that were left out because they alone ran out of memory."""
        limit = settings.activation_limit_mib * 2**20
        lengths = [row.tree.length for row in rows]

        def fits(count: int, longest_row: int) -> bool:
            return cost is None or cost.bytes(count, longest_row) <= limit

        self._ranks = ranks
        self._tasks = tasks or ("",) * len(rows)
        layout = layout_of(ranks, lengths, self._tasks, settings.tokens_at_once, fits)
        self._layout, self._idle = layout.own, layout.idle
        self._own = {one for batch in layout.own for one in batch}
        self._referenced = settings.kl_weight == 0.0 or not isinstance(model, ReferenceModel)
        self._recomputed = {index for index, length in enumerate(lengths) if not fits(1, length)}

    @property
    def old_logprobs(self) -> Mapping[int, Tensor]:
        """By row, those of its tokens under the policy at the start of the round; after
        `gradients`, and only of rows that fit."""
        return self._old

    @torch.no_grad()
    def look(self) -> Mapping[int, Tensor]:
        """The same without `gradients`, by a pass of its own."""
        while self._passes:
            if (found := self._looked()) is not None:
                return found
        return {}

    @property
    def _passes(self) -> int:
        """How many are made over all rows, the same on every rank."""
        return len(self._layout) + len(self._idle)

    def _looked(self) -> dict[int, Tensor] | None:
        """The log-probs of all rows that fit, or None as `_over_layout` says."""
        found: dict[int, Tensor] = {}

        def kept(rows: Rows) -> None:
            found.update(_split(self._statistics(rows).logprobs, rows, self._batch(rows)))

        return None if self._over_layout(kept) is None else self._everywhere(found)

    def _everywhere(
        self, found: Mapping[int, Tensor], leading: tuple[int, ...] = ()
    ) -> dict[int, Tensor]:
        """What was found of own rows, and what other ranks found of theirs."""
        own = {place: values for place, values in found.items() if place in self._own}
        tokens = [row.tokens for row in self._rows]
        return by_row(self._ranks, own, tokens, self._device, leading)

    def gradients(self, steps: int, watcher: GradientWatcher | None = None) -> list[Tensor]:
        """Adds the gradients of the summed loss to the parameters'; the record of each micro-batch.

        `steps` are the optimizer steps before this one; a `watcher` needs `tasks`. Without any row
        that fits it is empty. Over several ranks the gradients are those of all rows, and there is
        one record, of all of them.
        """
        while self._passes:
            for one in self._parameters:
                one.grad = None
            if not self._knows_reference():
                continue
            restrained = self._restrained(steps)
            if restrained is None:
                continue
            found: dict[int, Tensor] = {}
            records = self._added_up(restrained, found, watcher)
            if records is not None:
                self._old = self._old or self._everywhere(found)
                return self._all_records(records)
        return []

    def _all_records(self, records: list[Tensor]) -> list[Tensor]:
        if self._ranks.count == 1:
            return records
        found: dict[int, Tensor] = {}
        for rows, record in zip(self._layout, records, strict=True):
            found |= _split(record, rows, self._batch(rows))
        whole = self._everywhere(found, (len(FIELDS),))
        return [torch.cat(list(whole.values()), dim=1)]

    def _added_up(
        self,
        restrained: dict[int, Tensor],
        found: dict[int, Tensor],
        watcher: GradientWatcher | None,
    ) -> list[Tensor] | None:
        """The records of all micro-batches, or None as `_over_layout` says."""
        if watcher is None:
            return self._over_layout(
                lambda rows: self._backward(rows, restrained, found),
                lambda rows: self._backward(rows, restrained, {}, counts=0.0),
            )
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

    def _over_layout(
        self, work: Callable[[Rows], Result], idle: Callable[[Rows], Result] | None = None
    ) -> list[Result] | None:
        """What `work` gives for each micro-batch; None if one was made smaller instead.

        `idle`, or else `work` too, goes along with other ranks; what that gives is dropped.
        """
        results: list[Result] = []
        failed = False
        for rows in self._layout:
            try:
                results.append(work(rows))
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error) or self._ranks.count > 1:
                    raise
                failed = True
            # Outside of the handler: the error's frames hold the attempt's tensors.
            if failed:
                results.clear()
                self._shrink(rows)
                return None
        for rows in self._idle:
            (idle or work)(rows)
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
        self,
        rows: Rows,
        restrained: dict[int, Tensor],
        found: dict[int, Tensor],
        counts: float = 1.0,
    ) -> Tensor:
        """The record of a micro-batch; `found` takes its log-probs by row.

        counts: 0.0 where it is to leave no trace in the gradients.
        """
        batch = self._batch(rows)
        reference = _joined(self._reference, rows) if self._reference else None
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
        (loss.losses.sum() * counts).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        found.update(_split(logprobs, rows, batch))
        return batch_record(batch, tokens, fixed, loss)

    @torch.no_grad()
    def _knows_reference(self) -> bool:
        """Take the reference's log-probs once; False if memory failed."""
        model = self._model
        if self._referenced or not isinstance(model, ReferenceModel):
            return True

        def kept(rows: Rows) -> None:
            found = self._statistics(rows).logprobs
            self._reference.update(_split(found, rows, self._batch(rows)))

        with model.reference():
            self._referenced = self._over_layout(kept) is not None
        return self._referenced

    @torch.no_grad()
    def _restrained(self, steps: int) -> dict[int, Tensor] | None:
        """The tokens that `covariance` chooses, by row; empty without it, None if memory failed."""
        if self._settings.covariance == "none":
            return {}
        logprobs = self._looked()
        if logprobs is None:
            return None
        order = list(logprobs)
        rows = [self._rows[one] for one in order]
        advantages = [one for row in rows for one in row.token_advantages]
        chosen = restrained_tokens(
            token_covariances(
                torch.cat(list(logprobs.values())),
                torch.tensor(advantages, dtype=torch.float32, device=self._device),
            ),
            torch.tensor(token_draws(rows, steps), device=self._device),
            self._settings,
        )
        sizes = [row.tokens for row in rows]
        return dict(zip(order, torch.split(chosen, sizes), strict=True))


def _split(values: Tensor, rows: Rows, batch: TrainingBatch) -> dict[int, Tensor]:
    parts = torch.split(values, list(batch.tokens_of_row), dim=-1)
    return dict(zip(rows, parts, strict=True))


def _joined(values: dict[int, Tensor], rows: Rows) -> Tensor:
    return torch.cat([values[one] for one in rows])
