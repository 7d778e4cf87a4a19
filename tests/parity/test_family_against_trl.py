"""Every loss that TRL 1.16 has too, with its gradient, on random tensors with ratios far from 1."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from swarmnode.config.training import Training
from swarmnode.training.batches import TrainingBatch
from swarmnode.training.losses import TokenStatistics
from swarmnode.training.objective import Fixed, batch_loss
from tests.parity.test_training_against_trl import stand_in, trl_loss

COMPLETIONS, WIDTH = 6, 7
LENGTHS = torch.tensor([7, 1, 4, 6, 3, 7])
MASK = torch.arange(WIDTH) < LENGTHS.unsqueeze(1)
ARGUMENTS = {"delta": None, "steps_per_generation": 1, "use_bias_correction_kl": False}


def values(seed: int, spread: float, shift: float = 0.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return shift + spread * torch.randn(COMPLETIONS, WIDTH, generator=generator)


OLD = -values(1, 1.0).abs()
REFERENCE = OLD + values(2, 0.4)
ENTROPIES = values(3, 1.0).abs()
ADVANTAGES = torch.tensor([-0.9, -0.4, 1.3, 0.7, -1.1, 0.2])

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "grpo": ({"normalization": "sequences"}, {"loss_type": "grpo"}, {}),
    "dapo": ({}, {"loss_type": "dapo"}, {}),
    "bnpo": ({}, {"loss_type": "bnpo"}, {}),
    "dr_grpo": ({"normalization": "constant"}, {"loss_type": "dr_grpo"}, {}),
    "dual_clip": ({"dual_clip": 1.4}, {}, {"delta": 1.4}),
    "gspo": (
        {"preset": "gspo"},
        {
            "loss_type": "grpo",
            "importance_sampling_level": "sequence",
            "epsilon_low": 3e-4,
            "epsilon_high": 4e-4,
        },
        {},
    ),
    "cispo": (
        {"preset": "cispo", "ratio_cap": 1.5},
        {"loss_type": "cispo", "epsilon_high": 1.5},
        {},
    ),
    "kl": ({"kl_weight": 0.3}, {"beta": 0.3}, {}),
    "kl of sequences": (
        {"kl_weight": 0.3, "normalization": "sequences"},
        {"beta": 0.3, "loss_type": "grpo"},
        {},
    ),
    "entropy": (
        {"entropy_weight": 0.2},
        {"_entropy_bonus_enabled": True, "use_adaptive_entropy": False, "entropy_coef": 0.2},
        {},
    ),
}


def our_batch() -> TrainingBatch:
    """What a batch needs for its loss; its packing is not asked for anything else."""
    completions = torch.arange(COMPLETIONS).unsqueeze(1).expand(-1, WIDTH)[MASK]
    none = torch.zeros(len(completions), dtype=torch.bool)
    batch = SimpleNamespace(
        packed=SimpleNamespace(completion_of_token=completions),
        advantages=ADVANTAGES[completions],
        external=none,
        weighted=none,
        gated=none,
        shaped=none,
        levels=frozenset({"none"}),
    )
    return cast("TrainingBatch", batch)


@pytest.mark.parametrize("spread", [0.5, 3e-4])
@pytest.mark.parametrize("name", CASES)
def test_a_loss_of_the_family_and_its_gradient_are_trls(name: str, spread: float) -> None:
    settings, changes, arguments = CASES[name]
    current = OLD + values(4, spread)
    theirs = current.clone().requires_grad_()
    entropies = ENTROPIES.clone().requires_grad_()
    trainer = stand_in(
        max_completion_length=WIDTH + 3,
        args=SimpleNamespace(**ARGUMENTS | arguments),
        **changes,
    )
    inputs = {
        "completion_mask": MASK.long(),
        "advantages": ADVANTAGES,
        "old_per_token_logps": OLD,
        "ref_per_token_logps": REFERENCE,
    }
    their_loss = trl_loss(trainer, theirs, inputs, entropies)
    their_loss.backward()  # type: ignore[no-untyped-call]

    chosen = Training.model_validate(settings)
    ours = current[MASK].clone().requires_grad_()
    our_entropies = ENTROPIES[MASK].clone().requires_grad_()
    reference = REFERENCE[MASK] if chosen.kl_weight else None
    fixed = Fixed(OLD[MASK], reference, None)
    tokens = TokenStatistics(ours, our_entropies)
    found = batch_loss(our_batch(), tokens, fixed, chosen, longest=WIDTH + 3)
    loss = found.losses.sum() / found.shares.sum()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(loss, their_loss, rtol=1e-5, atol=1e-6)
    assert theirs.grad is not None
    torch.testing.assert_close(ours.grad, theirs.grad[MASK], rtol=1e-5, atol=1e-6)
    if chosen.entropy_weight:
        assert entropies.grad is not None
        torch.testing.assert_close(our_entropies.grad, entropies.grad[MASK])
