"""A reward model at work: texts in, one score each out, in batches that change no score.

Rows are padded on the right and masked by their lengths, longest first. A score is the log-odds of
the label that is paid: the logit of an output that stands alone, else the label's logit less the
log-sum-exp of the others'; or the probability of the same. Knows no settings and no files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.modeling_utils import PreTrainedModel

from swarmnode.reward_models.reading import Reading, Row
from swarmnode.training.memory import is_out_of_memory

_PROBE = ("Judge this: one and one is two.", "1")
"""Texts of different lengths, the second of which is read alone and beside the first."""
_PADDING_TOLERANCE = 1e-2
"""In log-odds; half precision rounds by less, a model that sees its padding is off by more."""


@dataclass(frozen=True, slots=True)
class Head:
    """Which output is paid, and how its score is told."""

    output: int
    alone: bool
    """Whether its logit is the log-odds, as of a single output; else all outputs are one choice."""
    probability: bool

    def scores(self, logits: Tensor) -> Tensor:
        """From (rows, outputs) to (rows,), float32."""
        logits = logits.float()
        score = logits[:, self.output]
        if not self.alone:
            others = torch.arange(logits.shape[1], device=logits.device) != self.output
            score = score - logits[:, others].logsumexp(dim=1)
        return score.sigmoid() if self.probability else score


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a reward model says of completions."""

    scores: tuple[float, ...]
    """NaN where it says nothing."""
    too_long: int = 0
    """How many are longer than what it can be shown."""
    failed: int = 0
    """How many have none because something went wrong."""
    why: str = ""
    """What, in one line."""


class Judge:
    """A sequence-classification model with its tokenizer; changes nothing while it judges."""

    def __init__(self, model: PreTrainedModel, reading: Reading, head: Head, tokens: int) -> None:
        """`tokens`: that it takes at once, padding included."""
        self._model = model
        self._reading = reading
        self._head = head
        self._tokens = tokens
        self._text_config: Any = model.config.get_text_config()
        self._text_config.use_cache = False
        self._padding = self._text_config.pad_token_id
        self._sees_kinds = sees_kinds(model)
        self._padded = self._bears_padding()

    @property
    def parameters(self) -> int:
        """How many the model has."""
        return sum(one.numel() for one in self._model.parameters())

    def judge(self, texts: Sequence[tuple[str, str]]) -> Judgement:
        """Score pairs of prompt and completion; raises nothing that a text can bring about."""
        scores, failed, why = [math.nan] * len(texts), 0, ""
        rows = [self._reading.row(*pair) for pair in texts]
        known = {place: row for place, row in enumerate(rows) if row and row.ids}
        for places in self._batches(known):
            try:
                told = self._scored([known[place] for place in places])
            except (RuntimeError, IndexError) as error:
                failed, why = failed + len(places), _reason(error)
                continue
            for place, score in zip(places, told, strict=True):
                if math.isfinite(score):
                    scores[place] = score
                else:
                    failed, why = failed + 1, f"a score is {score}"
        return Judgement(tuple(scores), len(rows) - len(known), failed, why)

    def _batches(self, rows: dict[int, Row]) -> Iterator[list[int]]:
        """Places of rows that go together: long beside long; of one length if padding shows."""
        batch: list[int] = []
        lengths = {place: len(row.ids) for place, row in rows.items()}
        for place in sorted(rows, key=lambda one: (-lengths[one], one)):
            full = batch and (len(batch) + 1) * lengths[batch[0]] > self._tokens
            other = batch and not self._padded and lengths[place] != lengths[batch[0]]
            if full or other:
                yield batch
                batch = []
            batch.append(place)
        if batch:
            yield batch

    @torch.inference_mode()
    def _scored(self, rows: Sequence[Row]) -> list[float]:
        shown = inputs_of(rows, self._padding_id(rows), kinds=self._sees_kinds)
        device = self._model.device
        logits = self._model(**{name: one.to(device) for name, one in shown.items()}).logits
        scores: list[float] = self._head.scores(logits).tolist()
        return scores

    def _padding_id(self, rows: Sequence[Row]) -> int:
        """The model's own; where it has none, one that no row ends with.

        A decoder of transformers takes for a row's end its last token that isn't the padding one.
        """
        if self._padding is not None:
            return int(self._padding)
        ends = {row.ids[-1] for row in rows}
        chosen = next(one for one in range(len(ends) + 1) if one not in ends)
        self._text_config.pad_token_id = chosen
        return chosen

    def _bears_padding(self) -> bool:
        """Whether a row's score stays what it is beside a longer one; of most models it does."""
        longer, shorter = (self._reading.row(text, text) for text in _PROBE)
        if longer is None or shorter is None:
            return False
        try:
            ((alone,), (_, beside)) = self._scored([shorter]), self._scored([longer, shorter])
        except (RuntimeError, IndexError):
            return False
        return abs(alone - beside) <= _PADDING_TOLERANCE * max(1.0, abs(alone))


def sees_kinds(model: PreTrainedModel) -> bool:
    """Whether a model tells question and answer apart by kinds: BERT does, RoBERTa has one kind."""
    return getattr(model.config.get_text_config(), "type_vocab_size", 0) > 1


def inputs_of(rows: Sequence[Row], padding: int, *, kinds: bool) -> dict[str, Tensor]:
    """Rows as a model takes them, (rows, longest): padded on the right, masked by their lengths."""
    lengths = torch.tensor([len(row.ids) for row in rows])
    longest = int(lengths.max())
    shown = {
        "input_ids": _padded([row.ids for row in rows], longest, padding),
        "attention_mask": (torch.arange(longest) < lengths.unsqueeze(1)).long(),
    }
    if kinds:
        shown["token_type_ids"] = _padded([row.kinds for row in rows], longest, 0)
    return shown


def _padded(rows: Sequence[Sequence[int]], longest: int, padding: int) -> Tensor:
    return torch.tensor([[*row, *[padding] * (longest - len(row))] for row in rows])


def _reason(error: Exception) -> str:
    if is_out_of_memory(error):
        return "it ran out of memory; lower rewards.channels.judged_tokens"
    words = str(error).strip().splitlines()
    return f"{type(error).__name__}: {words[0] if words else ''}"
