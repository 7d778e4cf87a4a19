"""THE MAIN PATH: one round of a node, Algorithm 1 of swarm sampling (arXiv 2509.08721, section 3).

Everything here is about order; each line calls a part that knows how. The parts are named by small
protocols and passed in, so the same round runs simulated, alone, or in a real swarm. Beside the
rounds a collector fills the pool; a round takes what it finds there and never waits.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from swarmnode.clock import Clock
from swarmnode.config.rounds import Rounds
from swarmnode.selection.bounds import ExternalBounds
from swarmnode.selection.filters import Filter
from swarmnode.selection.mix import Mix, select
from swarmnode.selection.pool import Pool
from swarmnode.selection.steering import Steered
from swarmnode.types import Group, Question, RoundReport, Scored, TaskRewards, Trained


class Scheduler(Protocol):
    """Decides what to ask."""

    async def weights(self) -> Mapping[str, float]:
        """Probability by task."""

    async def update(self, local: Sequence[Scored]) -> Mapping[str, float]:
        """Learn from a round's own groups; returns metrics."""


class Questions(Protocol):
    """The node's own question streams."""

    async def draw(self, weights: Mapping[str, float], count: int) -> Sequence[Question]:
        """`count` new questions, tasks drawn with replacement by `weights`."""


class Policy(Protocol):
    """The model."""

    async def generate(self, questions: Sequence[Question], completions: int) -> Sequence[Group]:
        """`completions` sampled answers to each question."""

    async def lengths(self, groups: Sequence[Scored]) -> Sequence[Sequence[int]]:
        """Tokens of each completion of peers' groups, in the policy's own tokenizer."""

    async def train(self, groups: Sequence[Scored], watched: Sequence[Scored] = ()) -> Trained:
        """One policy-gradient step on these groups; `watched` ones are only measured."""


class Rewards(Protocol):
    """The node's own verifier."""

    async def score(self, groups: Sequence[Group]) -> Sequence[Scored]:
        """Score the node's own groups."""


class Outgoing(Protocol):
    """Where shared groups are put; never fails, never waits."""

    def put(self, groups: Sequence[Scored]) -> None:
        """Hand over what a round shares."""


class GuardRails(Protocol):
    """Watch what a node's own answers have become, and what they are rewarded for."""

    def watch(self, groups: Sequence[Scored]) -> Mapping[str, float]:
        """Take in a round's own groups; returns metrics."""

    def permitted(self, groups: Sequence[Scored]) -> Sequence[Scored] | None:
        """What may be trained on of these; None: no step in this round."""

    def heard(self, metrics: Mapping[str, float] | None) -> Mapping[str, float]:
        """Take in what the step said, None if there was none; returns metrics."""


Learned = Callable[[Sequence[Scored], Trained], None]
"""Is told of each step: the groups that it was given, and what it made of them."""


def unheard(groups: Sequence[Scored], trained: Trained) -> None:
    """Nobody is told."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a node's rounds work with."""

    number: int
    """Position of the node in its swarm; 0 for a node on its own."""
    rounds: Rounds
    scheduler: Scheduler
    questions: Questions
    policy: Policy
    rewards: Rewards
    outgoing: Outgoing
    pool: Pool
    chosen_by: Filter
    bounds: ExternalBounds
    guard_rails: GuardRails
    clock: Clock
    rng: random.Random
    steered: Steered | None = None
    """The filter as the scheduler's shares steer it; None: they don't."""
    learned: Learned = unheard


async def run_round(
    node: Parts, number: int, seen: Callable[[Sequence[Scored]], None] = lambda _local: None
) -> RoundReport:
    """Produce, then learn; `seen` is shown the node's own groups in between."""
    local = await produce(node)
    seen(local)
    return await learn(node, number, local)


async def produce(node: Parts) -> Sequence[Scored]:
    """Ask, answer, score and share: B, R(q), ρ and C(q) of Algorithm 1."""
    local = await answer(node)
    while wants_more(local, node.rounds):
        local = (*local, *await answer(node))
    node.outgoing.put(shared(local, node.rounds.share))
    return local


async def answer(node: Parts) -> Sequence[Scored]:
    """Draw Q questions, answer them and score the answers."""
    weights = await node.scheduler.weights()
    questions = await node.questions.draw(weights, node.rounds.questions)
    groups = await node.policy.generate(questions, node.rounds.completions_per_group)
    return await node.rewards.score(groups)


async def learn(node: Parts, number: int, local: Sequence[Scored]) -> RoundReport:
    """Mix local with external groups into T and take a policy-gradient step on it."""
    mix = await mixed(node, local)
    steering = node.steered.figures(mix.external) if node.steered else {}
    external = node.bounds.trained(mix.external)
    training_set = (*mix.own, *external)
    watched = node.guard_rails.watch(local)
    permitted = node.guard_rails.permitted(training_set)
    trained = None
    if permitted is not None:
        trained = await node.policy.train(permitted, () if external else mix.external)
        node.learned(permitted, trained)
    told = None if trained is None else trained.metrics
    scheduled = await node.scheduler.update(local)
    return RoundReport(
        node=node.number,
        round=number,
        clock_seconds=node.clock.now(),
        local=task_rewards(local),
        training_set=task_rewards(training_set),
        metrics={
            **(told or {}),
            **generation_metrics(local),
            **mix_metrics(mix.own, external, len(node.pool), node.clock.now()),
            **node.bounds.figures(),
            **steering,
            **scheduled,
            **watched,
            **node.guard_rails.heard(told),
        },
        sources=Counter(scored.group.publisher[:8].hex() for scored in external),
        trained=() if trained is None else trained.groups,
    )


async def mixed(node: Parts, local: Sequence[Scored]) -> Mix:
    """Choose I own groups and up to J external ones, within the bounds of what strangers may do."""
    candidates = node.pool.fresh(node.clock.now()) if node.rounds.external_groups_per_round else ()
    node.bounds.measure(candidates, await node.policy.lengths(candidates))
    if node.steered:
        node.steered.begin(candidates)
    mix = select(
        [scored for scored in local if scored.live or not node.rounds.dynamic_sampling],
        candidates,
        local_count=node.rounds.local_groups_per_round,
        external_count=node.rounds.external_groups_per_round,
        chosen_by=node.steered or node.chosen_by,
        bounds=node.bounds,
        rng=node.rng,
    )
    node.pool.take((*mix.external, *mix.refused))
    return mix


def wants_more(local: Sequence[Scored], rounds: Rounds) -> bool:
    """Whether dynamic sampling asks on (DAPO, arXiv 2503.14476, section 3.2)."""
    live = sum(scored.live for scored in local)
    wanting = rounds.dynamic_sampling and live < rounds.local_groups_per_round
    return wanting and len(local) < rounds.questions_limit


def shared(local: Sequence[Scored], share: Literal["all", "live", "none"]) -> Sequence[Scored]:
    """S ⊆ B: the groups that leave the machine."""
    match share:
        case "all":
            return local
        case "live":
            return [scored for scored in local if scored.live]
        case "none":
            return ()


def task_rewards(scored: Sequence[Scored]) -> TaskRewards:
    """Mean success by task."""
    by_task: defaultdict[str, list[float]] = defaultdict(list)
    for each in scored:
        by_task[each.group.question.task] += each.successes
    return TaskRewards({task: sum(s) / len(s) for task, s in sorted(by_task.items())})


def generation_metrics(local: Sequence[Scored]) -> dict[str, float]:
    """What asking and answering cost, and how much of it can teach anything."""
    completions = [completion for scored in local for completion in scored.group.completions]
    return {
        "generated/groups": len(local),
        "generated/live_groups": sum(scored.live for scored in local),
        "generated/tokens": sum(completion.token_count for completion in completions),
    }


def mix_metrics(
    own: Sequence[Scored], external: Sequence[Scored], pool_size: int, now: float
) -> dict[str, float]:
    """What the training set was made of; the names are those of docs/metrics.md."""
    ages = [now - scored.received for scored in external]
    return {
        "mix/local_groups": len(own),
        "mix/external_groups": len(external),
        "mix/local_live_groups": sum(scored.live for scored in own),
        "mix/external_live_groups": sum(scored.live for scored in external),
        "mix/external_peers": len({scored.group.publisher for scored in external}),
        "mix/external_age_seconds": sum(ages) / len(ages) if ages else 0.0,
        "pool/groups": pool_size,
    }
