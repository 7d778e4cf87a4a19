"""What external groups may do in a node's rounds: whether they train, and how much of it is theirs.

Puts together what the settings allow (`policy.external`), the shares of the training tokens
(shares.py), the length in our own tokens, and the fallback to own groups (fallback.py). Where
groups of peers don't train they are chosen and counted all the same, so that a node that watches
knows what it would have done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from swarmnode.config.policy import External
from swarmnode.config.selection import Selection
from swarmnode.selection.fallback import Fallback
from swarmnode.selection.mix import Refusal
from swarmnode.selection.shares import Limits, Shares, pushing_tokens
from swarmnode.types import Evaluation, Scored


class ExternalBounds:
    """The bounds of one node.

    `share` is the largest of all peers, `positive` whether of a peer's group only successes are
    trained on, `longest` the most tokens that a completion may have. A round calls `measure`, is
    then asked by the mix, and asks `trained`.
    """

    def __init__(
        self, settings: Selection, *, use: External, share: float, positive: bool, longest: int
    ) -> None:
        self._use = use
        self._positive = positive
        self._longest = longest
        self._shares = Shares(
            Limits(external=share, peer=settings.peer_share, prefix=settings.prefix_share)
        )
        self._fallback = Fallback(**settings.fallback.model_dump())
        self._lengths: dict[int, Sequence[int]] = {}
        self._present: Sequence[Scored] = ()
        self._too_long = 0
        self._trained = False
        """Whether peers' groups were trained on since the last evaluation."""
        self._watched = 0

    @property
    def trains(self) -> bool:
        """Whether peers' groups are trained on at the moment."""
        return self._use == "on" and not self._fallback.active

    def measure(self, present: Sequence[Scored], lengths: Sequence[Sequence[int]]) -> None:
        """A round's external candidates, and the tokens of their completions, in ours."""
        self._present = present
        self._lengths = dict(zip(map(id, present), lengths, strict=True))
        self._too_long = 0

    def begin(self, own: Sequence[Scored]) -> None:
        """A round with these groups of our own."""
        tokens = sum(each.token_count for scored in own for each in scored.group.completions)
        self._shares.begin(tokens, self._present)

    def takes(self, scored: Scored) -> Refusal | None:
        """None if a candidate may be trained on, which counts its tokens; else why not."""
        lengths = self._lengths[id(scored)]
        if max(lengths) > self._longest:
            self._too_long += 1
            return "too_long"
        tokens = pushing_tokens(scored, lengths, positive=self._positive)
        return self._shares.takes(scored, tokens)

    def trained(self, external: Sequence[Scored]) -> Sequence[Scored]:
        """Those of a round's external groups that are trained on: all, or none."""
        self._watched = 0 if self.trains else len(external)
        self._trained |= self.trains and bool(external)
        return external if self.trains else ()

    def examined(self, evaluation: Evaluation) -> Mapping[str, float]:
        """Take in held-out success; returns metrics."""
        told = self._fallback.heard(evaluation, external=self._trained)
        self._trained = False
        return told

    def figures(self) -> Mapping[str, float]:
        """Of the last round, for the names in docs/metrics.md."""
        return {
            **self._shares.figures(),
            "mix/refused/too_long": float(self._too_long),
            "mix/watched_groups": float(self._watched),
            **self._fallback.figures(),
        }

    def to_values(self) -> dict[str, Any]:
        """What is kept with a checkpoint: JSON values."""
        return {"fallback": self._fallback.to_values()}

    def restore(self, values: Any) -> None:
        """Go on with what `to_values` gave; anything else is passed over."""
        if isinstance(values, dict):
            self._fallback.restore(values.get("fallback"))
