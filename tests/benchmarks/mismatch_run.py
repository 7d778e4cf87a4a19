"""One run of the mismatch study: a warm-started `tiny`, its wrong sampler, and training."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import torch

from swarmnode.config.policy import PolicySettings
from swarmnode.policy.loading import load_policy
from swarmnode.policy.policy import Policy
from swarmnode.policy.warm_start import WarmStartPlan, warm_start
from swarmnode.policy.weights import WeightsCache
from swarmnode.training import Trainer
from swarmnode.training.corrections import effective_sample_share
from swarmnode.types import Completion
from tests.benchmarks.mismatch_protocol import (
    CAP,
    COMPLETIONS,
    EVERY_ROUNDS,
    EXAMINED,
    LONGEST,
    MISTAKES,
    PAIRS,
    QUESTIONS,
    STEPS,
    TASK,
    MismatchRun,
)
from tests.benchmarks.mismatch_rows import Round, Row, row_of
from tests.benchmarks.mismatch_sampler import Sampler, gaps, mean_difference
from tests.benchmarks.ordering import Asked
from tests.benchmarks.ordering_groups import group_of, sampler_logprobs
from tests.benchmarks.short_runs import kept

CALIBRATED = 16
"""Questions that the sampler's size is sought on."""


def started(seed: int, cache: Path, steps: int = STEPS) -> Policy:
    """`tiny` with that start and its warm start, which all arms of a seed share."""
    settings = PolicySettings()
    policy = load_policy(settings, seed)
    rng = random.Random(f"warm start {seed}")
    pairs = [
        (asked.text, " ".join(TASK.mistaken(asked, MISTAKES, rng)))
        for asked in islice(TASK.stream(rng), PAIRS)
    ]
    usual = settings.warm_start
    plan = WarmStartPlan(steps, usual.batch_size, usual.learning_rate, usual.weight_decay, seed)
    cache.mkdir(parents=True, exist_ok=True)
    warm_start(policy, pairs, plan, WeightsCache(cache))
    return policy


def run_one(run: MismatchRun, place: Path, steps: int = STEPS, examined: int = EXAMINED) -> Row:
    """Train, and tell what happened."""
    policy = started(run.seed, place / "warm-starts", steps)
    questions = TASK.stream(random.Random(f"rounds {run.seed}"))
    sampler = Sampler(policy, run.kind, run.seed)
    calibrating = [each.text for each in islice(questions, CALIBRATED)]
    sampler.calibrate(calibrating, COMPLETIONS // 2, LONGEST, run.size)
    trainer = Trainer(policy, run.training, 1.0, longest=LONGEST)
    generator = torch.Generator().manual_seed(run.seed)
    examination = TASK.examination(examined)
    held_out = {0: success(policy, examination)}
    rounds = []
    for number in range(1, run.rounds + 1):
        rounds.append(one_round(run, policy, sampler, trainer, questions, generator))
        if number % EVERY_ROUNDS == 0 or number == run.rounds:
            held_out[number] = success(policy, examination)
    return row_of(run, rounds, held_out)


def one_round(
    run: MismatchRun,
    policy: Policy,
    sampler: Sampler,
    trainer: Trainer,
    questions: Iterator[Asked],
    generator: torch.Generator,
) -> Round:
    """Sample with the sampler, train the policy, let the sampler follow."""
    asked = list(islice(questions, QUESTIONS))
    texts = [each.text for each in asked]
    sampled = sampler.sample(texts, COMPLETIONS, LONGEST, generator)
    found = gaps(policy, texts, sampled)
    measured = mean_difference(found)
    groups = [
        group_of(policy, *pair, right, sampler_logprobs=sampler_logprobs(pair[1]))
        for pair in zip(asked, sampled, strict=True)
    ]
    metrics = trainer.step(groups).metrics
    sampler.adjust(measured, run.size)
    sampler.follow()
    ratios = torch.cat(found).exp()
    rewards = [reward for group in groups for reward in group.rewards]
    return {
        **metrics,
        "difference": measured,
        "cap_hits": float((ratios >= CAP).float().mean()),
        "effective": float(effective_sample_share(ratios.clamp(max=CAP))),
        "live": metrics["groups/live_local"] / QUESTIONS,
        "sampled": sum(rewards) / len(rewards),
    }


def right(asked: Asked, completion: Completion) -> bool:
    """Whether it is the answer, and came to its end."""
    return completion.finish_reason == "stop" and completion.text == asked.answer


def success(policy: Policy, examination: Sequence[Asked]) -> float:
    """Share of right answers, one sampled to each question, with the same draws each time."""
    texts = [each.text for each in examination]
    answers = policy.answer(texts, LONGEST, 1.0, torch.Generator().manual_seed(1))
    return sum(map(right, examination, answers)) / len(examination)


def work(runs: Iterator[MismatchRun], place: Path) -> None:
    """For `make_rows`."""
    kept(runs, place, partial(run_one))
