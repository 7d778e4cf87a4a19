"""Training a reward model offline: Bradley-Terry on comparisons, checked on prompts held out.

The loss of a comparison is -log sigma(r(better) - r(worse)) (Bradley and Terry, 1952; for reward
models of language models Ouyang et al. 2022, arXiv 2203.02155, equation 1, without its weight by
prompt). A departure: an opponent that isn't there has the strength 0, so that a signal without a
pair is learned from too. The same file, base, seed and threads give the same weights.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedTokenizerFast
from transformers.modeling_utils import PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from swarmnode.config.channels import RewardModel
from swarmnode.policy.hub import check_folder, open_tokenizer
from swarmnode.reward_models.bytes_judge import bytes_model, bytes_tokenizer
from swarmnode.reward_models.comparisons import Comparison, UnusableData
from swarmnode.reward_models.findings import Findings, Judged, findings
from swarmnode.reward_models.judging import Head, Judge, inputs_of, sees_kinds
from swarmnode.reward_models.opening import load_classifier, reward_model_folder
from swarmnode.reward_models.reading import Reading, Row

BUILT_IN_RATE, BASE_RATE = 2e-3, 2e-5
"""Highest learning rates, of the built-in model and of any other."""
_WARM_UP_SHARE = 0.1
_CLIP_NORM = 1.0
_WEIGHT_DECAY = 0.01
_TOKENS_AT_ONCE = 8192
_HEAD = Head(0, alone=True, probability=False)

Progress = Callable[[int, int, float], None]
"""Is told the steps that are done, those there will be, and the last one's loss in nats."""
Rows = tuple[Row | None, Row | None]
"""The better and the worse."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a reward model is trained."""

    base: str = ""
    """A folder or an id of the hub; empty takes the small model that is built in."""
    epochs: int = 3
    comparisons_per_step: int = 16
    learning_rate: float | None = None
    """Unset takes 2e-3 for the built-in model and 2e-5 for any other."""
    max_tokens: int = 512
    """Of a row."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Trained:
    """A reward model and what is known of it."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    findings: Findings
    steps: int
    left_out: int
    """Comparisons to train on with a completion that alone is too long."""

    def save(self, folder: Path) -> None:
        """Write it as transformers loads it. Raises OSError."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def without_progress_bars() -> None:
    """Let transformers draw none in this process; the terminal is for what the user asked for."""
    disable_progress_bar()


def train_reward_model(
    recipe: Recipe, learned: Sequence[Comparison], held: Sequence[Comparison], told: Progress
) -> Trained:
    """Train on `learned` and examine on `held`, on the processor.

    Raises UnusableModel and UnusableData, whose texts are one line for the user.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model, tokenizer = _start(recipe)
        reading = Reading(tokenizer, _limit(recipe, model, tokenizer))
        rows = list(_rows(reading, learned))
        if not rows:
            raise UnusableData(
                f"no completion fits {recipe.max_tokens} tokens, or there is none; raise"
                " --max-tokens"
            )
        steps = _train(recipe, model, rows, told)
    model.eval()
    found = examined(Judge(model, reading, _HEAD, _TOKENS_AT_ONCE), held)
    return Trained(model, tokenizer, found, steps, len(learned) - len(rows))


def examined(judge: Judge, held: Sequence[Comparison]) -> Findings:
    """What a judge is worth on comparisons that it never saw."""
    texts = [(one.prompt, side or "") for one in held for side in (one.better, one.worse)]
    scores = judge.judge(texts).scores
    judged = [
        Judged(
            one,
            0.0 if one.better is None else better,
            0.0 if one.worse is None else worse,
        )
        for one, better, worse in zip(held, scores[::2], scores[1::2], strict=True)
    ]
    known = [one for one in judged if one.better == one.better and one.worse == one.worse]
    if not known:
        raise UnusableData("no held-out completion could be judged; raise --max-tokens")
    return findings(known)


def _start(recipe: Recipe) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """The model that training begins with, float32; a head that its files lack is random."""
    if not recipe.base:
        return bytes_model(recipe.max_tokens), bytes_tokenizer(recipe.max_tokens)
    name = recipe.base
    folder = reward_model_folder(RewardModel(name="base", model=name))
    check_folder(folder, name)
    tokenizer = open_tokenizer(folder, name)
    trouble = f"{name} is no model that transformers can put a classification head on"
    model = load_classifier(folder, trouble, dtype=torch.float32, num_labels=1)
    text = model.config.get_text_config()
    if text.pad_token_id is None:
        # It must be saved with the model, which finds a row's end by it.
        known = (tokenizer.pad_token_id, tokenizer.eos_token_id, 0)
        text.pad_token_id = next(one for one in known if one is not None)
    return model, tokenizer


def _limit(recipe: Recipe, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> int:
    longest = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return min(recipe.max_tokens, longest or recipe.max_tokens, int(tokenizer.model_max_length))


def _rows(reading: Reading, comparisons: Sequence[Comparison]) -> Iterator[Rows]:
    """Of each comparison whose completions can be shown."""
    for one in comparisons:
        sides = [
            None if text is None else reading.row(one.prompt, text)
            for text in (one.better, one.worse)
        ]
        wanted = sum(text is not None for text in (one.better, one.worse))
        if sum(row is not None for row in sides) == wanted:
            yield sides[0], sides[1]


def _train(recipe: Recipe, model: PreTrainedModel, rows: Sequence[Rows], told: Progress) -> int:
    """AdamW with a linear warm-up and fall; returns its steps."""
    model.train()
    size = recipe.comparisons_per_step
    steps = recipe.epochs * -(-len(rows) // size)
    highest = recipe.learning_rate or (BASE_RATE if recipe.base else BUILT_IN_RATE)
    parameters = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=highest, weight_decay=_WEIGHT_DECAY)
    warm = max(1, round(_WARM_UP_SHARE * steps))
    rng = random.Random(recipe.seed)
    done = 0
    for _ in range(recipe.epochs):
        order = rng.sample(range(len(rows)), len(rows))
        for start in range(0, len(order), size):
            batch = [rows[place] for place in order[start : start + size]]
            rate = min((done + 1) / warm, (steps - done) / max(1, steps - warm))
            optimizer.param_groups[0]["lr"] = highest * min(1.0, rate)
            optimizer.zero_grad(set_to_none=True)
            loss = bradley_terry(model, batch)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(parameters, _CLIP_NORM)
            optimizer.step()
            done += 1
            told(done, steps, float(loss.detach()))
    return steps


def bradley_terry(model: PreTrainedModel, batch: Sequence[Rows]) -> Tensor:
    """The mean of -log sigma(r(better) - r(worse)) in nats; r is 0 of an opponent of None."""
    sides = [(place, sign, row) for place, rows in enumerate(batch) for sign, row in _signed(rows)]
    shown = inputs_of(
        [row for _, _, row in sides],
        model.config.get_text_config().pad_token_id or 0,
        kinds=sees_kinds(model),
    )
    scores = model(**shown).logits[:, 0]
    signed = scores * torch.tensor([sign for _, sign, _ in sides])
    margins = signed.new_zeros(len(batch))
    margins = margins.index_add(0, torch.tensor([place for place, _, _ in sides]), signed)
    return -F.logsigmoid(margins).mean()


def _signed(rows: Rows) -> Iterator[tuple[float, Row]]:
    for sign, row in zip((1.0, -1.0), rows, strict=True):
        if row is not None:
            yield sign, row
