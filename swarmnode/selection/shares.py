"""Who may have how much of the tokens that a node trains on: all peers, one prefix, one peer.

Bounds are on sums over rounds, in which a round counts less and less the longer ago it is: a single
round may be beyond them by chance, many can't. Keys are free, so that a new one has no allowance of
its own: what it may use is what is left to its address prefix. Pure, but for what it remembers of
the rounds before. Why sums and these shares: docs/decisions/0019-shares-of-training-tokens.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from swarmnode.types import Scored

Kind = Literal["external", "prefix", "peer"]
Account = tuple[Kind, Hashable]

WINDOW_ROUNDS = 64
"""A round's tokens count 1/e of themselves so many rounds later."""
START_ROUNDS = 8
"""A node begins as if it had trained alone for so long: else chance would decide in its first
rounds."""
ACTIVE_ROUNDS = 16
"""Who had no group in the pool for so long is not waited for."""

_KEPT = 1.0 - 1.0 / WINDOW_ROUNDS
_FORGOTTEN_TOKENS = 0.01
_EXTERNAL: Account = ("external", "")


@dataclass(frozen=True, slots=True)
class Limits:
    """Largest shares of the training tokens, each in [0, 1]."""

    external: float = 1.0
    peer: float = 1.0
    prefix: float = 1.0


class Shares:
    """The accounts of one node.

    A round calls `begin` and then `takes` for each group that it would like to train on.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._round = 0
        self._tokens = 0.0
        """Of all rounds together, weighed by age; as are the next."""
        self._used: dict[Account, float] = {}
        self._seen: dict[Account, int] = {}
        """The last round in which an account had a group to give."""
        self.refused: Counter[Kind] = Counter()
        """Groups of this round that were not taken, by whose share was used up."""

    def begin(self, own_tokens: int, present: Iterable[Scored]) -> None:
        """A round with so many tokens of our own; `present` are peers' groups in the pool."""
        if not self._tokens:
            self._tokens = float(START_ROUNDS * own_tokens)
        self._round += 1
        self._tokens = _KEPT * self._tokens + own_tokens
        self._used = {
            account: _KEPT * used
            for account, used in self._used.items()
            if _KEPT * used > _FORGOTTEN_TOKENS
        }
        for scored in present:
            self._seen.update(dict.fromkeys(sources(scored), self._round))
        oldest = self._round - ACTIVE_ROUNDS
        self._seen = {each: last for each, last in self._seen.items() if last > oldest}
        self.refused.clear()

    def takes(self, scored: Scored, tokens: int) -> Kind | None:
        """Count a peer's group of so many tokens; None, or whose share has no room for it."""
        after = self._tokens + tokens
        accounts = (_EXTERNAL, *sources(scored))
        for account in accounts:
            limit = self._limit(account[0])
            if limit < 1.0 and self._used.get(account, 0.0) + tokens > limit * after:
                self.refused[account[0]] += 1
                return account[0]
        self._tokens = after
        for account in accounts:
            self._used[account] = self._used.get(account, 0.0) + tokens
        return None

    def share(self, kind: Kind) -> float:
        """The largest share that an account of a kind has at the moment, in [0, 1]."""
        used = [used for account, used in self._used.items() if account[0] == kind]
        return max(used, default=0.0) / self._tokens if self._tokens else 0.0

    def figures(self) -> Mapping[str, float]:
        """For the names in docs/metrics.md."""
        return {
            "mix/external_token_share": self.share("external"),
            "mix/prefix_token_share": self.share("prefix"),
            "mix/peer_token_share": self.share("peer"),
            **{
                f"mix/refused/{kind}": float(self.refused[kind])
                for kind in ("external", "prefix", "peer")
            },
        }

    def _limit(self, kind: Kind) -> float:
        if kind == "external":
            return self._limits.external
        limit = self._limits.prefix if kind == "prefix" else self._limits.peer
        active = sum(account[0] == kind for account in self._seen)
        return max(limit, self._limits.external / max(active, 1))


def pushing_tokens(scored: Scored, lengths: Sequence[int], *, positive: bool) -> int:
    """Tokens of a peer's completions that may be trained on; under `positive`, of its successes."""
    return sum(
        length
        for length, success in zip(lengths, scored.successes, strict=True)
        if success or not positive
    )


def sources(scored: Scored) -> tuple[Account, Account]:
    """The accounts of a group's author: the prefix first, which can't be had for nothing."""
    publisher = scored.group.publisher
    return ("prefix", scored.prefix or publisher), ("peer", publisher)
