"""Schedulers beside the policy: gradients by task out of the step's own, and going on exactly."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from swarmnode.config.scheduling import Scheduling
from swarmnode.config.training import Training
from swarmnode.hosted_policy import HostedPolicy
from swarmnode.scheduling.agent.gradients import DomainGradients, layer_matrices
from swarmnode.scheduling.agent.hosted import HostedOrder, HostedScheduler
from swarmnode.scheduling.tasks import HostedTaskScheduler, diversities, task_scheduler
from swarmnode.training import Trainer, TrainingGroup
from swarmnode.training.packing import micro_batches
from swarmnode.training.passes import RoundPasses
from swarmnode.training.plan import TrainedRow, plan_round
from swarmnode.training.records import divisor
from swarmnode.types import Scored
from tests.unit.made import group, scored
from tests.unit.resume_support import FILES, contents, digests, order, recorded, saved
from tests.unit.training_support import TinyLlama, make_group

KINDS = ("doge", "reward-softmax", "ac-odm", "hds")
TASKS = ("adding", "counting", "sorting")
SETTINGS = Training(micro_batch_tokens=60, external_advantage="both", learning_rate=1e-2)


def groups() -> list[TrainingGroup]:
    """Two tasks that take turns; a third has dead groups alone."""
    generator = random.Random(5)
    live = [make_group(generator, task=TASKS[number % 2]) for number in range(8)]
    return [*live, make_group(generator, rewards=(1.0,) * 4, task="sorting")]


def passes(
    model: TinyLlama, rows: Sequence[TrainedRow], tasks: Sequence[str] | None = None
) -> RoundPasses:
    return RoundPasses(model, SETTINGS, 1.0, 10, rows, None, tasks)


def gradient(model: TinyLlama) -> Tensor:
    found = [one.grad.flatten() for one in model.parameters() if one.grad is not None]
    return torch.cat(found).clone()


class Differences:
    """What the whole gradient changed by, by task, over the task's weight."""

    def __init__(self, model: TinyLlama) -> None:
        self._model = model
        self._before: Tensor | float = 0.0
        self.by_task: dict[str, Tensor] = {}
        self.products = DomainGradients(layer_matrices(model.llama), len(TASKS))

    def begin(self) -> None:
        self._before = 0.0
        self.by_task.clear()
        self.products = DomainGradients(layer_matrices(self._model.llama), len(TASKS))

    def took(self, task: str, weight: float) -> None:
        assert task not in self.by_task
        now = gradient(self._model)
        self.by_task[task] = (now - self._before) / weight
        self._before = now
        self.products.took(TASKS.index(task), scale=weight)


def test_differences_of_the_steps_gradient_are_the_gradients_of_single_tasks() -> None:
    model = TinyLlama(0)
    rows = plan_round(groups(), SETTINGS).rows
    tasks = [groups()[row.group].task for row in rows]
    watcher = Differences(model)
    passes(model, rows, tasks).gradients(0, watcher)
    assert list(watcher.by_task) == ["adding", "counting"]
    table = watcher.products.products()
    assert table[2] == (None,) * 3
    alone = []
    for task, found in watcher.by_task.items():
        own = [row for row, of in zip(rows, tasks, strict=True) if of == task]
        records = passes(model, own).gradients(0)
        torch.testing.assert_close(found, gradient(model) / divisor(records), rtol=1e-6, atol=1e-6)
        selected = [one.grad for one in layer_matrices(model.llama)]
        flat = torch.cat([one.flatten() for one in selected if one is not None])
        alone.append(flat / divisor(records))
    expected = torch.stack(alone) @ torch.stack(alone).T
    shown = torch.tensor([[table[i][j] or 0.0 for j in (0, 1)] for i in (0, 1)])
    torch.testing.assert_close(shown, expected, rtol=1e-5, atol=1e-7)


def test_a_watched_step_is_the_same_but_for_roundings() -> None:
    plain, watched = TinyLlama(0), TinyLlama(0)
    report = Trainer(plain, SETTINGS, 1.0).step(groups())
    other = Trainer(watched, SETTINGS, 1.0).step(groups(), watcher=Differences(watched))
    assert report.stepped
    assert other.metrics == pytest.approx(report.metrics, rel=1e-4, abs=1e-6)
    rows = plan_round(groups(), SETTINGS).rows
    tasks = [groups()[row.group].task for row in rows]
    fresh = TinyLlama(0)
    passes(fresh, rows, tasks).gradients(0, Differences(fresh))
    by_task = gradient(fresh)
    passes(fresh, rows).gradients(0)
    torch.testing.assert_close(by_task, gradient(fresh), rtol=1e-5, atol=1e-5)


def test_without_a_watcher_gradients_add_up_in_the_order_of_lengths_bit_for_bit() -> None:
    model = TinyLlama(0)
    rows = plan_round(groups(), SETTINGS).rows
    lengths = [row.tree.length for row in rows]
    total: Tensor | None = None
    for chosen in micro_batches(lengths, SETTINGS.tokens_at_once):
        passes(model, [rows[place] for place in chosen]).gradients(0)
        total = gradient(model) if total is None else total + gradient(model)
    passes(model, rows).gradients(0)
    assert total is not None
    assert torch.equal(gradient(model), total)
    tasks = [groups()[row.group].task for row in rows]
    passes(model, rows, tasks).gradients(0)
    assert not torch.equal(gradient(model), total)


def test_a_layer_is_its_last_trained_matrix() -> None:
    llama = TinyLlama(0, layers=3).llama
    expected = [llama.get_parameter(f"model.layers.{n}.mlp.down_proj.weight") for n in range(3)]
    assert [id(one) for one in layer_matrices(llama)] == [id(one) for one in expected]
    expected[1].requires_grad_(False)
    assert layer_matrices(llama)[1] is llama.get_parameter("model.layers.1.mlp.up_proj.weight")
    alone = nn.Linear(2, 2)
    assert layer_matrices(alone)[0] is alone.weight
    with pytest.raises(ValueError, match="no trained matrix"):
        layer_matrices(alone.requires_grad_(False))


def hosted(kind: str, *, seed: int = 7, tasks: Sequence[str] = TASKS, **more: Any) -> HostedPolicy:
    settings = Scheduling.model_validate(
        {
            "kind": kind,
            "hds": {"batch": 2, "warmup_batches": 1.0, **more},
            "ac_odm": {"batch": 2},
        }
    )
    scheduling = {"settings": settings.model_dump(), "tasks": list(tasks), "total_rounds": 10}
    return HostedPolicy(order(seed=seed) | {"scheduling": scheduling})


def told(number: int) -> dict[str, Any]:
    """What a round's groups gave: the last task has none in odd rounds."""
    last = None if number % 2 else 0.3
    return {
        "samples": (8.0, 4.0, 0.0 if last is None else 4.0),
        "losses": (0.5, 0.2 + 0.01 * number, last),
        "learnability": (0.9, 0.1, last),
        "diversity": (12.0, 30.0, None),
    }


def trajectory(policy: HostedPolicy, numbers: range) -> list[Any]:
    """Shares and metrics of rounds that train on two tasks' groups."""
    found = []
    for number in numbers:
        shares = list(policy.weights())
        local = [
            recorded(3 * number + place) | {"task": task, "source": "local"}
            for place, task in enumerate(TASKS[: 2 + number % 2])
        ]
        policy.train([*local, recorded(number)])
        found.append((shares, dict(policy.schedule(told(number)))))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_policy_asks_as_if_it_had_not_been_killed(kind: str, tmp_path: Path) -> None:
    whole = hosted(kind)
    first = trajectory(whole, range(5))
    path = saved(whole, tmp_path / "half")
    second = trajectory(whole, range(5, 9))
    end = saved(whole, tmp_path / "whole")
    shares = [each for each, _ in (*first, *second)]
    assert all(sum(each) == pytest.approx(1.0) and min(each) >= 0.02 - 1e-9 for each in shares)
    assert len({tuple(each) for each in shares}) > 2
    assert {"scheduler.json", "scheduler.safetensors"} <= contents(path).keys() - set(FILES)
    resumed = hosted(kind, seed=99)
    trajectory(resumed, range(1))
    resumed.restore(str(tmp_path / "half"))
    assert trajectory(resumed, range(5, 9)) == second
    assert digests(saved(resumed, tmp_path / "resumed")) == digests(end)


def test_gradients_reach_the_agent_and_their_alignment_is_paid() -> None:
    policy = hosted("hds")
    (_, metrics), *_ = trajectory(policy, range(1))
    assert metrics["scheduler/share/alignment"] > 0.0
    assert metrics["scheduler/share/learnability"] > 0.0
    assert metrics["scheduler/share/diversity"] > 0.0
    assert metrics["scheduler/non_finite"] == 0.0
    quiet = hosted("hds")
    quiet.weights()
    assert quiet.schedule(told(0))["scheduler/share/alignment"] == 0.0


def test_what_is_not_finite_is_kept_from_the_agent() -> None:
    policy = hosted("hds")
    policy.weights()
    metrics = policy.schedule(told(0) | {"diversity": (float("nan"), 30.0, None)})
    assert metrics["scheduler/non_finite"] == 1.0
    assert sum(policy.weights()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "other",
    [
        {"kind": "doge"},
        {"kind": "hds", "tasks": (*TASKS, "new")},
        {"kind": "hds", "absolute_state": False},
    ],
)
def test_what_another_scheduler_had_learned_is_left_behind(
    other: dict[str, Any], tmp_path: Path
) -> None:
    policy = hosted("hds")
    trajectory(policy, range(3))
    saved(policy, tmp_path)
    changed = hosted(**other)
    expected = list(hosted(**other).weights())
    changed.restore(str(tmp_path))
    assert list(changed.weights()) == expected
    plain = HostedPolicy(order())
    plain.restore(str(tmp_path))
    with pytest.raises(ValueError, match="without a scheduler"):
        plain.weights()


def test_a_checkpoint_with_a_damaged_scheduler_is_passed_over(tmp_path: Path) -> None:
    policy = hosted("hds")
    path = saved(policy, tmp_path)
    (path / "scheduler.json").write_text("{")
    report = policy.restore(str(tmp_path))
    assert report["restored"] is None
    assert [name for name, _ in report["rejected"]] == [path.name]


class Host:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[Mapping[str, Any]] = []

    async def weights(self) -> Sequence[float]:
        return [0.5, 0.3, 0.2]

    async def schedule(self, outcome: Mapping[str, Any]) -> Mapping[str, float]:
        self.told.append(outcome)
        return {"scheduler/reward": 1.0}


def answered(task: str, successes: Sequence[float], texts: Sequence[str]) -> Scored:
    return replace(
        scored(successes, task=task, source="local"), group=group(task=task, texts=texts)
    )


def a_round() -> list[Scored]:
    return [
        answered("adding", (1.0, 0.0), ["one two one", "one two three"]),
        answered("counting", (0.0, 0.0), ["", "!"]),
    ]


def test_the_daemon_tells_the_host_what_its_groups_gave_and_keeps_nothing() -> None:
    host = Host()
    scheduler = task_scheduler(Scheduling(kind="hds"), TASKS, host)
    assert isinstance(scheduler, HostedTaskScheduler)
    assert asyncio.run(scheduler.weights()) == dict(zip(TASKS, (0.5, 0.3, 0.2), strict=True))
    metrics = asyncio.run(scheduler.update(a_round()))
    assert metrics["scheduler/weight/adding"] == 0.5
    assert metrics["scheduler/reward"] == 1.0
    assert host.told[0]["losses"] == (0.5, 1.0, None)
    assert host.told[0]["learnability"] == (1.0, 0.0, None)
    assert host.told[0]["samples"] == (2.0, 2.0, 0.0)
    assert host.told[0]["diversity"] == diversities(a_round(), TASKS)
    kept = json.loads(json.dumps(scheduler.state_dict()))
    assert kept == {"kind": "hds", "tasks": list(TASKS)}
    assert scheduler.load_state_dict(kept)
    assert not scheduler.load_state_dict({**kept, "kind": "doge"})


def test_the_diversity_of_a_task_is_that_of_all_its_answers_as_one_text() -> None:
    alike = answered("adding", (1.0, 0.0), ["one one one", "one one"])
    other = diversities([alike], TASKS)[0]
    found = diversities(a_round(), TASKS)
    assert found[0] is not None
    assert other is not None
    assert found[0] > other > 0.0
    assert found[1:] == (None, None)


@pytest.mark.parametrize(("hds", "first"), [({}, 33), ({"batch": 3}, 7), ({"batch": 32}, 65)])
def test_an_agent_learns_once_it_has_watched_two_batches(hds: dict[str, Any], first: int) -> None:
    settings = Scheduling.model_validate({"kind": "hds", "hds": hds})
    scheduler = HostedScheduler(HostedOrder(settings, TASKS, 0, 7), nn.Linear(2, 2))

    def learned(number: int) -> bool:
        scheduler.weights()
        return "scheduler/critic_loss" in scheduler.update(told(number))

    assert next(number for number in range(1, 70) if learned(number)) == first
