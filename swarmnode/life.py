"""A node from its first question to its last checkpoint, once its children are there.

The rounds are those of round.py, or of split/loops.py where generation and training are apart;
whatever breaks beside them is mended where it belongs. Invariants: a round never waits for the
network; what was learned is on disk at most `daemon.checkpoint_seconds` later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog

from swarmnode.clock import SystemClock
from swarmnode.conduct import Notices
from swarmnode.evaluation import Examiner
from swarmnode.guarding import Guarding
from swarmnode.keeper import PolicyKeeper
from swarmnode.memories import Memories
from swarmnode.network.remote import RemoteTransport
from swarmnode.network.transport import Transport
from swarmnode.node import build_node
from swarmnode.observe.health import warnings
from swarmnode.observe.health_log import HealthLog
from swarmnode.observe.samples import Samples
from swarmnode.origin import kept, round_of, scheduler_of
from swarmnode.outfit import Plan, surroundings_of
from swarmnode.policy.client import RemotePolicy
from swarmnode.process import Child, ChildError
from swarmnode.remote_generators import Place
from swarmnode.reports import report_as_json, report_in_short, trained_in_short
from swarmnode.rewards.client import Scorer
from swarmnode.rollouts import RolloutRecorder
from swarmnode.round import run_round
from swarmnode.split.versions import carried
from swarmnode.splitting import split_of
from swarmnode.stopping import Stopping
from swarmnode.store.store import Store
from swarmnode.trackers.following import Following
from swarmnode.types import RoundReport, Scored, TaskRewards, Trained
from swarmnode.vitals import Vitals

HEALTH_SECONDS = 2.0
MOST_SECONDS_AFTER_FAILURE = 30.0
RECENT_ROUNDS = 300
OLDER_ROUNDS = 300
"""Of the rounds of earlier lives, as many as are shown."""

log = structlog.get_logger()


class Life:
    """A node from its first question to its last checkpoint."""

    def __init__(
        self,
        plan: Plan,
        clock: SystemClock,
        store: Store,
        vitals: Vitals,
        keeper: PolicyKeeper,
        memories: Memories,
        transport: Transport,
        remote: RemoteTransport | None,
        generators: Mapping[str, Child | Place],
        following: Following,
    ) -> None:
        """`remote` is the transport, unless the node is on its own; `generators` are hosts by name,
        where the policy host does not sample itself."""
        self._plan = plan
        self._clock = clock
        self._store = store
        self._vitals = vitals
        self._keeper = keeper
        self._memories = memories
        self._transport = transport
        self._remote = remote
        self._generators = generators
        self._following = following
        self._number = 0
        """The last round that ended."""
        self._saved = clock.now()
        self._saved_number = -1
        """The last round whose policy is on disk."""
        self._samples = Samples(plan.settings.daemon.sample_seconds)
        self._rollouts = RolloutRecorder(store, lambda: vitals.round_number)
        self._health_log = HealthLog()
        self._verdicts: set[asyncio.Task[None]] = set()

    async def begin(self, scorer: Scorer, policy: RemotePolicy) -> None:
        """Make policy and node, and go on where the last life ended."""
        settings = self._plan.settings
        pairs = list(settings.tasks.pairs)
        fingerprints = dict(zip(pairs, await scorer.fingerprints(pairs), strict=True))
        self._examiner = await Examiner.prepare(
            scorer, dict(pairs), settings.evaluation.questions_per_task
        )
        stored = await self._store.rounds(1)
        around = surroundings_of(
            self._plan,
            fingerprints,
            scorer,
            self._transport,
            self._clock,
            self._store,
            self._memories,
            self._notices(),
            max((one.number for one in stored), default=0),
        )
        self._node = self._vitals.node = build_node(settings, policy, around, self._learned)
        self._split = self._vitals.split = split_of(
            self._plan, self._node, self._generators, scorer, self._clock
        )
        self._guarding = Guarding(self._node.guard_rails, self._node.parts.bounds, self._keeper)
        saved = self._kept = await self._keeper.start()
        self._guarding.restore(saved)
        learned = scheduler_of(saved)
        if learned is not None and not self._node.scheduler.load_state_dict(learned):
            log.info("scheduler starts anew", kind=settings.scheduling.kind)
        self._number = max(round_of(saved), *(one.number for one in stored), 0)
        self._saved_number = -1 if saved is None else round_of(saved)
        if self._split is not None:
            await self._split.begin(self._number, saved, stored[0].report if stored else None)
        await self._recall()
        if not stored:
            await self._examine_start()
        if saved is None and settings.guard_rails.action == "roll_back":
            await self._save()

    async def _examine_start(self) -> None:
        """Round 0: what the policy can do before its first round."""
        evaluation = await self._examiner.examine(self._node.policy, self._clock, lambda: 0.0)
        nothing, now = TaskRewards({}), self._clock.now()
        report = self._node.examined(RoundReport(0, 0, now, nothing, nothing), evaluation)
        self._vitals.evaluation = evaluation
        self._record(report, now)
        log.info("start", held_out=round(evaluation.held_out.mean, 3))

    def _notices(self) -> Notices:
        remote = self._remote
        if remote is None:
            return Notices()
        return Notices(
            admitted=self._rollouts.admitted,
            duplicate=self._duplicate,
            muted=lambda peer, seconds: self._tell(remote.bad_peer(peer, seconds)),
            served=lambda address: self._tell(remote.good_peer(address)),
        )

    def _tell(self, telling: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(telling)
        # Only a task that somebody holds is sure to be run to its end.
        self._verdicts.add(task)
        task.add_done_callback(self._verdicts.discard)

    def _duplicate(self, instance: bytes, started: float) -> None:
        """Another node runs with our key: the one that started later withdraws."""
        own = self._plan.identity.instance
        later = (started, instance) < (self._node.publisher.started_ms / 1000, own)
        log.error("another node runs with this key", instance=instance.hex(), we_withdraw=later)
        if later:
            self._vitals.duplicate_instance = instance.hex()
            self._node.withdraw()

    async def lead(self, stopping: Stopping) -> None:
        """Go through rounds until it is time to stop, then keep what was learned."""
        self._vitals.phase = "running"
        async with asyncio.TaskGroup() as tasks:
            beside = await self._node.join(tasks)
            if self._split is not None:
                beside += self._split.generating(tasks)
            beside.append(tasks.create_task(self._watch(), name="watch"))
            beside.append(tasks.create_task(self._memories.keep(), name="memories"))
            await stopping.unless(self._rounds(stopping))
            self._vitals.phase = "stopping"
            for task in beside:
                task.cancel()
        self._memories.keep_now()
        if self._number > self._saved_number and not await self._save():
            raise ChildError(f"what was learned last is lost: {self._keeper.problem}")

    async def _watch(self) -> None:
        while True:
            now = self._clock.now()
            self._vitals.heard(await self._transport.health(), now)
            # What happened in the last hour is counted from what was looked at.
            self._health_log.heard(warnings(self._vitals.facts(now)), now)
            await self._clock.sleep(HEALTH_SECONDS)

    async def _rounds(self, stopping: Stopping) -> None:
        last = self._plan.rounds
        while not stopping.asked and (last is None or self._number < last):
            started = self._clock.now()
            self._vitals.round_number = self._number + 1
            try:
                report = await self._round(self._number + 1)
            except ChildError as error:
                await self._failed(error, stopping)
                continue
            self._number += 1
            self._ended(report, started)
            if await self._guarding.after(report):
                self._saved, self._saved_number = self._clock.now(), self._number
                if self._split is not None:
                    await self._split.went_back(forget=True)
            if self._clock.now() - self._saved >= self._plan.settings.daemon.checkpoint_seconds:
                await self._save()
            least = 0.0 if self._plan.solo else self._plan.settings.daemon.shortest_round_seconds
            await stopping.sleep(max(0.0, started + least - self._clock.now()))

    async def _round(self, number: int) -> RoundReport:
        if self._split is None:
            report = await self._timed_round(number)
        else:
            report = await self._split.round(number, self._seen)
        if number % self._plan.settings.evaluation.every_rounds and number != self._plan.rounds:
            return report
        evaluation = await self._examiner.examine(self._node.policy, self._clock, lambda: 0.0)
        return self._node.examined(report, evaluation)

    async def _timed_round(self, number: int) -> RoundReport:
        begun = answered = self._clock.now()

        def seen(local: Sequence[Scored]) -> None:
            nonlocal answered
            answered = self._clock.now()
            self._seen(local)

        report = await run_round(self._node.parts, number, seen)
        seconds = {
            "seconds/produce": answered - begun,
            "seconds/learn": self._clock.now() - answered,
        }
        return replace(report, metrics={**report.metrics, **seconds})

    def _seen(self, local: Sequence[Scored]) -> None:
        self._samples.look(local, self._clock.now())
        self._rollouts.answered(local)

    def _learned(self, groups: Sequence[Scored], trained: Trained) -> None:
        self._vitals.learned(groups, trained)
        self._rollouts.learned(groups, trained)

    def _ended(self, report: RoundReport, started: float) -> None:
        now = self._clock.now()
        report = self._node.with_traffic(report)
        self._vitals.ended(report, now - started, now)
        self._record(report, now)
        log.info("round", **report_in_short(report, now - started, alone=self._plan.solo))
        if not self._plan.solo or self._plan.settings.training.local_correction:
            for entries in trained_in_short(report):
                log.info("trained", groups=entries)

    async def _recall(self) -> None:
        """What earlier lives have gone through, for whoever is shown it."""
        settings = self._plan.settings
        if settings.dashboard.enabled:
            every = settings.evaluation.every_rounds
            for each in await self._store.history(RECENT_ROUNDS, OLDER_ROUNDS, every):
                self._vitals.history.add(each.report, each.ended)

    def _record(self, report: RoundReport, ended: float) -> None:
        values = report_as_json(report)
        self._store.record_round(report.round, ended, values)
        self._following.heard(values, ended)
        self._vitals.history.add(values, ended)

    async def _failed(self, error: ChildError, stopping: Stopping) -> None:
        self._vitals.failed(str(error))
        failures = self._vitals.training_failures
        log.error("round failed", number=self._number + 1, why=str(error), in_a_row=failures)
        if self._keeper.lost:
            await self._keeper.recover()
            if self._split is not None:
                await self._split.went_back(forget=False)
        else:
            await stopping.sleep(min(2.0**failures, MOST_SECONDS_AFTER_FAILURE))

    async def _save(self) -> bool:
        """Whether all is kept that is worth keeping."""
        if not self._guarding.may_save:
            return True
        plan = self._plan
        swarm = None if plan.solo else (plan.swarm.swarm_id, plan.swarm.rules.name)
        scheduler = self._node.scheduler.state_dict()
        extra = kept(self._number, plan.settings, plan.identity.public_key, swarm, scheduler)
        # Also where nothing is apart: numbers must not go back when something is again.
        extra |= carried(self._kept) if self._split is None else self._split.to_values()
        written = await self._guarding.save(extra)
        if written:
            self._saved, self._saved_number = self._clock.now(), self._number
        return written
