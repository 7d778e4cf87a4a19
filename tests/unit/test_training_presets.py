"""Presets are defaults, and what contradicts itself is refused with the reason."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from swarmnode.config.presets import BEYOND_TRAINING, PRESETS, Preset
from swarmnode.config.settings import SettingsError, load_settings
from swarmnode.config.training import Training


def test_every_preset_but_the_default_changes_something_and_survives_a_dump() -> None:
    assert PRESETS.keys() | {"default"} == set(get_args(Preset))
    for name in PRESETS:
        chosen = Training.model_validate({"preset": name})
        changed = chosen != Training().model_copy(update={"preset": name})
        assert changed or name in BEYOND_TRAINING
        assert Training.model_validate(chosen.model_dump()) == chosen
        assert Training.model_validate(chosen.model_dump(mode="json")) == chosen
    assert Training(preset="default") == Training()


def test_what_is_written_beside_a_preset_wins_whatever_the_order() -> None:
    for assignments in (
        ["training.preset=grpo", "training.kl_weight=0", "training.clip_high=0.3"],
        ["training.kl_weight=0", "training.clip_high=0.3", "training.preset=grpo"],
    ):
        training = load_settings(assignments=assignments).training
        assert (training.kl_weight, training.clip_high) == (0.0, 0.3)
        assert training.normalization == "sequences"


def test_a_preset_reaches_the_sections_that_its_method_needs() -> None:
    chosen = load_settings(assignments=["training.preset=dapo"])
    assert chosen.rounds.dynamic_sampling
    assert chosen.rewards.channels.overlong.weight == 1.0
    other = load_settings(
        assignments=["training.preset=dapo", "rewards.channels.overlong.weight=0.5"],
        flags={"rounds.dynamic_sampling": False},
    )
    assert not other.rounds.dynamic_sampling
    assert other.rewards.channels.overlong.weight == 0.5
    assert type(chosen).model_validate(chosen.model_dump()) == chosen
    plain = load_settings()
    assert not plain.rounds.dynamic_sampling
    assert plain.rewards.channels.overlong.weight == 0.0


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"objective": "cispo"}, "needs ratio_cap"),
        ({"objective": "cispo", "ratio_cap": 0.28}, "greater than or equal to 1"),
        ({"preset": "cispo", "clip_high": 0.2}, "distances from 1"),
        ({"preset": "cispo", "ratio_level": "sequence"}, "single tokens"),
        ({"preset": "cispo", "dual_clip": 3.0}, "dual_clip belongs"),
        ({"preset": "cispo", "covariance": "clip"}, "single tokens"),
        ({"ratio_cap": 5.0}, "ratio_cap belongs"),
        ({"ratio_level": "sequence"}, "preset = gspo"),
        ({"ratio_level": "sequence_token", "clip_low": 3e-4}, "never clips"),
        ({"preset": "gspo", "ratio_level": "token"}, "for sequence ratios"),
        ({"preset": "gspo", "covariance": "clip"}, "single tokens"),
        ({"dual_clip": 1.2}, "above 1"),
        ({"ratio_denominator": "sampler", "local_correction": True}, "a second time"),
        ({"covariance": "kl"}, "inner_steps = 2"),
        ({"covariance": "clip", "covariance_low": 6.0}, "covariance_low"),
        ({"schedule": "cosine"}, "schedule_steps above"),
        ({"schedule": "linear", "schedule_steps": 10}, "schedule_steps above"),
        ({"schedule_steps": 100}, "needs schedule"),
    ],
)
def test_a_contradiction_is_refused_with_what_to_do(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        Training.model_validate(settings)


def test_a_contradiction_is_one_line_for_the_user_that_names_where_it_came_from() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(assignments=["training.ratio_level=sequence"])
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("training.ratio_level (from --set): ratio_level = sequence")
