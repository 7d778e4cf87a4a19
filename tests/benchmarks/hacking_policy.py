"""The policy of the hacking study: `tiny`'s decoder over words, each as " x" and as "x".

A space is then nothing but the choice between two tokens, as in Korean. The biased sampler is the
same policy with a little more on every word without its space.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from swarmnode.config.policy import TinySettings, WarmStartSettings
from swarmnode.policy.decoder import Decoder
from swarmnode.policy.engine import NativeEngine
from swarmnode.policy.layer_weights import DecoderWeights
from swarmnode.policy.policy import Policy
from swarmnode.policy.text import PhraseCodec
from swarmnode.policy.tiny import build_tiny
from swarmnode.policy.tokenizer import PhraseTokenizer
from swarmnode.policy.warm_start import WarmStartPlan, warm_start
from swarmnode.policy.weights import WeightsCache
from swarmnode.types import Completion, Group, PolicyInfo, Question, Scored
from tests.benchmarks.hacking_protocol import MISTAKES, PAIRS, STEPS, TASK, WORDS
from tests.benchmarks.ordering import LEVEL, Asked
from tests.benchmarks.ordering import TASK as NAME
from tests.benchmarks.ordering_groups import Right

TOKENIZER = PhraseTokenizer([*WORDS, *(f" {word}" for word in WORDS)])
GLUED = {TOKENIZER.encode(word)[0]: word for word in WORDS}
"""Words without their space, by token."""
PARTED = {TOKENIZER.encode(f" {word}")[0]: word for word in WORDS}

Answer = Callable[[Asked, random.Random], str]


def started(seed: int, cache: Path, answer: Answer, steps: int = STEPS) -> Policy:
    """A policy that has learned such answers; all arms of a case and a seed share it."""
    model = build_tiny(TinySettings(), len(TOKENIZER), seed)
    policy = Policy("speller", model, PhraseCodec(TOKENIZER), NativeEngine(Decoder(model)))
    rng = random.Random(f"warm start {seed}")
    pairs = [(asked.text, answer(asked, rng)) for asked in islice(TASK.stream(rng), PAIRS)]
    usual = WarmStartSettings()
    plan = WarmStartPlan(steps, usual.batch_size, usual.learning_rate, usual.weight_decay, seed)
    cache.mkdir(parents=True, exist_ok=True)
    warm_start(policy, pairs, plan, WeightsCache(cache))
    return policy


def mistaken(asked: Asked, rng: random.Random) -> tuple[str, ...]:
    """The words of an answer of the warm start."""
    return TASK.mistaken(asked, MISTAKES, rng)


class Biased(Decoder):
    """A decoder that samples with a bias on the logits of some tokens."""

    def __init__(self, policy: Policy, bias: float) -> None:
        super().__init__(policy.model)
        self._bias = torch.zeros(len(TOKENIZER))
        self._bias[list(GLUED)] = bias

    def sampling_weights(self) -> DecoderWeights:
        """The policy's own, with another head."""
        weights = super().sampling_weights()

        def head(hidden: Tensor) -> Tensor:
            return weights.head(hidden) + self._bias

        return replace(weights, head=head)


def sampler_of(policy: Policy, bias: float) -> Policy:
    """The same weights, sampled with a bias; its log-probs are those of what it samples from."""
    engine = NativeEngine(Biased(policy, bias) if bias else Decoder(policy.model))
    return Policy(policy.name, policy.model, policy.codec, engine)


def words_of(completion: Completion) -> list[str]:
    """The words that were written, with or without spaces; other tokens are none."""
    known = {**GLUED, **PARTED}
    return [known[token] for token in completion.token_ids or () if token in known]


def dropped_spaces(completions: Sequence[Completion]) -> float | None:
    """Of all places between two words, the share that has no space; None where there is none."""
    places = [
        token in GLUED
        for each in completions
        for token in [one for one in each.token_ids or () if one in GLUED or one in PARTED][1:]
    ]
    return sum(places) / len(places) if places else None


def scored(
    policy: Policy, asked: Sequence[Asked], sampled: Sequence[Sequence[Completion]], right: Right
) -> list[Scored]:
    """A round's groups as guard-rails look at them."""
    info = PolicyInfo(policy.name, 0, bytes(32))
    return [
        Scored(
            Group(
                Question(NAME, LEVEL, index, each.text, each.answer),
                tuple(completions),
                bytes(32),
                info,
            ),
            tuple(float(right(each, one)) for one in completions),
            "local",
            0.0,
        )
        for index, (each, completions) in enumerate(zip(asked, sampled, strict=True))
    ]


def examined(policy: Policy, examination: Sequence[Asked], longest: int) -> Sequence[Completion]:
    """The policy's own answers, one sampled to each question, with the same draws each time."""
    texts = [each.text for each in examination]
    return policy.answer(texts, longest, 1.0, torch.Generator().manual_seed(1))


def questions(seed: int) -> Iterator[Asked]:
    """What a seed's rounds ask."""
    return TASK.stream(random.Random(f"rounds {seed}"))
