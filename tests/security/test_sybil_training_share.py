"""Many keys of one address prefix against four honest peers: what they have of the training tokens.

The training side of M16: whatever lies in the pool, a node's own rounds take of one prefix what one
prefix may have. `python -m tests.security.test_sybil_training_share` prints the curve over the
number of keys, with these bounds and without.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pytest

from swarmnode.config.rounds import Rounds
from swarmnode.config.selection import Selection
from swarmnode.round import Parts, learn
from swarmnode.selection.bounds import ExternalBounds
from swarmnode.selection.filters import NonzeroAdvantage, draw_rule
from swarmnode.selection.pool import Pool
from swarmnode.selection.shares import START_ROUNDS
from swarmnode.types import Completion, Scored, Trained
from tests.unit.learning_parts import Learner, learning_parts
from tests.unit.made import scored

KEYS = (0, 1, 2, 5, 10, 20, 50)
ROUNDS = 200
PREFIX = "203.0.113.0/24"
HONEST = 4
LONG, SHORT = 20, 6
"""Tokens of an attacker's completion, in ours, and of anybody else's."""

OPEN = Selection(
    draw="groups", external_token_share=1.0, peer_share=1.0, prefix_share=1.0, pool_groups=200
)


@dataclass
class Node(Learner):
    """Counts what is trained on, and learns nothing."""

    tokens: Counter[str] = field(default_factory=Counter)
    """Tokens trained on by the prefix of who sampled them, "" for own ones."""

    async def lengths(self, groups: Sequence[Scored]) -> Sequence[Sequence[int]]:
        return [[_length(each)] * len(each.scores) for each in groups]

    async def train(self, groups: Sequence[Scored], watched: Sequence[Scored] = ()) -> Trained:
        assert not watched
        for each in groups:
            self.tokens[each.prefix] += _length(each) * _trained(each)
        return Trained({}, ())


def _length(each: Scored) -> int:
    return LONG if each.prefix == PREFIX else SHORT


def _trained(each: Scored) -> int:
    """Completions that enter the loss: of live own groups all, of peers' the successes."""
    return len(each.scores) if each.source == "local" else int(sum(each.successes))


def group(
    publisher: bytes, prefix: str, number: int, source: Literal["local", "external"]
) -> Scored:
    """Half right, but an attacker's, which is right in all but one; each claims one token."""
    right = 7 if prefix == PREFIX else 4
    made = scored(
        (1.0,) * right + (0.0,) * (8 - right), publisher=publisher, index=number, source=source
    )
    tokens = SHORT if source == "local" else 1
    completions = tuple(Completion(str(n), "stop", tokens) for n in range(8))
    return replace(made, group=replace(made.group, completions=completions), prefix=prefix)


def node(selection: Selection, policy: Node, rounds: Rounds, pool: Pool) -> Parts:
    """The parts of a node that `learn` asks for."""
    share = selection.external_share(rounds)
    bounds = ExternalBounds(selection, use="on", share=share, positive=True, longest=LONG)
    chosen_by = NonzeroAdvantage(draw_rule(selection.draw))
    return learning_parts(policy, rounds, pool, chosen_by, bounds)


def tokens_by_prefix(
    keys: int, selection: Selection | None = None, *, honest_every: int = 1, honest: int = HONEST
) -> Counter[str]:
    """What a node trains on in its rounds, where each key has a group in the pool in each of them;
    honest peers in each `honest_every`-th alone."""
    selection = selection or Selection(pool_groups=200)
    pool, policy = Pool(capacity=selection.pool_groups, age_seconds=1e12), Node()
    parts = node(selection, policy, Rounds(), pool)
    for number in range(ROUNDS):
        pool.clear()  # Whose groups it would keep is not the question here.
        for key in range(keys):
            pool.add(group(bytes([100, key]) * 16, PREFIX, number, "external"))
        for peer in range(honest if number % honest_every == 0 else 0):
            pool.add(group(bytes([peer]) * 32, f"198.51.{peer}.0/24", number, "external"))
        local = [group(b"o" * 32, "", n, "local") for n in range(4)]
        asyncio.run(learn(parts, number, local))
    return policy.tokens


def share(tokens: Counter[str]) -> float:
    return tokens[PREFIX] / tokens.total()


@pytest.mark.parametrize("keys", [1, 5, 50])
@pytest.mark.parametrize("honest_every", [1, 4])
def test_however_many_keys_a_prefix_has_its_share_of_the_training_tokens_stays_at_the_cap(
    keys: int, honest_every: int
) -> None:
    tokens = tokens_by_prefix(keys, honest_every=honest_every)
    assert 0.05 < share(tokens) <= 0.25 + 0.005
    assert tokens.total() - tokens[""] <= (0.5 + 0.005) * tokens.total()


def test_fifty_keys_have_no_more_than_one_of_them_and_without_the_bounds_nearly_everything() -> (
    None
):
    one, fifty = share(tokens_by_prefix(1)), share(tokens_by_prefix(50))
    assert fifty <= one + 0.01
    assert share(tokens_by_prefix(50, OPEN)) > 0.6


def test_honest_peers_go_on_training_the_node_beside_a_flood() -> None:
    alone, flooded = tokens_by_prefix(0), tokens_by_prefix(50)
    assert sum(flooded[f"198.51.{peer}.0/24"] for peer in range(HONEST)) > 0.7 * (
        alone.total() - alone[""]
    )


def test_a_swarm_of_the_attacker_alone_has_half_of_the_tokens_and_no_more() -> None:
    tokens = tokens_by_prefix(50, honest=0)
    # As if it had trained alone for some rounds before.
    most = (ROUNDS + START_ROUNDS) / (2 * ROUNDS + START_ROUNDS)
    assert 0.45 < share(tokens) <= most


def curve() -> str:
    """The curve as a table."""
    lines = ["| keys | with the bounds | honest peers absent 3 rounds of 4 | without any bound |"]
    lines.append("| --- | --- | --- | --- |")
    for keys in KEYS:
        figures = (
            share(tokens_by_prefix(keys)),
            share(tokens_by_prefix(keys, honest_every=4)),
            share(tokens_by_prefix(keys, OPEN)),
        )
        lines.append(f"| {keys} | " + " | ".join(f"{100 * each:.1f} %" for each in figures) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(curve())
