"""Three rounds under the default settings, pinned: the published runs rest on these numbers."""

from __future__ import annotations

import pytest

from swarmnode.config.training import Training
from swarmnode.training import Trainer
from tests.unit.training_support import TinyLlama, make_groups

PINNED = [
    {"loss": -0.0301592, "entropy": 3.3574662, "grad_norm": 3.5539410, "learning_rate": 2e-05},
    {"loss": -0.3050795, "entropy": 3.3774660, "grad_norm": 2.1773866, "learning_rate": 4e-05},
    {"loss": -0.2874502, "entropy": 3.3984389, "grad_norm": 2.8516382, "learning_rate": 6e-05},
]


def test_three_rounds_under_the_defaults_give_the_numbers_that_they_always_gave() -> None:
    model = TinyLlama(0)
    trainer = Trainer(model, Training(), 0.9)
    for number, expected in enumerate(PINNED):
        groups = [*make_groups(number, 4), *make_groups(50 + number, 3, "external")]
        metrics = trainer.step(groups).metrics
        assert {name: metrics[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    assert float(model.vector().double().abs().sum()) == pytest.approx(5683.0315746, rel=1e-9)
