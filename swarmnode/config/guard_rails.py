"""Settings of the guard-rails: what in a node's own answers is a sign of collapse, what follows.

A limit is a pair, the value that warns and the value that is critical. None acts before the first
rounds are over, and none by itself: a figure must also lie as many deviations of these rounds away
from what it was in them. docs/guard-rails.md has the figures and why they are as they are.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from swarmnode.config.base import Section

GuardAction = Literal["monitor", "exclude", "skip", "roll_back"]
Limits = tuple[float, float]

_FALLING = ("distinct", "whitespace")


class GuardRails(Section):
    """What is watched in a node's own answers, and what happens when it gives way."""

    action: GuardAction = "monitor"
    """What may be done about it, each including those before. `monitor`: warn. `exclude`: keep
    completions out of training that are past a critical limit by themselves; their rewards count in
    the baseline of their group. `skip`: take no step in a round in which something is critical.
    `roll_back`: go back to the last checkpoint once something has been critical for three rounds;
    none is written while anything is wrong. A gradient that isn't finite is skipped in any case."""

    off: tuple[str, ...] = ()
    """Guard-rails that are measured and not judged, by name: ["entropy", "whitespace"]."""

    first_rounds: int = Field(default=20, ge=3, le=1000)
    """Rounds that say what is normal: median and spread of each figure. Nothing is judged till
    then."""

    warn_deviations: float = Field(default=4.0, ge=0.0)
    """Standard deviations of its recent mean by which a figure must have left what is normal to
    warn."""

    critical_deviations: float = Field(default=8.0, ge=0.0)
    """The same to be critical."""

    repetition: Limits = (0.3, 0.6)
    """Share of four-token sequences of an answer that were in it before."""

    distinct: Limits = (0.6, 0.4)
    """Share of different two-token sequences in answers to different questions, as a share of what
    it was at first: it falls when all questions get the same answer."""

    compression: Limits = (2.4, 4.0)
    """Bytes over compressed bytes of answers of at least 200 bytes."""

    whitespace: Limits = (0.7, 0.4)
    """Share of whitespace in answers of one script, as a share of what it was at first."""

    length: Limits = (2.0, 4.0)
    """Factor by which answers got longer or shorter, in tokens."""

    truncated: Limits = (0.3, 0.6)
    """Share of answers that were cut off."""

    entropy: Limits = (3.0, 8.0)
    """Factor by which the entropy of sampling fell or rose."""

    kl: Limits = (0.1, 0.5)
    """Nats per token by which the policy left its reference, where the step has one."""

    reward_length: Limits = (0.6, 0.9)
    """Rank correlation of success with length among answers to one question, of either sign."""

    clipped: Limits = (0.2, 0.5)
    """Share of trained tokens held back by the clip of the ratio."""

    @model_validator(mode="after")
    def _warns_first(self) -> Self:
        for name in RAILS:
            warn, critical = getattr(self, name)
            if (warn < critical) if name in _FALLING else (warn > critical):
                raise ValueError(
                    f"{name}: the first limit warns and must be reached before the second"
                )
        unknown = set(self.off) - set(RAILS)
        if unknown:
            raise ValueError(f"off: {min(unknown)} is none of {', '.join(RAILS)}")
        return self


RAILS = (
    "repetition",
    "distinct",
    "compression",
    "whitespace",
    "length",
    "truncated",
    "entropy",
    "kl",
    "reward_length",
    "clipped",
)
"""The guard-rails with limits, by their settings."""
