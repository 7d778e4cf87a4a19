"""Who may have how much of the training tokens, over rounds."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from swarmnode.selection.shares import START_ROUNDS, Limits, Shares, pushing_tokens
from swarmnode.types import Scored
from tests.unit.made import scored

HALF = Limits(external=0.5, peer=0.25, prefix=0.25)


def group(peer: int, prefix: str = "") -> Scored:
    return replace(scored(publisher=bytes([peer]) * 32), prefix=prefix)


def simulate(
    shares: Shares,
    offered: Callable[[int], Sequence[Scored]],
    *,
    rounds: int,
    own_tokens: Callable[[], int] = lambda: 400,
    tokens: Callable[[], int] = lambda: 100,
    count: int = 4,
) -> Mapping[str, float]:
    """Shares of all tokens by prefix, and of all peers ("external"), where all is taken that may be
    of what a round is offered, in its order."""
    total = 0
    used: dict[str, int] = {"external": 0, "wanted": 0}
    for number in range(rounds):
        own = own_tokens()
        groups = offered(number)
        shares.begin(own, groups)
        total += own
        taken = 0
        for each in groups:
            if taken == count:
                break
            size = tokens()
            used["wanted"] += size
            if shares.takes(each, size) is None:
                taken += 1
                total += size
                used["external"] += size
                name = each.prefix or str(each.group.publisher[0])
                used[name] = used.get(name, 0) + size
    return {name: count / total for name, count in used.items()}


def _always(groups: Sequence[Scored]) -> Callable[[int], Sequence[Scored]]:
    return lambda _: groups


def test_external_groups_have_at_most_their_share_whatever_is_offered() -> None:
    found = simulate(Shares(HALF), lambda _: [group(n) for n in range(20)], rounds=500, count=20)
    assert 0.48 < found["external"] <= 0.5 + 0.01


def test_an_honest_round_of_four_and_four_loses_nothing() -> None:
    rng = random.Random(0)

    def sizes() -> int:
        """Half of a group's eight completions are right, each of 3 to 9 tokens."""
        return sum(rng.randint(3, 9) for _ in range(rng.randint(2, 7)))

    found = simulate(
        Shares(HALF),
        lambda number: [group((number + n) % 7) for n in range(4)],
        rounds=1000,
        own_tokens=lambda: sum(rng.randint(3, 9) for _ in range(32)),
        tokens=sizes,
    )
    assert found["external"] == found["wanted"]
    assert 0.3 < found["external"] < 0.4


@pytest.mark.parametrize("peers", [1, 2, 3, 7])
def test_even_where_all_completions_count_chance_takes_next_to_nothing(peers: int) -> None:
    """`external_advantage` = `both`: the mean is the limit, and half of the rounds are over it."""
    rng = random.Random(1)

    def size() -> int:
        return sum(rng.randint(3, 9) for _ in range(8))

    found = simulate(
        Shares(HALF),
        lambda number: [group((number + n) % peers) for n in range(4)],
        rounds=2000,
        own_tokens=lambda: sum(size() for _ in range(4)),
        tokens=size,
    )
    assert found["external"] > 0.97 * found["wanted"]


def test_fifty_keys_of_one_prefix_have_no_more_than_one_of_them() -> None:
    for keys in (1, 5, 50):
        # The flood comes first and wants everything; four honest peers have one group each.
        offered = [group(100 + n, "203.0.113.0/24") for n in range(keys)]
        offered += [group(n, f"192.0.{n}.0/24") for n in range(4)]
        found = simulate(Shares(HALF), _always(offered), rounds=800, count=8)
        assert found["203.0.113.0/24"] <= 0.25 + 0.01, keys
        assert found["external"] > 0.47, keys


def test_the_only_peer_of_a_small_swarm_may_have_all_that_peers_may_have() -> None:
    alone = simulate(Shares(HALF), lambda _: [group(1)] * 4, rounds=300)
    assert alone["external"] > 0.47
    two = simulate(Shares(HALF), lambda n: [group(n % 2)] * 2 + [group(1 - n % 2)] * 2, rounds=300)
    assert two["external"] > 0.47


def test_who_stays_away_leaves_his_share_to_the_others_after_a_while() -> None:
    shares = Shares(HALF)
    simulate(shares, lambda _: [group(1), group(2)] * 2, rounds=100)
    shares.begin(400, [group(1)])
    assert shares._limit("peer") == 0.25
    for _ in range(20):
        shares.begin(400, [group(1)])
    assert shares._limit("peer") == 0.5


def test_a_single_round_may_be_over_and_many_may_not() -> None:
    shares = Shares(HALF)
    shares.begin(100, [group(1)])
    # As if it had trained alone for some rounds before.
    assert [shares.takes(group(1), 100) for _ in range(START_ROUNDS)] == [None] * START_ROUNDS
    assert shares.takes(group(1), 100) == "external"
    assert shares.figures()["mix/refused/external"] == 1.0
    assert shares.share("external") == pytest.approx(0.5, abs=0.05)


def test_no_share_lets_nothing_in_and_a_whole_one_everything() -> None:
    nothing = simulate(Shares(Limits(external=0.0)), lambda _: [group(1)], rounds=50)
    assert nothing["external"] == 0.0
    alone = simulate(Shares(Limits()), lambda _: [group(1)], rounds=50, own_tokens=lambda: 0)
    assert alone["external"] == 1.0


def test_accounts_of_keys_that_are_gone_are_forgotten() -> None:
    shares = Shares(Limits())
    for number in range(2000):
        each = replace(scored(publisher=number.to_bytes(32)), prefix="")
        shares.begin(4, [each])
        shares.takes(each, 1)
    assert len(shares._seen) < 40
    assert len(shares._used) < 700


def test_of_a_peers_group_what_is_not_trained_on_does_not_count() -> None:
    each = scored((1.0, 0.0, 0.995, 0.5))
    assert pushing_tokens(each, (3, 4, 5, 6), positive=True) == 8
    assert pushing_tokens(each, (3, 4, 5, 6), positive=False) == 18
