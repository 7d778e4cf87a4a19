"""What peers say that our own policy never would: measured without cost, and kept out if asked."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from swarmnode.config.external import GateAction, LogProbGate
from swarmnode.config.training import Training
from swarmnode.training import StepReport, Trainer, TrainingGroup
from swarmnode.training.log_prob_gate import KEPT, LEAST, Calibration, low_share, quantile
from tests.unit.training_support import TinyLlama, make_group, make_groups

PLAIN = Training(warmup_steps=0)
UNLIKELY = 0.02
"""Likelier than a random token to the random model here, less likely than its first choice."""


class CountingLlama(TinyLlama):
    """Counts what goes through it."""

    passes = 0

    def tree_hidden(self, token_ids: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        self.passes += 1
        return super().tree_hidden(token_ids, positions, segments)


@torch.no_grad()
def first_choice(model: TinyLlama, prompt: Sequence[int], length: int) -> tuple[int, ...]:
    """What the policy says where it always takes the likeliest token."""
    ids = list(prompt)
    for _ in range(length):
        ids.append(int(model.llama(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    return tuple(ids[len(prompt) :])


def own(count: int = 60, logprob: float = -0.1) -> list[TrainingGroup]:
    """Own groups, all of whose tokens were that likely when they were sampled."""
    return [
        replace(
            group,
            sampler_logprobs=tuple((logprob,) * len(ids) for ids in group.completions),
        )
        for group in make_groups(1, count)
    ]


def stranger(model: TinyLlama, rewards: Sequence[float] = (1.0, 1.0, 0.0)) -> TrainingGroup:
    """A peer's group whose first right answer is what we would say, and the second is not."""
    group = make_group(random.Random(5), rewards, "external")
    likely = first_choice(model, group.prompt_ids, 4)
    odd = tuple(59 - one for one in likely)
    return replace(group, completions=(likely, odd, *group.completions[2:]))


def trained(
    action: GateAction,
    external: Sequence[TrainingGroup],
    model: TinyLlama | None = None,
    watched: Sequence[TrainingGroup] = (),
    logprob: float = -0.1,
) -> tuple[TinyLlama, Trainer, StepReport]:
    """A round after one of own groups alone, from which the gate has its limit."""
    model = model or TinyLlama()
    gate = LogProbGate(action=action, probability=UNLIKELY)
    trainer = Trainer(model, PLAIN, 1.0, gate=gate)
    trainer._gate.calibrate(own(logprob=logprob))
    return model, trainer, trainer.step([*make_groups(2, 2), *external], watched)


def test_the_share_counts_tokens_below_the_probability() -> None:
    assert low_share([-1.0, -12.0, -9.0, -9.3], 1e-4) == 0.5
    assert low_share([], 1e-4) == 0.0


@pytest.mark.parametrize(("count", "expected"), [(1, 0), (100, 98), (200, 197), (400, 395)])
def test_at_most_one_in_a_hundred_exceeds_the_limit(count: int, expected: int) -> None:
    values = [float(n) for n in range(count)]
    random.Random(0).shuffle(values)
    assert quantile(values, 0.99) == expected
    assert sum(value > quantile(values, 0.99) for value in values) <= count / 100


def test_a_task_of_which_little_is_known_is_judged_by_all_and_none_before_enough_is_known() -> None:
    calibration = Calibration()
    calibration.observe("a", [0.1] * (LEAST - 1))
    assert calibration.limit("a", 0.99) is None
    calibration.observe("b", [0.5] * 10)
    assert calibration.limit("a", 0.99) == calibration.limit("b", 0.99) == 0.5
    calibration.observe("a", [0.1] * 10)
    assert calibration.limit("a", 0.99) == 0.1
    assert calibration.limit("c", 0.99) == 0.5
    calibration.observe("a", [0.0] * KEPT)
    assert calibration.limit("a", 0.99) == 0.0
    assert Calibration.from_values(calibration.to_values()).limit("b", 0.99) == 0.5


def test_monitoring_changes_nothing_and_costs_no_pass_over_the_model() -> None:
    models = [CountingLlama(), CountingLlama()]
    for model, action in zip(models, ("off", "monitor"), strict=True):
        trained(action, [stranger(TinyLlama())], model)  # type: ignore[arg-type]  # names of actions
    assert torch.equal(models[0].vector(), models[1].vector())
    assert models[0].passes == models[1].passes > 0


def test_what_is_past_the_limit_is_counted_by_what_is_known_of_the_peers_model() -> None:
    group = stranger(TinyLlama())
    other = replace(group, same_tokenizer=False)
    metrics = trained("monitor", [group, other])[2].metrics
    assert metrics["log_prob_gate/measured/same_tokenizer"] == 2
    assert metrics["log_prob_gate/over/same_tokenizer"] == 1
    assert metrics["log_prob_gate/measured/other_tokenizer"] == 2
    assert metrics["log_prob_gate/over/other_tokenizer"] == 1
    assert metrics["completions/gated_external"] == 0
    assert not [name for name in trained("off", [group])[2].metrics if "log_prob" in name]


def test_enforcing_leaves_out_the_completion_alone_and_its_reward_stays_in_the_baseline() -> None:
    group = stranger(TinyLlama())
    model, _, report = trained("enforce", [group])
    without, _, _ = trained("off", [replace(group, excluded=frozenset({1}))])
    torch.testing.assert_close(model.vector(), without.vector())
    assert not torch.equal(model.vector(), trained("off", [group])[0].vector())
    assert report.metrics["completions/gated_external"] == 1
    assert report.metrics["log_prob_gate/over/same_tokenizer"] == 1
    assert report.treatments[-1].level == "positive"


def test_a_group_of_which_nothing_passes_is_out_and_the_reason_is_told() -> None:
    group = stranger(TinyLlama(), (0.0, 1.0, 0.0))
    model, _, report = trained("enforce", [group])
    assert torch.equal(model.vector(), trained("off", [])[0].vector())
    assert report.treatments[-1].why == "unlikely to our own policy"


def test_a_policy_that_often_says_unlikely_things_itself_lets_others_say_them() -> None:
    report = trained("enforce", [stranger(TinyLlama())], logprob=-9.0)[2]
    assert report.metrics["completions/gated_external"] == 0


def test_without_enough_own_completions_nothing_is_judged() -> None:
    model = TinyLlama()
    trainer = Trainer(model, PLAIN, 1.0, gate=LogProbGate(action="enforce", probability=UNLIKELY))
    metrics = trainer.step([*make_groups(2, 2), stranger(TinyLlama())]).metrics
    assert metrics["completions/gated_external"] == 0
    assert not [name for name in metrics if name.startswith("log_prob_gate/")]


def test_groups_that_are_watched_are_measured_and_not_trained_on() -> None:
    model, _, report = trained("monitor", [], watched=[stranger(TinyLlama())])
    assert torch.equal(model.vector(), trained("off", [])[0].vector())
    assert report.metrics["log_prob_gate/measured/same_tokenizer"] == 2
    assert report.metrics["log_prob_gate/over/same_tokenizer"] == 1
    assert report.metrics["tokens/external"] == 0


def test_what_is_known_of_own_completions_goes_with_the_trainers_state() -> None:
    _, trainer, _ = trained("monitor", [])
    again = Trainer(TinyLlama(), PLAIN, 1.0, gate=LogProbGate())
    again.load_state_dict(trainer.state_dict())
    assert again.state_dict()["log_prob_gate"] == trainer.state_dict()["log_prob_gate"] != {}
    old = {name: value for name, value in trainer.state_dict().items() if name != "log_prob_gate"}
    again.load_state_dict(old)
    assert again.state_dict()["log_prob_gate"] == {}
