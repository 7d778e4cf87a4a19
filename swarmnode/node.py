"""The wiring of one node: from settings and collaborators to the parts of its rounds. No logic."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from swarmnode.asking import QuestionStreams, ReserveIndices
from swarmnode.clock import Clock
from swarmnode.collect import Collector
from swarmnode.conduct import Notices
from swarmnode.config.settings import Settings
from swarmnode.controls import OwnPast, ReferenceAnswers
from swarmnode.guard_rails import Rails
from swarmnode.network.transport import Transport
from swarmnode.policy.client import RemotePolicy
from swarmnode.publish import Identity, Numbers, Published, Publisher
from swarmnode.rewards.budget import ScorerBudget
from swarmnode.rewards.client import Scorer
from swarmnode.round import Learned, Parts, unheard
from swarmnode.scheduling.tasks import NodeScheduler, task_scheduler
from swarmnode.scored import NodeRewards
from swarmnode.selection.admission import AdmissionRules, Reason
from swarmnode.selection.bounds import ExternalBounds
from swarmnode.selection.budget import indifferent
from swarmnode.selection.filters import Filter, draw_rule, load_filter
from swarmnode.selection.pool import Pool
from swarmnode.selection.quality import Quality
from swarmnode.selection.remembered import Remembered
from swarmnode.selection.standing import Standing
from swarmnode.selection.steering import Steered, steered_filter
from swarmnode.types import Evaluation, RoundReport
from swarmproto import ANNOUNCEMENT_BYTES_MAX, SwarmRules


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a node is put into."""

    number: int
    identity: Identity
    swarm_id: bytes
    levels: Mapping[str, str]
    """Level by enabled task."""
    fingerprints: Mapping[tuple[str, str], bytes]
    scorer: Scorer
    transport: Transport
    clock: Clock
    score_seconds: Callable[[], float]
    """Declared duration of a call to the scorer."""
    seed: int
    rules: SwarmRules | None = None
    """The swarm's, where it has other limits than the wire."""
    reserve_indices: ReserveIndices | None = None
    """What keeps question indices over a death of the node; None: nothing does."""
    numbers: Numbers | None = None
    """The same for sequence numbers."""
    standing: Standing = field(default_factory=Standing)
    """What is held against peers."""
    remembered: Remembered = field(default_factory=Remembered)
    quality: Quality = field(default_factory=Quality)
    """What share of each peer's groups was of use."""
    notices: Notices = field(default_factory=Notices)
    """Whom the collector tells of what."""
    published: Published | None = None
    announcement_bytes_max: int = ANNOUNCEMENT_BYTES_MAX


class Incoming(Protocol):
    """Fills the pool beside the rounds."""

    @property
    def dropped(self) -> Counter[Reason]:
        """What was dropped since the start, by reason."""

    @property
    def counts(self) -> Counter[str]:
        """What came in since the start."""

    async def run(self) -> None:
        """Fill the pool until cancelled, or until nothing is left to do."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node that is ready for its rounds."""

    parts: Parts
    policy: RemotePolicy
    publisher: Publisher
    incoming: Incoming
    rewards: NodeRewards
    guard_rails: Rails
    scheduler: NodeScheduler
    transport: Transport
    reported: Counter[str] = field(default_factory=Counter)
    """What was dropped, by reason, as far as reports have told it."""

    async def join(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Start serving, publishing and collecting; the caller cancels what is returned."""
        await self.transport.start()
        name = self.parts.number
        return [
            tasks.create_task(self.publisher.run(), name=f"publisher-{name}"),
            tasks.create_task(self.incoming.run(), name=f"incoming-{name}"),
        ]

    def withdraw(self) -> None:
        """Train alone from now on: publish nothing, and take nothing of peers."""
        self.publisher.paused = True
        if isinstance(self.incoming, Collector):
            self.incoming.stop()

    def examined(self, report: RoundReport, evaluation: Evaluation) -> RoundReport:
        """The report with how the policy did on held-out questions after that round.

        What follows from it for peers' groups holds from the next round on.
        """
        told = self.parts.bounds.examined(evaluation)
        return replace(report, evaluation=evaluation, metrics={**report.metrics, **told})

    def with_traffic(self, report: RoundReport) -> RoundReport:
        """The report with what was dropped since the last one, and moved since the start."""
        total = Counter({reason.value: count for reason, count in self.incoming.dropped.items()})
        dropped = total - self.reported
        self.reported.update(dropped)
        traffic = {
            **{f"collected/{name}": float(n) for name, n in self.incoming.counts.items()},
            **{f"published/{name}": float(n) for name, n in self.publisher.counts.items()},
            **{f"unscored/{name}": float(n) for name, n in self.rewards.unscored.items()},
        }
        return replace(report, dropped=dict(dropped), metrics={**report.metrics, **traffic})


def build_node(
    settings: Settings, policy: RemotePolicy, around: Surroundings, learned: Learned = unheard
) -> Node:
    """Put a node together. Raises UnknownFilter, UnusableScheduler."""
    selection = settings.selection
    source = selection.external_source
    chosen_by = load_filter(selection.filter, draw_rule(selection.draw))
    pool = Pool(
        # Without room nothing is fetched, and all that is looked for is another node with our key.
        capacity=0 if settings.policy.external == "off" else selection.pool_groups,
        age_seconds=selection.pool_age_seconds,
        replay=source == "own_past",
    )
    budget = ScorerBudget(settings.rewards.prefix_share, settings.rewards.prefix_seconds)
    rewards = NodeRewards(around.scorer, around.clock, around.score_seconds, budget)
    publisher = _publisher(settings, around)
    own_past = OwnPast(pool)
    scheduler = task_scheduler(settings.scheduling, list(around.levels), policy)
    incoming: Incoming
    match source:
        case "peers":
            incoming = _collector(settings, around, rewards, pool, chosen_by, scheduler)
        case "own_past":
            incoming = own_past
        case "reference_answers":
            incoming = _reference_answers(settings, around, rewards, pool)
    guard_rails = Rails(settings.guard_rails, around.levels)
    parts = Parts(
        number=around.number,
        rounds=settings.rounds,
        scheduler=scheduler,
        questions=_questions(
            around, around.identity.public_key, "questions", around.reserve_indices
        ),
        policy=policy,
        rewards=rewards,
        outgoing=own_past if source == "own_past" else publisher,
        pool=pool,
        chosen_by=chosen_by,
        bounds=_bounds(settings),
        guard_rails=guard_rails,
        clock=around.clock,
        rng=random.Random(f"{around.seed}/node/{around.number}"),
        steered=_steered(settings, scheduler),
        learned=learned,
    )
    return Node(
        parts, policy, publisher, incoming, rewards, guard_rails, scheduler, around.transport
    )


def _steered(settings: Settings, scheduler: NodeScheduler) -> Steered | None:
    if not settings.scheduling.steer_external:
        return None
    selection = settings.selection
    return steered_filter(selection.filter, selection.draw, lambda: scheduler.shares)


def _bounds(settings: Settings) -> ExternalBounds:
    return ExternalBounds(
        settings.selection,
        use=settings.policy.external,
        share=settings.selection.external_share(settings.rounds),
        positive=settings.training.external_advantage == "positive",
        longest=settings.policy.new_tokens,
    )


def _publisher(settings: Settings, around: Surroundings) -> Publisher:
    return Publisher(
        identity=around.identity,
        swarm_id=around.swarm_id,
        transport=around.transport,
        clock=around.clock,
        fingerprints=around.fingerprints,
        announcement_seconds=settings.selection.announcement_seconds,
        numbers=around.numbers,
        published=around.published,
        announcement_bytes_max=around.announcement_bytes_max,
    )


def _collector(
    settings: Settings,
    around: Surroundings,
    rewards: NodeRewards,
    pool: Pool,
    chosen_by: Filter,
    scheduler: NodeScheduler,
) -> Collector:
    selection = settings.selection

    def share(task: str) -> float:
        return scheduler.shares.get(task, 0.0)

    return Collector(
        own_key=around.identity.public_key,
        rules=AdmissionRules(
            swarm_id=around.swarm_id,
            fingerprints=around.fingerprints,
            completion_tokens=settings.policy.new_tokens,
            clock_skew_seconds=selection.clock_skew_seconds,
            wants_dead=chosen_by.wants_dead,
            **_limits(around.rules),
        ),
        transport=around.transport,
        rewards=rewards,
        pool=pool,
        clock=around.clock,
        rng=random.Random(f"{around.seed}/collector/{around.number}"),
        every_seconds=selection.collect_every_seconds,
        discover_count=selection.discover_count,
        groups_per_look=selection.fetch_groups_per_look,
        own_instance=around.identity.instance,
        completions_kept=settings.rounds.completions_per_group,
        standing=around.standing,
        remembered=around.remembered,
        quality=around.quality,
        notices=around.notices,
        prefers=share if settings.scheduling.steer_external else indifferent,
    )


def _limits(rules: SwarmRules | None) -> dict[str, int]:
    """The swarm's own limits, by the names of AdmissionRules."""
    if rules is None:
        return {}
    return {
        "completions_min": rules.completions_min,
        "completions_max": rules.completions_max,
        "completion_tokens_max": rules.completion_tokens_max,
        "groups_per_bundle_max": rules.groups_per_bundle_max,
    }


def _reference_answers(
    settings: Settings, around: Surroundings, rewards: NodeRewards, pool: Pool
) -> ReferenceAnswers:
    # A stream of its own, so that no question is asked and given away as well.
    publisher = hashlib.sha256(b"reference answers for " + around.identity.public_key).digest()
    return ReferenceAnswers(
        publisher=publisher,
        questions=_questions(around, publisher, "reference questions"),
        weights=dict.fromkeys(around.levels, 1.0 / len(around.levels)),
        completions=settings.rounds.completions_per_group,
        rewards=rewards,
        pool=pool,
        clock=around.clock,
        every_seconds=settings.selection.collect_every_seconds,
    )


def _questions(
    around: Surroundings, public_key: bytes, purpose: str, reserve: ReserveIndices | None = None
) -> QuestionStreams:
    return QuestionStreams(
        scorer=around.scorer,
        public_key=public_key,
        levels=around.levels,
        clock=around.clock,
        seconds=around.score_seconds,
        rng=random.Random(f"{around.seed}/{purpose}/{around.number}"),
        reserve=reserve,
    )
