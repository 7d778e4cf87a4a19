"""A reward model at work: texts in, one score each out, in batches that change no score.

Rows are padded on the right and masked by their lengths, longest first. A score is the log-odds of
the label that is paid: the logit of an output that stands alone, else the label's logit less the
log-sum-exp of the others'; or the probability of the same. Knows no settings and no files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
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


LARGEST = 1e15
"""Of a reward, either sign: what is larger could not be squared in float32 and summed, and a single
one would make every advantage of its round infinite or nothing."""


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
        scores, wrong = [math.nan] * len(texts), dict[int, str]()
        known: dict[int, Row] = {}
        for place, pair in enumerate(texts):
            try:
                row = self._reading.row(*pair)
            except Exception as error:
                # A template is a program of the model's authors, and may take offence at a text.
                wrong[place] = _reason(error)
                continue
            if row and row.ids:
                known[place] = row
        for places in self._batches(known):
            for place, said in self._told(known, places):
                if isinstance(said, str):
                    wrong[place] = said
                elif abs(said) <= LARGEST:
                    scores[place] = said
                else:
                    wrong[place] = f"a score is {said:g}"
        too_long = len(texts) - len(known) - len(wrong.keys() - known.keys())
        why = next(reversed(wrong.values()), "")
        return Judgement(tuple(scores), too_long, len(wrong), why)

    def _told(
        self, rows: Mapping[int, Row], places: Sequence[int]
    ) -> Iterator[tuple[int, float | str]]:
        """The score of each, or why it has none; what one brings about costs no other its score."""
        try:
            told = self._scored([rows[one] for one in places])
        except Exception as error:
            # What models of others raise has no end.
            told, reason = [], _reason(error)
        if told:
            yield from zip(places, told, strict=True)
            return
        # Outside of the handler: the error's frames hold the attempt's tensors.
        if len(places) == 1:
            yield places[0], reason
            return
        half = len(places) // 2
        yield from self._told(rows, places[:half])
        yield from self._told(rows, places[half:])

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
        except Exception:
            # Then it is shown rows of one length, and told of where it fails on a text.
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
