"""Admission as a state machine: whatever strangers do, in whatever order, the promises hold.

Hypothesis chooses who does what; the parts are the real ones, the transport is scripted, and time
is virtual. What is checked after every step: nothing is fetched of or from who is muted; no honest
peer is ever muted, whatever others do in its name; no question of a key is taken twice; pool,
memory, standing and quality stay within their bounds; and no prefix holds more of a full pool than
its share.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from swarmnode.clock import VirtualClock, VirtualLoop
from swarmnode.network.transport import Delivered
from swarmnode.selection.admission import Reason
from swarmnode.selection.quality import Quality
from swarmnode.selection.remembered import Remembered
from swarmnode.selection.standing import Standing
from swarmproto import Bundle, FetchRequest, FetchResponse
from tests.unit.collecting_support import (
    FirstIsRight,
    Scene,
    ScriptedTransport,
    Serve,
    Stranger,
    honestly,
    scene,
)

HONEST, HOSTILE = range(1, 4), range(4, 10)
NEAR = "203.0.113.0/24"
"""Where the hostile ones are connected from, all but the last, which is known through others."""
ITEMS, KEYS, NAMES = 128, 8, 8
POOL = 10

strangers = st.sampled_from([*HONEST, *HOSTILE])
hostile = st.sampled_from(HOSTILE)
honest = st.sampled_from(HONEST)


class Admission(RuleBasedStateMachine):
    """A node's incoming side among honest and hostile strangers."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner(loop_factory=VirtualLoop)
        loop = self._runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = VirtualClock(loop)

    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed: int) -> None:
        self.reasons: list[Reason] = []
        self.here: Scene = scene(
            self.clock,
            rewards=FirstIsRight(self.clock, self.reasons),
            standing=Standing(NAMES),
            remembered=Remembered(items=ITEMS, keys=KEYS),
            quality=Quality(NAMES),
            pool_groups=POOL,
        )
        self.here.collector._rng.seed(seed)
        self.strangers = {number: Stranger(number, self.clock) for number in (*HONEST, *HOSTILE)}
        for number in (*HOSTILE,)[:-1]:
            self.here.transport.prefixes[self.strangers[number].name] = NEAR
        self.indices = Counter[int]()
        self.published: dict[int, list[Bundle]] = defaultdict(list)
        self.waiting: list[Delivered] = []
        self.taken = Counter[tuple[bytes, int]]()
        self.muted_at_fetch: list[str] = []
        self._watch(self.here.transport)
        pooled = self.here.pool.add

        def add(each: Any) -> Sequence[Any]:
            self.taken[each.group.publisher, each.group.question.index] += 1
            return pooled(each)

        self.here.pool.add = add  # type: ignore[method-assign, assignment]

    def _watch(self, transport: ScriptedTransport) -> None:
        fetch = transport.fetch

        async def watched(holder: str, request: FetchRequest) -> FetchResponse:
            peer = holder.rpartition("/")[2]
            if self.here.mutes(peer):
                self.muted_at_fetch.append(peer)
            return await fetch(holder, request)

        transport.fetch = watched  # type: ignore[method-assign]

    def _publish(
        self, author: int, groups: int, *, deliverer: str = "", serve: Serve | None = None,
        repeat: bool = False, now: bool = True, **changes: Any,
    ) -> None:  # fmt: skip
        who = self.strangers[author]
        if not repeat:
            self.indices[author] += groups
        first = max(self.indices[author] - groups, 0)
        bundle = who.bundle(*(who.group(first + at) for at in range(groups)))
        self.published[author].append(bundle)
        if serve or not changes.get("holders"):
            address = changes.get("holders", [who.address])[0]
            self.here.transport.serving[address] = serve or honestly(*self.published[author])
        announcement = who.announcement(bundle, **changes)
        self.waiting.append(Delivered(announcement, deliverer or who.name))
        if now:
            self._look()

    @rule(author=strangers, groups=st.integers(1, 4), now=st.booleans())
    def publishes_honestly(self, author: int, groups: int, now: bool) -> None:
        self._publish(author, groups, now=now)

    @rule(author=hostile, groups=st.integers(1, 4))
    def answers_the_same_questions_again(self, author: int, groups: int) -> None:
        self._publish(author, groups, repeat=True)

    @rule(
        author=hostile,
        answer=st.sampled_from(
            [
                FetchResponse("ok", b"junk", ()),
                FetchResponse("ok", None, ()),
                FetchResponse("busy", None, ()),
                FetchResponse("missing", None, ()),
            ]
        ),
    )
    def serves_something_else(self, author: int, answer: FetchResponse) -> None:
        self._publish(author, 1, serve=lambda _: answer)

    @rule(holder=hostile, author=honest)
    def spoils_what_it_holds_for_an_honest_peer(self, holder: int, author: int) -> None:
        at = self.strangers[holder].address
        self._publish(author, 1, serve=lambda _: FetchResponse("ok", b"junk", ()), holders=[at])

    @rule(author=hostile)
    def never_answers(self, author: int) -> None:
        self._publish(author, 1, now=False)
        self.here.transport.serving.pop(self.strangers[author].address, None)

    @rule(author=hostile, victim=honest)
    def names_an_honest_peer_as_holder_of_what_it_never_had(self, author: int, victim: int) -> None:
        self._publish(author, 1, holders=[self.strangers[victim].address])

    @rule(author=hostile, size=st.sampled_from([1, 200, 10**6]))
    def announces_another_size(self, author: int, size: int) -> None:
        self._publish(author, 2, size=size)

    @rule(deliverer=hostile, author=honest, at=st.integers(0, 200))
    def spoils_what_an_honest_peer_announced(self, deliverer: int, author: int, at: int) -> None:
        who = self.strangers[author]
        good = bytearray(who.announcement(who.bundle(who.group(10**6 + at))))
        good[at % len(good)] ^= 0xFF
        self.waiting.append(Delivered(bytes(good), self.strangers[deliverer].name))

    @rule(deliverer=hostile, data=st.binary(max_size=300))
    def delivers_junk(self, deliverer: int, data: bytes) -> None:
        self.waiting.append(Delivered(data, self.strangers[deliverer].name))

    @rule(reason=st.sampled_from([Reason.SCORER_KILLED, Reason.QUESTION_DIFFERS]))
    def the_next_groups_of_a_hostile_peer_do_not_hold(self, reason: Reason) -> None:
        self._publish(HOSTILE[0], 2, now=False)
        self._look(reasons=[reason, reason], only=self.strangers[HOSTILE[0]].name)

    @rule()
    def looks(self) -> None:
        self._look()

    @precondition(lambda self: len(self.here.pool) > 0)
    @rule(count=st.integers(1, 4))
    def trains(self, count: int) -> None:
        groups = self.here.pool.fresh(self.clock.now())[:count]
        self.here.pool.take(groups)

    @rule(seconds=st.sampled_from([1.0, 31.0, 300.0, 3700.0, 90_000.0]))
    def time_passes(self, seconds: float) -> None:
        self._runner.run(self.clock.sleep(seconds))

    def _look(self, *, reasons: Sequence[Reason] = (), only: str = "") -> None:
        self.here.transport.known = [each for each in self.waiting if not only or each.peer == only]
        self.waiting = [] if not only else [each for each in self.waiting if each.peer != only]
        self.here.collector._rewards._reasons = list(reasons)  # type: ignore[attr-defined]
        self._runner.run(self.here.collector.look())
        self.here.collector._rewards._reasons = []  # type: ignore[attr-defined]

    @invariant()
    def nobody_who_is_muted_is_asked_for_anything(self) -> None:
        assert self.muted_at_fetch == []

    @invariant()
    def no_honest_peer_is_ever_muted(self) -> None:
        for number in HONEST:
            assert not self.here.mutes(self.strangers[number].name)
        muted = {peer for peer, _ in self.here.muted}
        assert not muted & {self.strangers[number].name for number in HONEST}

    @invariant()
    def nothing_is_taken_twice(self) -> None:
        assert all(count == 1 for count in self.taken.values())

    @invariant()
    def everything_stays_within_its_bounds(self) -> None:
        assert len(self.here.pool) <= POOL
        assert len(self.here.collector.remembered) <= 2 * ITEMS + KEYS
        assert len(self.here.collector.standing) <= NAMES
        assert len(self.here.collector.quality) <= NAMES

    @invariant()
    def no_newcomer_is_kept_out_of_a_full_pool_by_who_has_more_than_its_share(self) -> None:
        held = Counter(each.prefix for each in self.here.pool.fresh(self.clock.now()))
        places = self.here.pool.places()
        if max(held.values(), default=0) > 1:
            assert places.open_to("192.0.2.0/24")

    def teardown(self) -> None:
        self._runner.close()


Admission.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    # A failure says which steps led to it; making them fewer would take minutes.
    phases=(Phase.explicit, Phase.generate),
)
TestAdmission = Admission.TestCase
