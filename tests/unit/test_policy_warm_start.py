"""The warm start teaches, repeats exactly, composes and survives a damaged cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from swarmnode.config.policy import PolicySettings, WarmStartSettings
from swarmnode.policy.loading import load_policy
from swarmnode.policy.optimizer import orthogonalized
from swarmnode.policy.policy import Policy
from swarmnode.policy.warm_start import WarmStartPlan, warm_start
from swarmnode.policy.weights import WeightsCache, read_weights, save_weights, weights_digest

PAIRS = [(f"Calculate {a} + {b}.", str(a + b)) for a in range(8) for b in range(8)]
PLAN = WarmStartPlan(
    steps=4,
    batch_size=16,
    learning_rate=1e-2,
    weight_decay=0.01,
    seed=1,
)


def fresh(seed: int = 0) -> Policy:
    return load_policy(PolicySettings(), seed)


def digest(policy: Policy) -> str:
    return weights_digest(policy.model.state_dict())


def trained(
    plan: WarmStartPlan = PLAN, pairs: Sequence[tuple[str, str]] = PAIRS, seed: int = 0
) -> str:
    policy = fresh(seed)
    warm_start(policy, pairs, plan)
    return digest(policy)


def test_a_warm_start_teaches_what_it_is_shown() -> None:
    policy = fresh()
    pairs = [(f"Calculate {a} + 1.", str(a + 1)) for a in range(8)]
    report = warm_start(policy, pairs, replace(PLAN, steps=60, batch_size=8))
    assert report.loss < 0.3
    answers = policy.answer(
        [question for question, _ in pairs], 5, 0.0, torch.Generator().manual_seed(0)
    )
    right = [
        completion.text == answer and completion.finish_reason == "stop"
        for completion, (_, answer) in zip(answers, pairs, strict=True)
    ]
    assert sum(right) >= 7


def test_the_same_arguments_lead_to_the_same_weights() -> None:
    assert trained() == trained()


@pytest.mark.parametrize(
    "plan",
    [
        replace(PLAN, seed=2),
        replace(PLAN, steps=5),
        replace(PLAN, learning_rate=1e-3),
        replace(PLAN, batch_size=8),
        replace(PLAN, weight_decay=0.5),
    ],
)
def test_other_arguments_lead_to_other_weights(plan: WarmStartPlan) -> None:
    assert trained(plan) != trained()


def test_plans_follow_the_settings() -> None:
    settings = WarmStartSettings(
        base_steps=7, steps=3, batch_size=5, learning_rate=0.2, skill_learning_rate=0.1
    )
    assert WarmStartPlan.base(settings, 11) == WarmStartPlan(7, 5, 0.2, 0.01, 11)
    assert WarmStartPlan.specialist(settings, 12) == WarmStartPlan(3, 5, 0.1, 0.01, 12)


def test_no_steps_or_no_pairs_change_nothing() -> None:
    assert trained(replace(PLAN, steps=0)) == digest(fresh())
    assert trained(pairs=[]) == digest(fresh())


def test_a_second_warm_start_goes_on_from_the_first_and_is_cached_apart(tmp_path: Path) -> None:
    cache = WeightsCache(tmp_path)
    results = []
    for _ in range(2):
        policy = fresh()
        reports = [
            warm_start(policy, PAIRS, PLAN, cache),
            warm_start(policy, PAIRS[:9], replace(PLAN, seed=7), cache),
        ]
        results.append((digest(policy), [report.cached for report in reports]))
    assert results[0][0] == results[1][0]
    assert [cached for _, cached in results] == [[False, False], [True, True]]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_cached_start_belongs_to_all_that_shaped_it(tmp_path: Path) -> None:
    cache = WeightsCache(tmp_path)
    warm_start(fresh(), PAIRS, PLAN, cache)
    assert not warm_start(fresh(1), PAIRS, PLAN, cache).cached
    assert not warm_start(fresh(), PAIRS[:-1], PLAN, cache).cached
    assert not warm_start(fresh(), PAIRS, replace(PLAN, seed=2), cache).cached
    assert warm_start(fresh(), PAIRS, PLAN, cache).cached


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_entry_is_made_anew(tmp_path: Path, damage: str) -> None:
    cache = WeightsCache(tmp_path)
    warm_start(fresh(), PAIRS, PLAN, cache)
    (entry,) = tmp_path.iterdir()
    content = entry.read_bytes()
    damaged = {
        "cut": content[: len(content) // 2],
        "flipped": content[:-5] + bytes([content[-5] ^ 1]) + content[-4:],
        "empty": b"",
    }
    entry.write_bytes(damaged[damage])
    policy = fresh()
    assert not warm_start(policy, PAIRS, PLAN, cache).cached
    assert digest(policy) == trained()
    assert warm_start(fresh(), PAIRS, PLAN, cache).cached


def test_weights_of_another_shape_are_refused_and_leave_the_model_alone(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    save_weights(torch.nn.Linear(2, 3).state_dict(), path)
    other = torch.nn.Linear(3, 2)
    before = weights_digest(other.state_dict())
    with pytest.raises(ValueError, match="another model"):
        read_weights(other.state_dict(), path)
    assert weights_digest(other.state_dict()) == before


def test_a_failed_write_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        save_weights(torch.nn.Linear(2, 3).state_dict(), tmp_path / "weights.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_orthogonalized_matrices_have_singular_values_near_one() -> None:
    generator = torch.Generator().manual_seed(0)
    matrices = torch.randn(3, 48, 16, generator=generator) * torch.tensor([1e-4, 1.0, 1e3]).view(
        3, 1, 1
    )
    values = torch.linalg.svdvals(orthogonalized(matrices))
    assert values.min() > 0.5
    assert values.max() < 1.4
    turned = matrices.mT @ orthogonalized(matrices)
    assert (torch.diagonal(turned, dim1=1, dim2=2) > 0).all()
