"""Generation against transformers' `generate`, 8 prompts x 8 completions, one thread.

Transformers gets all 64 sequences in one left-padded batch, which is its fastest way. Both sample
at temperature 1. Runs alternate in one process, so that a busy machine slows both; CPU seconds are
counted and medians compared. Run by `make bench NAME=engine`.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from tests.benchmarks.engine_machine import seconds
from tests.benchmarks.engine_subject import COMPLETIONS, Subject


@dataclass(frozen=True, slots=True)
class Generation:
    """Medians over pairs of runs."""

    ours_seconds: float
    theirs_seconds: float
    speedup: float
    """The median of the pairs' ratios."""
    tokens: float
    """That one of our runs sampled."""
    operations: float
    """Floating-point operations that one of our runs cannot do without, attention left out."""
    logprob_difference: float
    """The largest difference to transformers' forward on what we sampled, in nats."""


def measure(
    subject: Subject, new_tokens: int, pairs: int, *, ends: bool, warm: bool = True
) -> Generation:
    """Alternate both; ends: rows end at the model's end tokens, else all have `new_tokens`."""
    end_ids = subject.policy.codec.end_ids if ends else ()
    batch = _left_padded(subject.prompts)
    tokens: list[int] = []

    def ours(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        rows = subject.policy.engine.sample(
            subject.prompts, COMPLETIONS, new_tokens, 1.0, end_ids, generator
        )
        tokens.append(sum(len(row.token_ids) for group in rows for row in group))

    def theirs(seed: int) -> None:
        torch.manual_seed(seed)
        subject.policy.model.generate(
            input_ids=batch[0],
            attention_mask=batch[1],
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=new_tokens,
            min_new_tokens=0 if ends else new_tokens,
            pad_token_id=0,
            eos_token_id=list(subject.policy.codec.end_ids),
        )

    if warm:
        ours(0)
        theirs(0)
    tokens.clear()
    times = [
        (seconds(partial(ours, pair)), seconds(partial(theirs, pair)))
        for pair in range(1, pairs + 1)
    ]
    median_tokens = statistics.median(tokens)
    return Generation(
        ours_seconds=statistics.median(one for one, _ in times),
        theirs_seconds=statistics.median(other for _, other in times),
        speedup=statistics.median(other / one for one, other in times),
        tokens=median_tokens,
        operations=_operations(subject, median_tokens),
        logprob_difference=_logprob_difference(subject, min(new_tokens, 24), end_ids),
    )


def _operations(subject: Subject, tokens: float) -> float:
    """Each prompt once, then every sampled token but each row's last."""
    fed = tokens - len(subject.prompts) * COMPLETIONS
    body = subject.body_operations * (sum(map(len, subject.prompts)) + fed)
    return body + subject.head_operations * (len(subject.prompts) + fed)


def _left_padded(prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    longest = max(map(len, prompts))
    rows = [[*[0] * (longest - len(ids)), *ids] for ids in prompts]
    masks = [[*[0] * (longest - len(ids)), *[1] * len(ids)] for ids in prompts]
    return (
        torch.tensor(rows).repeat_interleave(COMPLETIONS, 0),
        torch.tensor(masks).repeat_interleave(COMPLETIONS, 0),
    )


@torch.no_grad()
def _logprob_difference(subject: Subject, new_tokens: int, end_ids: Sequence[int]) -> float:
    """Compare sampled log-probs, two rows of each prompt, with transformers' own forward."""
    worst = 0.0
    generator = torch.Generator().manual_seed(1)
    sampled = subject.policy.engine.sample(subject.prompts, 2, new_tokens, 1.0, end_ids, generator)
    for prompt, rows in zip(subject.prompts, sampled, strict=True):
        for row in rows:
            chosen = torch.tensor(row.token_ids)
            logits = subject.policy.model(torch.tensor([[*prompt, *row.token_ids]])).logits
            logprobs = logits[0, len(prompt) - 1 : -1].log_softmax(-1)
            expected = logprobs.gather(1, chosen.unsqueeze(1)).squeeze(1)
            worst = max(worst, float((torch.tensor(row.logprobs) - expected).abs().max()))
    return worst
