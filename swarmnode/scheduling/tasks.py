"""Schedulers in the daemon: domains are tasks, a step is a round, and what it gave are groups.

The round asks for weights by task and tells its own scored groups; here these become the State and
the Outcome that every scheduler works with. A task's loss is its share of failures; what it still
teaches is the mean |advantage| of its completions, with 0 for groups without a success or without a
failure. Kinds that need neither gradients nor torch live here; the others live in the policy host,
and here is only who speaks with them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from swarmnode.config.scheduling import Scheduling
from swarmnode.scheduling.guarded import Guarded
from swarmnode.scheduling.kinds import WITHOUT_GRADIENTS, without_gradients
from swarmnode.scheduling.mtld import mtld, words_of
from swarmnode.scheduling.scheduler import ByDomain, Outcome, State, advance, beginning
from swarmnode.scheduling.simplex import equal
from swarmnode.types import Scored


class UnusableScheduler(ValueError):
    """The settings name a scheduler that a node can't have; one line with what to do."""


def check_for_node(settings: Scheduling, tasks: int) -> None:
    """Whether a node with so many tasks can be scheduled so. Raises UnusableScheduler."""
    weights = settings.static_weights
    if settings.kind == "static" and not weights:
        raise UnusableScheduler(
            "scheduling.kind = static needs static_weights, a share for each task in order"
        )
    if weights and len(weights) != tasks:
        raise UnusableScheduler(
            f"scheduling.static_weights has {len(weights)} shares for {tasks} tasks; give one for"
            " each, in their order"
        )


class NodeScheduler(Protocol):
    """What a node has of its scheduler."""

    async def weights(self) -> Mapping[str, float]:
        """Probability by task; they sum to 1."""

    @property
    def shares(self) -> Mapping[str, float]:
        """What `weights` gave last; equal shares before."""

    async def update(self, local: Sequence[Scored]) -> Mapping[str, float]:
        """Learn from a round's own groups; returns the shares that they were drawn by, and more."""

    def state_dict(self) -> dict[str, Any]:
        """What the daemon has to keep, as lists, texts and numbers, and what it is about."""

    def load_state_dict(self, saved: Mapping[str, Any]) -> bool:
        """Go on from what `state_dict` gave; False, and nothing done, if that is of another kind
        or of other tasks."""


class SchedulerHost(Protocol):
    """Where schedulers live that look at gradients: the policy host."""

    async def weights(self) -> Sequence[float]:
        """The shares of the tasks in the next round."""

    async def schedule(self, outcome: Mapping[str, Any]) -> Mapping[str, float]:
        """Learn from a round, told as values by task under the names of Outcome."""


def task_scheduler(
    settings: Scheduling, tasks: Sequence[str], host: SchedulerHost
) -> NodeScheduler:
    """The scheduler of `settings.kind`. Raises UnusableScheduler."""
    if settings.kind in WITHOUT_GRADIENTS:
        return TaskScheduler(settings, tasks)
    return HostedTaskScheduler(settings, tasks, host)


class HostedTaskScheduler:
    """A node's scheduler that lives in the policy host: its state is kept with the policy there.

    So the shares follow the policy when that goes back to a checkpoint.
    """

    def __init__(self, settings: Scheduling, tasks: Sequence[str], host: SchedulerHost) -> None:
        """`host` has been told of settings and tasks. Raises UnusableScheduler."""
        check_for_node(settings, len(tasks))
        self._about = {"kind": settings.kind, "tasks": list(tasks)}
        self._tasks = tuple(tasks)
        self._host = host
        self._last: Sequence[float] = equal(len(tasks))

    async def weights(self) -> Mapping[str, float]:
        """As NodeScheduler says; within a round always the same."""
        self._last = await self._host.weights()
        return self.shares

    @property
    def shares(self) -> Mapping[str, float]:
        """As NodeScheduler says."""
        return dict(zip(self._tasks, self._last, strict=True))

    async def update(self, local: Sequence[Scored]) -> Mapping[str, float]:
        """As NodeScheduler says, after the round's training step."""
        outcome = outcome_of(local, self._tasks, self._last)
        told = await self._host.schedule(
            {
                "samples": outcome.samples,
                "losses": outcome.losses,
                "learnability": outcome.learnability,
                "diversity": diversities(local, self._tasks),
            }
        )
        return {**_by_task(self._tasks, self._last), **told}

    def state_dict(self) -> dict[str, Any]:
        """What it is about alone."""
        return dict(self._about)

    def load_state_dict(self, saved: Mapping[str, Any]) -> bool:
        """As NodeScheduler says; what was learned came back with the policy."""
        return {name: saved.get(name) for name in self._about} == self._about


class TaskScheduler:
    """A node's scheduler that lives in the daemon."""

    def __init__(self, settings: Scheduling, tasks: Sequence[str]) -> None:
        """Raises UnusableScheduler."""
        check_for_node(settings, len(tasks))
        self._kind = settings.kind
        self._tasks = tuple(tasks)
        weights = settings.static_weights or equal(len(tasks))
        chosen = without_gradients(settings, weights, "learnability")
        self._scheduler = Guarded(chosen, len(tasks), settings.minimum_share)
        self._state = beginning(len(tasks))
        self._last: Sequence[float] = equal(len(tasks))

    async def weights(self) -> Mapping[str, float]:
        """As NodeScheduler says."""
        self._last = self._scheduler.weights(self._state)
        return self.shares

    @property
    def shares(self) -> Mapping[str, float]:
        """As NodeScheduler says."""
        return dict(zip(self._tasks, self._last, strict=True))

    async def update(self, local: Sequence[Scored]) -> Mapping[str, float]:
        """As NodeScheduler says."""
        outcome = outcome_of(local, self._tasks, self._last)
        told = self._scheduler.update(outcome)
        self._state = advance(self._state, outcome)
        if self._kind in ("uniform", "static"):
            return {}
        return {**_by_task(self._tasks, self._last), **told}

    def state_dict(self) -> dict[str, Any]:
        """All that was learned, as lists, texts and numbers, with what it was learned about."""
        return {
            "kind": self._kind,
            "tasks": list(self._tasks),
            "scheduler": self._scheduler.state_dict(),
            "state": self._state.to_values(),
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> bool:
        """Go on from what `state_dict` gave; False, and nothing done, if that is of another kind
        or of other tasks."""
        if saved["kind"] != self._kind or tuple(saved["tasks"]) != self._tasks:
            return False
        self._scheduler.load_state_dict(saved["scheduler"])
        self._state = State.from_values(saved["state"])
        return True


def outcome_of(local: Sequence[Scored], tasks: Sequence[str], shares: Sequence[float]) -> Outcome:
    """A round's own groups by task; the samples are completions."""
    groups: defaultdict[str, list[Scored]] = defaultdict(list)
    for scored in local:
        groups[scored.group.question.task].append(scored)
    return Outcome(
        weights=tuple(shares),
        samples=tuple(float(sum(len(g.scores) for g in groups[task])) for task in tasks),
        losses=tuple(
            _mean([1.0 - success for scored in groups[task] for success in scored.successes])
            for task in tasks
        ),
        learnability=tuple(
            _mean([value for scored in groups[task] for value in advantage_sizes(scored)])
            for task in tasks
        ),
    )


def diversities(local: Sequence[Scored], tasks: Sequence[str]) -> ByDomain:
    """MTLD of all that was answered to a task's questions, as one text; None without a word."""
    words: defaultdict[str, list[str]] = defaultdict(list)
    for scored in local:
        for completion in scored.group.completions:
            words[scored.group.question.task] += words_of(completion.text)
    return tuple(mtld(words[task]) if words[task] else None for task in tasks)


def advantage_sizes(scored: Scored) -> Sequence[float]:
    """|success - mean| / deviation of each completion; zeros where all are alike.

    With a share p of successes their mean is 2 sqrt(p (1 - p)), whatever the group's size.
    """
    rate = scored.pass_rate
    deviation = math.sqrt(rate * (1.0 - rate))
    if not scored.live:
        return (0.0,) * len(scored.scores)
    return [abs(success - rate) / deviation for success in scored.successes]


def _by_task(tasks: Sequence[str], shares: Sequence[float]) -> dict[str, float]:
    return {f"scheduler/weight/{task}": share for task, share in zip(tasks, shares, strict=True)}


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
