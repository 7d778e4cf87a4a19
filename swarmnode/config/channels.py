"""Settings of the reward channels: what is paid beside success, how much, and for what.

Lengths are in tokens of our own policy. Accuracy alone, with weight 1, is the default. How several
channels become one advantage is the training step's (config/training.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from swarmnode.config.base import Section


class Length(Section):
    """Pays for a length, in [0, 1]."""

    weight: float = Field(default=0.0, ge=0.0)
    """What the channel counts beside accuracy; 0 leaves it out."""

    form: Literal["smooth", "step"] = "smooth"
    """`smooth`: exp(-d²/2), where d is the distance from the target over `tolerance` times the
    target, so that every token nearer to it pays. `step`: 1 up to the target, 0 beyond (GDPO's
    paper), which says nothing to completions that are all too long or all short enough."""

    target_tokens: int = Field(default=64, ge=1)
    """The length that is wanted, end token included."""

    tolerance: float = Field(default=0.5, gt=0.0, le=10.0)
    """Distance from the target, as a share of it, at which `smooth` has fallen to 0.61."""

    only_successes: bool = False
    """Pay nothing for the length of a wrong answer."""


class Overlong(Section):
    """Takes something off for what is nearly or really cut off, in [-1, 0] (DAPO, eq. 13)."""

    weight: float = Field(default=0.0, ge=0.0)
    """What the channel counts beside accuracy; 0 leaves it out."""

    limit_tokens: int | None = Field(default=None, ge=1)
    """The length at which the penalty is -1; unset takes `policy.max_new_tokens`."""

    soft_share: float = Field(default=0.2, ge=0.0, le=1.0)
    """The share of the limit, at its end, over which the penalty grows (DAPO: 4096 of 20480)."""


class Format(Section):
    """Pays for exactly one answer block, <answer>...</answer>: 1 or 0."""

    weight: float = Field(default=0.0, ge=0.0)
    """What the channel counts beside accuracy; 0 leaves it out."""

    wanted: Literal["when_asked", "always"] = "when_asked"
    """`when_asked`: where the question asks for <answer>; other questions have no such reward.
    `always`: everywhere, for instance when a chat template asks for it."""


class Repetition(Section):
    """Takes off the share of n-grams that were there before, in [-1, 0]."""

    weight: float = Field(default=0.0, ge=0.0)
    """What the channel counts beside accuracy; 0 leaves it out."""

    ngram: int = Field(default=3, ge=1, le=64)
    """Tokens in an n-gram; a shorter completion repeats nothing."""


class Channels(Section):
    """What completions are paid for."""

    accuracy_weight: float = Field(default=1.0, ge=0.0)
    """What success counts. Which groups are live, what filters keep and what peers are credited
    with is success alone, whatever its weight."""

    length: Length = Length()
    """A length that is wanted."""

    overlong: Overlong = Overlong()
    """A penalty for completions that are too long."""

    format: Format = Format()
    """One answer block."""

    repetition: Repetition = Repetition()
    """A penalty for repeating oneself."""

    @property
    def weights(self) -> Mapping[str, float]:
        """Weight by channel, of those that count; accuracy always is one of them."""
        further = {
            "format": self.format.weight,
            "length": self.length.weight,
            "overlong": self.overlong.weight,
            "repetition": self.repetition.weight,
        }
        paid = {name: weight for name, weight in further.items() if weight > 0.0}
        return {"accuracy": self.accuracy_weight, **paid}
