"""The two loops of a node whose generation and training are apart: round.py's `produce` and `learn`
in turn, with a queue of finished groups in between.

    generator   until it may begin something → take the newest weights → produce → queue
                (or until everybody is wanted, to take weights)
    trainer     a round's groups from the queue → learn → publish the weights

Invariants: a group leaves the queue once, for a round or dropped under a name; nothing is begun
that would be stale in its turn (throttle.py); a generator or the trainer may be lost at any moment,
and costs what it had in hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import structlog

from swarmnode.clock import Clock
from swarmnode.config.policy import PolicySettings
from swarmnode.process import ChildError, ChildFailed, ChildGone
from swarmnode.round import Parts, learn, produce, wants_more
from swarmnode.split.generators import Generator
from swarmnode.split.pace import Pace
from swarmnode.split.producing import LastShares, producing
from swarmnode.split.publishing import Publishing, TrainingPolicy
from swarmnode.split.ready import Dropped, Limits, ReadyQueue, Waiting
from swarmnode.split.throttle import Situation, permitted
from swarmnode.types import RoundReport, Scored

_VERSION = "split/version"
OFFER_SECONDS = 0.1
"""Between two looks of a generator that is waited for."""
LOOK_SECONDS = 0.5
"""Between two looks of a generator that waits, where nothing happens meanwhile."""

log = structlog.get_logger()


class Split:
    """Generators, a queue, and a trainer, over the parts of one node."""

    def __init__(
        self,
        node: Parts,
        policy: TrainingPolicy,
        generators: Sequence[Generator],
        settings: PolicySettings,
        *,
        versions_per_round: int,
        last_round: int | None,
        clock: Clock,
    ) -> None:
        """`policy` is that of `node`; `last_round` is None for a run without end."""
        self.generators = generators
        self.queue = ReadyQueue(Limits(settings.max_policy_lag, settings.max_age))
        self.publishing = Publishing(
            policy,
            generators,
            self._ring,
            clock,
            versions_per_round=versions_per_round,
            at_once=settings.weights.channel == "broadcast",
        )
        self.max_lag = settings.max_policy_lag
        self.trainer_pace = Pace()
        """Of its rounds."""
        self.lag = 0
        """The largest of the last round's groups."""
        self.waiting_since: float | None = None
        """Since when the trainer waits for groups; None while it doesn't."""
        self._node = node
        self._policy = policy
        self._settings = settings
        self._shares = LastShares(node.scheduler)
        self._versions_per_round = versions_per_round
        self._last_round = last_round
        self._clock = clock
        self._number = 0
        self._in_hand: list[Waiting] = []
        self._training = False
        self._bell = asyncio.Event()

    async def begin(
        self, number: int, saved: Mapping[str, Any] | None, told: Mapping[str, Any] | None
    ) -> None:
        """Publish the weights after round `number` and make the generators. ChildError.

        `saved` came with the checkpoint, and `told` is what the newest report said, as values.
        """
        self._number = number
        seen = int(((told or {}).get("metrics") or {}).get(_VERSION, 0))
        await self.publishing.begin(saved or {}, seen)
        here = [generator for generator in self.generators if not generator.elsewhere]
        await asyncio.gather(*(generator.stand() for generator in here))

    def to_values(self) -> dict[str, Any]:
        """What a checkpoint has to keep."""
        return self.publishing.versions.to_values()

    def generating(self, tasks: asyncio.TaskGroup) -> Sequence[asyncio.Task[None]]:
        """Start to generate; the caller cancels what is returned."""
        return [tasks.create_task(self.generate(one), name=one.name) for one in self.generators]

    async def generate(self, generator: Generator) -> None:
        """Produce for ever: what will be fresh in its turn, with the newest weights."""
        while True:
            try:
                await generator.stand()
                waited = self._clock.now()
                count = await self._until_permitted(generator)
                begun = self._clock.now()
                try:
                    if not await self._took_weights(generator) or not count:
                        continue
                    local = await produce(self._asking(generator, count))
                finally:
                    generator.under_way = 0
                self.queue.put(local, begun)
                self._ring()
                generator.did(len(local), self._clock.now() - begun, begun - waited)
            except (ChildError, OSError) as error:
                self._ring()
                await generator.failed(error)

    async def _took_weights(self, generator: Generator) -> bool:
        """Let it take the newest weights; whether it has any."""
        expected = self.publishing.expects(generator)
        try:
            taken = await generator.policy.take_weights()
        except ChildFailed:
            self.publishing.not_taken()
            raise
        if taken:
            self.publishing.took(generator)
        elif expected:
            await self._clock.sleep(OFFER_SECONDS)  # until the trainer has come to it
        return self.publishing.has(generator)

    async def round(
        self, number: int, seen: Callable[[Sequence[Scored]], None] = lambda _local: None
    ) -> RoundReport:
        """A round's groups from the queue, a step on them, and the new weights to the generators.

        Where the trainer is lost these groups are not trained on again. ChildError.
        """
        started = self._clock.now()
        taken = await self._taken()
        begun = self._clock.now()
        local = [each.scored for each in taken]
        seen(local)
        figures = self._figures(taken, begun)
        try:
            report = await learn(self._node, number, local)
            await self._shares.look()
            self._number = number
            self.publishing.trained()
            await self.publishing.publish()
        except ChildError:
            self.queue.dropped[Dropped.TRAINER_LOST] += len(local)
            raise
        finally:
            # The step may have been taken, whatever failed after it.
            self.publishing.trained()
            self._training = False
            self._ring()
        self.trainer_pace.did(1, self._clock.now() - begun, begun - started)
        return replace(report, metrics={**report.metrics, **figures, **self._paces()})

    async def went_back(self, *, forget: bool) -> None:
        """The policy is that of a checkpoint again: its weights go out under a new number.

        `forget` drops what was sampled before, also what is under way. Where the trainer is lost
        meanwhile, the next round says so.
        """
        with suppress(ChildError):
            await self._shares.look()
        number = await self.publishing.went_back()
        if forget:
            self.queue.forget_before(number)
        self._ring()

    async def _taken(self) -> Sequence[Waiting]:
        """What a round learns from, as many as it asks for and, if it asks on, as it wants."""
        self.waiting_since = self._clock.now()
        try:
            while self._wanted:
                await self._take_more()
                if self._policy.lost:
                    raise ChildGone("policy host died during a wait for groups")
        except ChildError:
            self.queue.put_back(self._in_hand)
            self._in_hand = []
            raise
        finally:
            self.waiting_since = None
        taken, self._in_hand = self._in_hand, []
        self._training = True
        return taken

    async def _take_more(self) -> None:
        """Take what there is, or wait until something has happened."""
        lag = self.publishing.versions.lag
        found = self.queue.take(self._wanted, self._clock.now(), lag)
        self._in_hand += found
        self._ring()
        if found:
            return
        await self.publishing.publish()
        await self._until_rung()
        self._in_hand = self.queue.fresh(self._in_hand, self._clock.now(), lag)

    @property
    def _wanted(self) -> int:
        """Groups that the round lacks; a round that asks on lacks one after the other."""
        rounds = self._node.rounds
        lacking = rounds.questions - len(self._in_hand)
        more = wants_more([each.scored for each in self._in_hand], rounds)
        return max(lacking, int(more))

    async def _until_permitted(self, generator: Generator) -> int:
        """Questions that the generator may begin now; they are under way from here on.

        0 where it is waited for first, to take weights.
        """
        generator.waiting_since = self._clock.now()
        try:
            while not self.publishing.expects(generator):
                has = self.publishing.has(generator)
                if count := permitted(self._situation(generator)) if has else 0:
                    generator.under_way = count
                    return count
                await self._until_rung()
            return 0
        finally:
            generator.waiting_since = None

    def _situation(self, generator: Generator) -> Situation:
        others = [one for one in self.generators if one is not generator]
        rounds, settings = self._node.rounds, self._settings
        now = self._clock.now()
        left = None
        if self._last_round is not None and not rounds.dynamic_sampling:
            pending = self._last_round - self._number - int(self._training)
            left = max(0, pending) * rounds.questions
        return Situation(
            questions=rounds.questions,
            versions_per_round=self._versions_per_round,
            max_lag=settings.max_policy_lag,
            max_age=settings.max_age,
            capacity=self.capacity,
            waiting=len(self.queue),
            in_hand=len(self._in_hand),
            under_way=sum(one.under_way for one in others),
            training=self._training,
            lag=self.publishing.lag,
            others=any(one.stands for one in others),
            round_seconds=self.trainer_pace.interval_seconds,
            group_seconds=generator.pace.unit_seconds,
            waited=now - (generator.waiting_since or now),
            left=left,
        )

    @property
    def capacity(self) -> int:
        """Groups that may be under way and wait, together."""
        given = self._settings.queue_groups
        return given or self._node.rounds.questions * (len(self.generators) + 1)

    def _asking(self, generator: Generator, count: int) -> Parts:
        return producing(self._node, self._shares, generator.policy, count)

    def _figures(self, taken: Sequence[Waiting], now: float) -> Mapping[str, float]:
        """What the round was given."""
        lags = [self.publishing.versions.lag(each.version) for each in taken]
        self.lag = max(lags)
        return {
            "split/lag_mean": sum(lags) / len(lags),
            "split/lag_max": self.lag,
            "split/age_seconds": sum(now - each.begun for each in taken) / len(taken),
            "split/queue_groups": len(self.queue),
        }

    def _paces(self) -> Mapping[str, float]:
        """What both sides did since the start, and lately."""
        idle = [generator.pace.idle_share for generator in self.generators]
        each = [one.pace.unit_seconds for one in self.generators if one.pace.unit_seconds]
        return {
            _VERSION: self.publishing.versions.newest,
            "split/round_seconds": self.trainer_pace.unit_seconds or 0.0,
            "split/group_seconds": sum(each) / max(1, len(each)),
            "split/trainer_idle_share": self.trainer_pace.idle_share,
            "split/generator_idle_share": sum(idle) / len(idle),
            "split/generated_groups": self.queue.put_in,
            **{f"split/dropped/{why.value}": self.queue.dropped[why] for why in Dropped},
        }

    def _ring(self) -> None:
        """Something has happened: whoever waits looks again."""
        self._bell.set()
        self._bell = asyncio.Event()

    async def _until_rung(self) -> None:
        rung = asyncio.ensure_future(self._bell.wait())
        later = asyncio.ensure_future(self._clock.sleep(LOOK_SECONDS))
        try:
            await asyncio.wait({rung, later}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            rung.cancel()
            later.cancel()
