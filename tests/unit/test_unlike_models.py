"""Two nodes with different models and tokenizers learn from each other, and the log says how."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swarmnode.children import policy_child
from swarmnode.clock import SystemClock
from swarmnode.config.policy import PolicySettings, WarmStartSettings
from swarmnode.policy.client import REAL_TIME, RemotePolicy
from swarmnode.policy.order import PolicyOrder
from swarmnode.process import Child
from swarmnode.reports import report_as_json, report_from_json, trained_in_short
from swarmnode.rewards.channels import rewards
from swarmnode.types import (
    Completion,
    Group,
    Question,
    RoundReport,
    Scored,
    Source,
    TaskRewards,
    Trained,
)
from tests.unit.model_support import write_model
from tests.unit.resume_support import SMALL, order

TEXTS = ("4", "5", "4", "6")
PHRASES, BYTES = b"a" * 32, b"b" * 32
"""The keys of a node with the phrase tokenizer and of one with a byte-level tokenizer."""


@pytest.fixture(scope="module")
def host() -> Iterator[Child]:
    child = policy_child({}, "policy host")
    child.start()
    yield child
    child.close_now()


def policy_of(host: Child, number: int, key: bytes) -> RemotePolicy:
    return RemotePolicy(
        host, number, publisher=key, clock=SystemClock(), durations=REAL_TIME, rewards=rewards
    )


def ordered(model: str, **training: Any) -> PolicyOrder:
    none = WarmStartSettings(base_steps=0, steps=0)
    policy = PolicySettings(model=model, tiny=SMALL, max_new_tokens=16, warm_start=none)
    return PolicyOrder(**order(**training) | {"policy": policy.model_dump()})


def heard(policy: RemotePolicy, key: bytes, task: str, **known: Any) -> Scored:
    """A group with answers right and wrong, as it comes from the wire."""
    completions = tuple(Completion(text, "stop", 2, **known) for text in TEXTS)
    group = Group(Question(task, "easy", 0, "Calculate 2 + 2.", "4"), completions, key, policy.info)
    return graded(group, "external")


def graded(group: Group, source: Source) -> Scored:
    marks = tuple(float(place % 2 == 0) for place in range(len(group.completions)))
    return Scored(group, marks, source, 0.0)


def entries(trained: Trained) -> Sequence[str]:
    """What the log says, by way of what is stored."""
    nothing = TaskRewards({})
    report = RoundReport(0, 1, 0.0, nothing, nothing, trained=trained.groups)
    (line,) = trained_in_short(report_from_json(report_as_json(report)))
    return line


def test_unlike_models_train_on_each_others_groups_and_the_log_says_at_which_level(
    host: Child, tmp_path: Path
) -> None:
    async def run() -> None:
        phrases, other = policy_of(host, 0, PHRASES), policy_of(host, 1, BYTES)
        await phrases.create(ordered("tiny", external_advantage="weighted"))
        await other.create(ordered(str(write_model(tmp_path)), external_advantage="weighted"))
        assert phrases.info.tokenizer_fingerprint != other.info.tokenizer_fingerprint
        per_token = {"logprobs": (-1.0, -0.5)}
        for policy, peer, key in ((phrases, other, BYTES), (other, phrases, PHRASES)):
            questions = [Question("gcd", "easy", 1, "Calculate 1 + 1.", "2")]
            (own,) = await policy.generate(questions, 4)
            # What is cut off counts as wrong, and a random model does not come to an end.
            ended = [replace(each, finish_reason="stop") for each in own.completions]
            dead = heard(peer, key, "bf")
            trained = await policy.train(
                [
                    graded(replace(own, completions=tuple(ended)), "local"),
                    heard(peer, key, "gcd", **per_token),
                    heard(peer, key, "lcm", total_logprob=-1.5),
                    heard(peer, key, "fraction_simplification"),
                    Scored(dead.group, (0.0,) * len(TEXTS), "external", 0.0),
                ]
            )
            assert trained.metrics["tokens/external"] > 0
            assert trained.metrics["steps/taken"] > 0
            name = key[:8].hex()
            assert entries(trained) == [
                "own none (own samples): gcd",
                # Log-probs of another tokenizer's tokens say something of the whole text alone.
                f"{name} gate (log-probs of whole completions alone, another tokenizer): gcd, lcm",
                f"{name} positive (no usable log-probs, external_fallback=positive, another "
                "tokenizer): fraction_simplification",
                f"{name} out (all rewards equal, another tokenizer): bf",
            ]

    asyncio.run(run())


def test_a_twins_log_probs_count_for_every_token_and_what_is_too_long_is_told_as_left_out(
    host: Child,
) -> None:
    async def run() -> None:
        policy = policy_of(host, 2, PHRASES)
        await policy.create(ordered("tiny", external_advantage="weighted"))
        lengths = heard(policy, BYTES, "gcd", logprobs=(-1.0, -0.5))
        long = Group(
            lengths.group.question, (Completion("7 " * 40, "stop", 2),) * 4, BYTES, policy.info
        )
        trained = await policy.train([graded(long, "external"), lengths])
        assert [(each.level, each.why) for each in trained.groups] == [
            ("out", "longer than max_new_tokens in our tokens"),
            ("full", "log-probs of every token"),
        ]

    asyncio.run(run())
