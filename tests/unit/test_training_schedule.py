"""The learning rate by step."""

from __future__ import annotations

import pytest

from swarmnode.config.training import Training
from swarmnode.training import Trainer
from swarmnode.training.schedule import learning_rate
from tests.unit.training_support import TinyLlama, make_groups


def rates(**changes: object) -> list[float]:
    settings = Training.model_validate({"learning_rate": 1.0, "warmup_steps": 2, **changes})
    return [learning_rate(settings, steps) for steps in range(8)]


def test_a_constant_rate_stays_after_the_warm_up() -> None:
    assert rates() == pytest.approx([0.5] + [1.0] * 7)
    assert rates(warmup_steps=0) == [1.0] * 8


def test_a_linear_rate_arrives_at_its_floor_and_stays_there() -> None:
    falling = rates(schedule="linear", schedule_steps=6)
    assert falling == pytest.approx([0.5, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0, 0.0])
    floored = rates(schedule="linear", schedule_steps=6, schedule_floor=0.2)
    assert floored == pytest.approx([0.5, 1.0, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2])


def test_a_cosine_is_flat_at_both_ends_and_half_way_in_the_middle() -> None:
    falling = rates(schedule="cosine", schedule_steps=6)
    assert falling == pytest.approx([0.5, 1.0, 0.853553, 0.5, 0.146447, 0.0, 0.0, 0.0], abs=1e-5)


def test_a_rate_of_zero_moves_nothing_and_the_step_is_reported() -> None:
    settings = Training(warmup_steps=0, schedule="linear", schedule_steps=2)
    model = TinyLlama(0)
    trainer = Trainer(model, settings, 1.0)
    seen = [trainer.step(make_groups(1, 1)).metrics["learning_rate"] for _ in range(2)]
    before = model.vector()
    seen.append(trainer.step(make_groups(1, 1)).metrics["learning_rate"])
    assert seen == pytest.approx([2.0e-4, 0.0, 0.0])
    assert (model.vector() == before).all()
