"""Settings of the reward channels: what is paid beside success, how much, and for what.

Lengths are in tokens of our own policy. Accuracy alone, with weight 1, is the default. How several
channels become one advantage is the training step's (config/training.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, JsonValue, model_validator

from swarmnode.config.base import Section

OURS = ("accuracy", "format", "length", "overlong", "repetition")
"""Names of the channels that are built in."""

ChannelName = Annotated[str, Field(pattern=r"^[A-Za-z][\w-]{0,39}$")]


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


class RewardModel(Section):
    """A sequence-classification model that judges completions (docs/reward-channels.md)."""

    name: ChannelName
    """What its channel is called: letters, digits, `_`, `-`."""

    model: Annotated[str, Field(min_length=1)]
    """A folder, written with a slash, or the id of a model of the Hugging Face hub. Only
    safetensors are loaded, and no code of a model is run."""

    revision: str = "main"
    """Branch, tag or commit of a hub model."""

    weight: float = Field(default=1.0, ge=0.0)
    """What the channel counts beside accuracy; 0 leaves it out, and the model unread."""

    label: str = ""
    """Of a model with several labels, the one that is paid; a model with one output needs none."""

    scale: Literal["log_odds", "probability"] = "log_odds"
    """What is paid: the log-odds of the label, which of one output is its logit, without bounds; or
    the probability, in [0, 1]. The same order of completions, other distances."""

    max_tokens: int = Field(default=1024, ge=8, le=32_768)
    """The most tokens of prompt and completion that it is shown, or fewer where the model can't
    take so many. A prompt loses its beginning first; a completion that alone is longer is not
    judged."""


class OwnReward(Section):
    """A reward in Python that another package brings (docs/extend.md)."""

    name: ChannelName
    """Its name in the entry point group `swarmnode.rewards`, and that of its channel."""

    weight: float = Field(default=1.0, ge=0.0)
    """What the channel counts beside accuracy; 0 leaves it out, and the code unread."""

    options: dict[str, JsonValue] = Field(default_factory=dict)
    """What it is made with: a table, handed over as it is."""

    seconds: float = Field(default=10.0, gt=0.0, le=600.0)
    """Seconds that it may take for a question's completions before they count as not judged."""


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

    models: tuple[RewardModel, ...] = ()
    """Reward models; in a TOML file each is a table `[[rewards.channels.models]]` with `name`,
    `model` and, if they are to be others, `revision`, `weight` (1), `label`, `scale` (`log_odds` or
    `probability`) and `max_tokens` (1024)."""

    own: tuple[OwnReward, ...] = ()
    """Rewards of other packages, by entry point; in a TOML file each is a table
    `[[rewards.channels.own]]` with `name` and, if they are to be others, `weight` (1), `options`
    (none) and `seconds` (10)."""

    judged_tokens: int = Field(default=8192, ge=64)
    """Tokens, padding included, that a reward model takes at once. It bounds memory; a single
    longer completion goes alone."""

    @model_validator(mode="after")
    def _distinct_names(self) -> Channels:
        named = (*(one.name for one in self.models), *(one.name for one in self.own))
        counts = Counter([*OURS, *named])
        if taken := [name for name, count in counts.items() if count > 1]:
            raise ValueError(f"two channels are called {taken[0]}; give each a name of its own")
        return self

    @property
    def weights(self) -> Mapping[str, float]:
        """Weight by channel, of those that count; accuracy always is one of them."""
        further = {
            "format": self.format.weight,
            "length": self.length.weight,
            "overlong": self.overlong.weight,
            "repetition": self.repetition.weight,
            **{one.name: one.weight for one in self.models},
            **{one.name: one.weight for one in self.own},
        }
        paid = {name: weight for name, weight in further.items() if weight > 0.0}
        return {"accuracy": self.accuracy_weight, **paid}
