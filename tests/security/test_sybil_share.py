"""M12, network side: what many keys at one address get of a node is what one address gets.

Attackers with K keys in one /24 publish beside four honest peers, each with an address of its own.
Measured is the attackers' share of what is fetched, of what is pooled, and of what a node lets in
and hands out. Every attacker offers as much as an honest peer does, so that without shares by
prefix it would be K / (K + 4). `python -m tests.security.test_sybil_share` prints the curve.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from swarmnode.clock import VirtualClock, VirtualLoop
from swarmnode.network.doors import Doors, Limits
from swarmnode.network.transport import Delivered
from swarmnode.network.whereabouts import Whereabouts
from swarmnode.prefixes import THROUGH_OTHERS, own_prefix
from swarmnode.types import Scored
from tests.unit.collecting_support import Stranger, honestly, scene
from tests.unit.network_time import FixedClock

HONEST = 4
KEYS = (1, 2, 4, 8, 16, 25, 50)
GROUPS_PER_BUNDLE = 4
TRAINED_PER_ROUND = 4
LOOKS_PER_ROUND = 3
ROUNDS = 15
POOL = 12
NEAR = "203.0.113.0/24"
CAP = 1 / (HONEST + 1)
"""A prefix's share among five."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The attackers' shares."""

    fetched: float
    pooled: float
    trained: float
    honest_trained: int
    """Groups of honest peers that were trained on, of TRAINED_PER_ROUND * ROUNDS."""


def measured(keys: int, prefix: str | None = NEAR, *, first: bool = False) -> Measured:
    """With so many attackers' keys at a prefix; None gives each key a prefix of its own, which is
    what there was without shares by prefix. With `first` they have filled the pool before anybody
    else publishes."""
    result: list[Measured] = []

    async def scenario(clock: VirtualClock) -> None:
        here = scene(clock, pool_groups=POOL)
        honest = [Stranger(number, clock) for number in range(1, HONEST + 1)]
        attackers = [Stranger(100 + number, clock) for number in range(keys)]
        evil = {each.key for each in attackers}
        for each in attackers:
            here.transport.prefixes[each.name] = prefix or own_prefix(each.name)
        indices = Counter[int]()
        fetched, pooled, trained = Counter[bool](), Counter[bool](), Counter[bool]()

        def publish(who: Stranger) -> Delivered:
            at = indices[who.number]
            indices[who.number] += GROUPS_PER_BUNDLE
            bundle = who.bundle(*(who.group(at + number) for number in range(GROUPS_PER_BUNDLE)))
            here.transport.serving[who.address] = honestly(bundle)
            return Delivered(who.announcement(bundle), who.name)

        add = here.pool.add

        def counted(each: Scored) -> Sequence[Scored]:
            fetched[each.group.publisher in evil] += 1
            return add(each)

        here.pool.add = counted  # type: ignore[method-assign, assignment]
        if first:
            for _ in range(2 * POOL):
                here.transport.known = [publish(who) for who in attackers]
                await here.collector.look()
            fetched.clear()
        for number in range(ROUNDS):
            here.transport.known = [publish(who) for who in (*honest, *attackers)]
            for _ in range(LOOKS_PER_ROUND):
                await here.collector.look()
                await clock.sleep(1.0)
            held = here.pool.fresh(clock.now())
            pooled.update(each.group.publisher in evil for each in held)
            # Round after round the longest-held are trained on, whoever's they are.
            here.pool.take(held[:TRAINED_PER_ROUND])
            trained.update(each.group.publisher in evil for each in held[:TRAINED_PER_ROUND])
            assert number or len(held) > 0
        result.append(Measured(_share(fetched), _share(pooled), _share(trained), trained[False]))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        runner.run(scenario(VirtualClock(loop)))
    return result[0]


def _share(counts: Counter[bool]) -> float:
    return counts[True] / max(1, counts.total())


def test_fifty_keys_at_one_address_get_a_prefix_share_of_what_is_fetched_and_pooled() -> None:
    sybils, apart = measured(50), measured(50, None)
    for share in (sybils.fetched, sybils.pooled, sybils.trained):
        assert share <= 1.25 * CAP
    assert apart.pooled > 0.8, "with an address each they would have nearly everything"
    assert sybils.honest_trained >= 0.75 * TRAINED_PER_ROUND * ROUNDS


def test_the_share_does_not_grow_with_the_number_of_keys() -> None:
    few, many = measured(2), measured(25)
    assert many.pooled <= few.pooled + 0.05
    assert many.fetched <= few.fetched + 0.05


def test_keys_that_stay_unconnected_get_a_prefix_share_together_as_well() -> None:
    assert measured(50, THROUGH_OTHERS).pooled <= 1.25 * CAP


def test_a_pool_that_they_filled_first_is_shared_all_the_same() -> None:
    share = measured(50, first=True)
    assert share.trained <= 2 * CAP
    assert share.honest_trained >= 0.6 * TRAINED_PER_ROUND * ROUNDS


@pytest.mark.parametrize("kind", ["calls", "bytes", "offers", "records"])
def test_what_a_node_hands_out_is_shared_by_prefix_too(kind: str) -> None:
    clock, whereabouts = FixedClock(), Whereabouts()
    honest = {f"honest {number}": f"/ip4/198.51.{number}.1/tcp/1" for number in range(HONEST)}
    sybils = {f"sybil {number}": f"/ip4/203.0.113.{number}/tcp/1" for number in range(50)}
    whereabouts.listed({**honest, **sybils})
    doors, limit = Doors(clock, whereabouts), getattr(Limits(), kind)
    units = 100_000.0 if kind == "bytes" else 1.0
    got = Counter[str]()
    for _ in range(600):
        clock.seconds += 0.1
        for peer in (*sybils, *honest):
            got[peer] += getattr(doors, kind).spend(peer, units)
    of_sybils = units * sum(got[each] for each in sybils)
    assert of_sybils <= limit.prefix.burst + 60 * limit.prefix.per_second
    of_one = min(600 * units, limit.each.burst + 60 * limit.each.per_second)
    assert all(units * got[each] >= of_one - 2 * units for each in honest), "they lose nothing"


def main() -> None:
    """The curve of share against keys, as rows of Markdown."""
    print("| keys at one /24 | fetched | pooled | trained | pooled, a prefix for each key |")
    print("|---|---|---|---|---|")
    for keys in KEYS:
        one, apart = measured(keys), measured(keys, None)
        print(
            f"| {keys} | {one.fetched:.0%} | {one.pooled:.0%} | {one.trained:.0%} | "
            f"{apart.pooled:.0%} |"
        )
    for keys in (10, 50):
        first = measured(keys, first=True)
        print(f"{keys} keys that had filled the pool before: trained {first.trained:.0%}")
    through = measured(50, THROUGH_OTHERS)
    print(f"50 keys that are not connected: pooled {through.pooled:.0%}")


if __name__ == "__main__":
    main()
