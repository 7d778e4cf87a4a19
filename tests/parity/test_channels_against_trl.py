"""Several rewards into one advantage, against TRL 1.16's trainer: both orders, all scales.

TRL's scoring is called unbound on a stand-in for its trainer: what is generated and what it is
rewarded with are given, everything between rewards and advantages is TRL's.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from trl import GRPOTrainer
from trl.rewards import get_repetition_penalty_reward, get_soft_overlong_punishment

from swarmnode.config.training import Training
from swarmnode.rewards.channels import overlong, repeated_share
from swarmnode.training.channels import round_advantages
from tests.unit.training_support import make_group

GROUPS, COMPLETIONS = 5, 6
WEIGHTS = {"accuracy": 1.0, "format": 0.25, "length": 0.5}
TRL_NAMES = {"sum_then_normalise": "sum_then_normalize", "normalise_then_sum": "normalize_then_sum"}


def trl_advantages(rewards: Tensor, aggregation: str, scaling: str) -> Tensor:
    """TRL's advantages, (groups, completions), of rewards (groups, completions, channels)."""
    groups, completions, channels = rewards.shape
    rows = groups * completions
    trainer = SimpleNamespace(
        accelerator=SimpleNamespace(
            device=torch.device("cpu"), gather=lambda value: value, process_index=0
        ),
        args=SimpleNamespace(
            gradient_accumulation_steps=1,
            gradient_checkpointing_kwargs=None,
            per_device_train_batch_size=rows,
            steps_per_generation=1,
        ),
        beta=0.0,
        environment_factories=None,
        environments=None,
        log_multimodal=False,
        mask_truncated_completions=False,
        model=SimpleNamespace(training=True, is_gradient_checkpointing=False),
        multi_objective_aggregation=TRL_NAMES[aggregation],
        num_generations=completions,
        num_iterations=1,
        pad_to_multiple_of=None,
        reward_func_names=sorted(WEIGHTS),
        reward_funcs=[None] * channels,
        reward_weights=torch.tensor([WEIGHTS[name] for name in sorted(WEIGHTS)]),
        scale_rewards=scaling,
        tools=None,
        use_vllm=False,
        vllm_importance_sampling_correction=False,
        _calculate_rewards=lambda *_: rewards.reshape(rows, channels),
        _generate=lambda prompts: ([[1]] * rows, [[2]] * rows, None, prompts, *[None] * 4),
        _logs=defaultdict(deque, rewards=defaultdict(deque)),
        _metrics={"train": defaultdict(list)},
        _pending_extra_logs={},
        _pending_metrics={},
        _tokenizer=SimpleNamespace(pad_token_id=0),
    )
    inputs = [{"prompt": "?"}] * rows
    output = GRPOTrainer._generate_and_score_completions(trainer, inputs)
    advantages: Tensor = output["advantages"].view(groups, completions)
    return advantages


def random_rewards(seed: int, missing: float) -> Tensor:
    """Live groups; beside accuracy, a reward is missing with the given chance."""
    generator = torch.Generator().manual_seed(seed)
    rewards = torch.rand(GROUPS, COMPLETIONS, len(WEIGHTS), generator=generator)
    rewards[..., 0] = (rewards[..., 0] > 0.5).float()
    rewards[:, 0, 0], rewards[:, 1, 0] = 1.0, 0.0
    gaps = torch.rand(GROUPS, COMPLETIONS, 2, generator=generator) < missing
    rewards[..., 1:] = rewards[..., 1:].masked_fill(gaps, torch.nan)
    return rewards


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("aggregation", "scaling"),
    [
        ("sum_then_normalise", "group"),
        ("sum_then_normalise", "batch"),
        ("sum_then_normalise", "none"),
        ("normalise_then_sum", "batch"),
    ],
)
def test_advantages_of_several_channels_are_trls(
    aggregation: Any, scaling: Any, seed: int, missing: float
) -> None:
    rewards = random_rewards(seed, missing)
    # A completion that nothing could score: NaN everywhere, in TRL as here.
    rewards[2, 3] = torch.nan
    settings = Training(
        reward_aggregation=aggregation, advantage_scaling=scaling, channel_deviation_floor=0.0
    )
    groups = [
        replace(
            make_group(random.Random(row), matrix[:, 0].tolist()),
            further_channels={
                "format": tuple(matrix[:, 1].tolist()),
                "length": tuple(matrix[:, 2].tolist()),
            },
        )
        for row, matrix in enumerate(rewards)
    ]
    ours = round_advantages(groups, settings, WEIGHTS).values
    if aggregation == "sum_then_normalise":
        # A departure: TRL adds 0 for what is missing, which pays where a channel is below 0.
        means = rewards.nanmean(dim=1, keepdim=True)
        unscored = rewards.isnan().all(dim=2, keepdim=True)
        rewards = rewards.where(~rewards.isnan() | unscored, means)
    theirs = trl_advantages(rewards, aggregation, scaling)
    assert theirs[2, 3] == 0.0
    assert theirs.abs().max() > 0.5
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_the_overlong_and_the_repetition_penalty_are_trls() -> None:
    generator = random.Random(0)
    completions = [
        [generator.randrange(4) for _ in range(generator.randint(1, 60))] for _ in range(200)
    ]
    theirs = get_soft_overlong_punishment(max_completion_len=50, soft_punish_cache=10)(completions)
    assert [overlong(len(ids), 50, 10) for ids in completions] == pytest.approx(theirs)
    theirs = get_repetition_penalty_reward(ngram_size=3, max_penalty=-1.0)(completions)
    assert [-repeated_share(ids, 3) for ids in completions] == pytest.approx(theirs)
