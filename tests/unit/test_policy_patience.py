"""How long a host may take: by the model's size and by what is asked."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from swarmnode.clock import SystemClock
from swarmnode.config.policy import PolicySettings
from swarmnode.config.training import Training
from swarmnode.policy.client import REAL_TIME, RemotePolicy
from swarmnode.policy.names import UnknownModel
from swarmnode.policy.order import PolicyOrder
from swarmnode.policy.patience import (
    CALL_SECONDS,
    CREATE_SECONDS,
    DOWNLOAD_SECONDS,
    Patience,
    creating,
)
from swarmnode.rewards.channels import rewards
from swarmnode.types import Question
from tests.unit.made import scored
from tests.unit.resume_support import order

TINY, HALF_A_BILLION = 2e5, 5e8
QUESTIONS = [Question("gcd", "easy", n, "x" * 300, "") for n in range(8)]


def patience(parameters: float, **training: Any) -> Patience:
    policy = PolicySettings(model="owner/name").model_dump()
    settings = Training(**training).model_dump()
    return Patience.of(parameters, policy, settings, {"gcd": [("x" * 300, "y")] * 4})


def test_a_host_with_a_large_model_may_take_as_long_as_a_slow_processor_needs() -> None:
    # 64 answers of 64 tokens to prompts of 1202: 81 thousand tokens, 1e9 operations each.
    large = patience(HALF_A_BILLION).sampling(QUESTIONS, 8)
    assert large - CALL_SECONDS == pytest.approx(64 * (1202 + 64) / 5)
    # Four times the answers take four times as long; the rest is the same for all.
    more = patience(HALF_A_BILLION).sampling(QUESTIONS, 32)
    assert more - CALL_SECONDS == pytest.approx(4 * (large - CALL_SECONDS))
    # A tiny model's host that says nothing for eleven minutes hangs.
    assert patience(TINY).sampling(QUESTIONS, 8) < CALL_SECONDS + 60


def test_a_step_is_given_what_its_passes_cost() -> None:
    groups = [scored((1.0, 0.0) * 4, index=index, task="gcd") for index in range(8)]
    small, large = (patience(size).training(groups) for size in (TINY, HALF_A_BILLION))
    assert small < CALL_SECONDS + 60
    assert large > 10 * CALL_SECONDS
    twice = patience(HALF_A_BILLION, inner_steps=2).training(groups)
    assert twice - CALL_SECONDS == pytest.approx(2 * (large - CALL_SECONDS))


def test_a_model_that_may_have_to_be_downloaded_may_take_longer_to_make() -> None:
    assert creating(PolicySettings(model="owner/name").model_dump()) == DOWNLOAD_SECONDS
    for model in ("tiny", "smollm2-135m"):
        assert creating(PolicySettings(model=model).model_dump()) == CREATE_SECONDS
    with pytest.raises(UnknownModel):
        creating(PolicySettings(model="nothing").model_dump())


def test_reward_models_and_own_rewards_are_given_what_they_may_take(tmp_path: Path) -> None:
    policy, training = PolicySettings().model_dump(), Training().model_dump()
    channels = {"own": [{"name": "a", "seconds": 100}, {"name": "b", "weight": 0, "seconds": 9}]}
    groups = [scored((1.0, 0.0) * 4, index=index, task="gcd") for index in range(8)]
    plain, judged = (
        Patience.of(TINY, policy, training, {}, channels, judging)
        for judging in (0.0, HALF_A_BILLION)
    )
    assert plain.training(groups) == pytest.approx(
        Patience.of(TINY, policy, training, {}).training(groups) + 800
    )
    assert judged.training(groups) > plain.training(groups) + 100
    assert judged.sampling(QUESTIONS, 8) > plain.sampling(QUESTIONS, 8) + 100
    (tmp_path / "m").mkdir()
    for model, seconds in (("owner/name", DOWNLOAD_SECONDS), (f"{tmp_path}/m", CREATE_SECONDS)):
        judge: dict[str, Any] = {"name": "judge", "model": model}
        assert creating(policy, {"models": [judge]}) == seconds
        assert creating(policy, {"models": [judge | {"weight": 0.0}]}) == CREATE_SECONDS


@dataclass
class Host:
    """Notes how long it may take."""

    parameters: float
    seconds: dict[str, float] = field(default_factory=dict)

    async def call(self, method: str, payload: Any, seconds: float) -> Any:
        self.seconds[method] = seconds
        figures = {"parameters": self.parameters}
        return {
            "create": {
                "name": "a",
                "tokenizer_fingerprint": b"",
                "figures": figures,
                "dtype": "",
                "device": "",
                "judging_parameters": 0,
            },
            "train": {
                "version": 1,
                "metrics": {},
                "treatments": [["none", ""]],
                "advantages": [[]],
            },
        }.get(method, [])


@pytest.mark.parametrize("parameters", [TINY, HALF_A_BILLION])
def test_the_supervisor_is_told_so(parameters: float) -> None:
    host = Host(parameters)

    async def run() -> None:
        policy = RemotePolicy(
            host,  # type: ignore[arg-type]  # no process
            0,
            publisher=b"",
            clock=SystemClock(),
            durations=REAL_TIME,
            rewards=rewards,
        )
        await policy.create(PolicyOrder(**order()))
        await policy.train([scored()])
        await policy.samples([], 8, 0)
        with pytest.raises(ValueError, match="zip"):
            await policy.generate(QUESTIONS, 8)

    asyncio.run(run())
    assert host.seconds["create"] == CREATE_SECONDS
    assert host.seconds["samples"] == CALL_SECONDS
    assert (host.seconds["generate"] > 2 * CALL_SECONDS) == (parameters == HALF_A_BILLION)
    assert (host.seconds["train"] > 1.2 * CALL_SECONDS) == (parameters == HALF_A_BILLION)
