"""Settings of the training step: which groups count how much, and how far one round may move.

What the defaults mean is said at each; docs/losses.md has the equations. A preset changes some
defaults, and what contradicts itself is refused (config/presets.py). Generation's settings, the
sampling temperature among them, are not here: the step is told the temperature that the
completions were sampled at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from swarmnode.config.base import Section
from swarmnode.config.presets import PRESETS, Preset, contradiction

AdvantageScaling = Literal["group", "batch", "none"]
Correction = Literal["truncate", "icepop", "sequence_mask"]
Covariance = Literal["none", "clip", "kl"]
ExternalAdvantage = Literal["positive", "both", "weighted", "shaped", "off"]
ExternalBaseline = Literal["peer_group", "receiver_task_mean", "union"]
ExternalFallback = Literal["positive", "both", "shaped", "off"]
LocalAdvantage = Literal["both", "positive"]
Normalization = Literal["tokens", "sequences", "constant"]
Objective = Literal["clipped", "cispo"]
RatioDenominator = Literal["old", "sampler"]
RatioLevel = Literal["token", "sequence", "sequence_token"]
RewardAggregation = Literal["sum_then_normalise", "normalise_then_sum"]
Schedule = Literal["constant", "linear", "cosine"]
TrainedGroups = Literal["accuracy", "any_channel"]

TINY_LEARNING_RATE = 2e-4
LEARNING_RATE = 5e-6
"""Of models that know a language already."""
ACTIVATION_MIB = 2048
"""Of those models: enough for a processor to be busy, and no more than a laptop has to spare."""
MICRO_BATCH_TOKENS = 8192
MICRO_BATCH_TOKENS_IN_CACHES = 512
"""A group or two (docs/results/speed.md)."""
ADAPTER_FACTOR = 10.0
"""Adapters want about ten times the rate of full training (Thinking Machines Lab 2025, "LoRA
without regret")."""


class Training(Section):
    """How a round's groups change the policy."""

    preset: Preset = "default"
    """The name of a published method: it changes the defaults of the settings that make up that
    method (docs/losses.md lists them); settings given beside it win."""

    learning_rate: float | None = Field(default=None, gt=0.0)
    """Adam's step size after the warm-up. Unset follows the model: 2e-4 for `tiny`, which 1e-3
    makes forget, and 5e-6 for every other; ten times that where adapters are trained (LoRA)."""

    warmup_steps: int = Field(default=10, ge=0)
    """Optimizer steps over which the learning rate rises linearly to its value; 0 starts at it."""

    schedule: Schedule = "constant"
    """What the learning rate does after the warm-up. `linear` and `cosine` fall to
    `schedule_floor` of it until `schedule_steps`, and stay there."""

    schedule_steps: int = Field(default=0, ge=0)
    """Optimizer steps, the warm-up included, at which a falling learning rate has arrived. Steps,
    not rounds: a round takes up to `inner_steps` of them, and none without a live group."""

    schedule_floor: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of the learning rate that a falling schedule ends at."""

    weight_decay: float = Field(default=0.0, ge=0.0)
    """AdamW's decoupled weight decay, per unit of learning rate."""

    gradient_clip: float = Field(default=1.0, gt=0.0)
    """Largest Euclidean norm of the whole gradient; a longer one is scaled down to it."""

    inner_steps: int = Field(default=1, ge=1, le=64)
    """Optimizer steps per round on the same groups. With 1 the importance ratio is 1 everywhere,
    so that the clip never acts; from the second on, it is taken against the policy at the start
    of the round."""

    objective: Objective = "clipped"
    """`clipped`: the pessimistic minimum of ratio and clipped ratio (PPO, GRPO and what follows).
    `cispo`: the log-prob weighted by the ratio, which is cut at `ratio_cap` and gets no gradient,
    so that no token is lost."""

    ratio_level: RatioLevel = "token"
    """What the ratio is taken of. `token`: each token. `sequence`: the completion's geometric mean
    (GSPO). `sequence_token`: that value, with each token's own gradient (GSPO-token)."""

    ratio_denominator: RatioDenominator = "old"
    """What the ratio of our own completions is taken against. `old`: the policy at the start of the
    round, so that the clip bounds what a round changes and `local_correction` says what is done
    about another sampler. `sampler`: what the sampler said of each token, one ratio for both
    (PPO-IS); tokens that the sampler and the policy already disagree on by more than the clip then
    get no gradient. Peers' completions always have `old`."""

    clip_low: float = Field(default=0.2, ge=0.0, le=1.0)
    """The ratio's lower bound is 1 minus this (GRPO's epsilon)."""

    clip_high: float = Field(default=0.28, ge=0.0)
    """The ratio's upper bound is 1 plus this (DAPO's clip-higher)."""

    dual_clip: float | None = Field(default=None, gt=1.0)
    """With a negative advantage the ratio counts at most this much; more than 1 + `clip_high`."""

    ratio_cap: float | None = Field(default=None, ge=1.0)
    """Under `objective` = `cispo`, the largest ratio. It bounds the ratio itself and so is at
    least 1: not a distance from 1 as `clip_high` is."""

    normalization: Normalization = "tokens"
    """What the summed loss is divided by. `tokens`: the tokens that the round trains on (DAPO).
    `sequences`: each completion's mean first, then their number (GRPO's paper). `constant`: the
    completions' number times the longest that may be sampled (Dr. GRPO)."""

    advantage_scaling: AdvantageScaling = "group"
    """What advantages are divided by after the group's mean was subtracted. `group`: the standard
    deviation of the group's rewards (GRPO). `batch`: that of all completions of the round's live
    local groups (LitePPO), also for groups of peers. `none`: nothing (Dr. GRPO)."""

    reward_aggregation: RewardAggregation = "sum_then_normalise"
    """How several reward channels become one advantage. `sum_then_normalise`: the weighted sum of
    the channels is the reward. `normalise_then_sum`: each channel is normalised within its group,
    then they are summed by weight and the sum is scaled by `advantage_scaling`; with `batch` this
    is GDPO (arXiv 2601.05242), in which a channel of small spread is not drowned by another."""

    channel_deviation_floor: float = Field(default=0.1, ge=0.0, le=1.0)
    """Under `normalise_then_sum`, a channel that hardly differs within a group is divided by at
    least this share of its running deviation over rounds, and by 0.01, so that trifles don't
    become full-size advantages. 0: always by the group's own deviation."""

    trained_groups: TrainedGroups = "accuracy"
    """Which local groups are trained on when there are several reward channels. `accuracy`: those
    with successes and failures. `any_channel`: also those in which only another channel differs,
    so that a policy may learn to be brief where it is always right, or always wrong. Groups of
    peers must differ in accuracy."""

    kl_weight: float = Field(default=0.0, ge=0.0)
    """Weight of the divergence from the reference policy, the one that training began with. Above
    0 it is kept beside the policy, which costs its memory unless the policy is a LoRA adapter."""

    entropy_weight: float = Field(default=0.0, ge=0.0)
    """Weight of the mean entropy of our own tokens, which is then made larger."""

    covariance: Covariance = "none"
    """Restraint on the tokens whose log-prob and advantage go together most, which is where
    entropy is lost. `clip`: some of them get no gradient (Clip-Cov). `kl`: those that moved since
    the round's start are pulled back (KL-Cov), for which `inner_steps` must be above 1."""

    covariance_share: float = Field(default=2e-4, gt=0.0, le=1.0)
    """Share of the tokens that `covariance` acts on."""

    covariance_low: float = 1.0
    """Clip-Cov chooses among tokens whose covariance lies above this."""

    covariance_high: float = 5.0
    """And below this."""

    covariance_kl_weight: float = Field(default=1.0, gt=0.0)
    """Under KL-Cov, the weight of |log ratio| on the chosen tokens."""

    mask_truncated: bool = False
    """Leave completions that were cut off out of the loss; their rewards count in the baseline."""

    local_advantage: LocalAdvantage = "both"
    """What our own completions contribute. `both`: all (GRPO). `positive`: only those with a
    positive advantage, so that nothing is made less likely directly."""

    external_advantage: ExternalAdvantage = "positive"
    """What completions of peers contribute. `positive`: those with a positive advantage, at full
    weight. `both`: all, as if our own policy had sampled them (the paper). `weighted`: all, as far
    as the peer's log-probs allow a correction: per token under `correction` where they fit our
    tokenizer, behind a gate where only the total is known, otherwise as `external_fallback`
    says. `shaped`: all, with a bounded gradient (LUFFY). `off`: nothing."""

    external_fallback: ExternalFallback = "positive"
    """Under `weighted`, what a group of a peer without usable log-probs contributes."""

    external_baseline: ExternalBaseline = "peer_group"
    """What the reward of a peer's completion is compared with. `peer_group`: the mean of its own
    group. `receiver_task_mean`: the mean of our own completions of that task in this round (of its
    own group where we have none); divided by its own group's deviation. `union`: mean and deviation
    of all completions of that task in this round, ours and those of all peers."""

    correction: Correction = "truncate"
    """What is done with the ratio of our probability of a token to its sampler's. `truncate`: it
    weighs the token, up to `importance_cap`. `icepop`: the same, and tokens outside
    `correction_floor` to `importance_cap` are left out. `sequence_mask`: as `truncate`, and
    completions whose geometric mean is outside are left out."""

    local_correction: bool = False
    """Correct our own completions, too. Of use where another engine or a lower precision samples;
    with the engines `native` and `hf` the ratio is 1 but for rounding."""

    importance_cap: float = Field(default=2.0, ge=1.0)
    """The largest factor that a peer's log-probs may give a token; it bounds what lying gains."""

    correction_floor: float = Field(default=0.5, ge=0.0, le=1.0)
    """The lower end of `correction`'s band; `importance_cap` is the upper."""

    off_policy_threshold: float = Field(default=0.5, gt=0.0)
    """A corrected completion with a negative advantage is dropped when its tokens are on average
    more than this many nats likelier to the sampler than to us."""

    gate_width: float = Field(default=1.0, gt=0.0)
    """Where only a completion's total log-prob is known, it is left out when the sampler's and ours
    differ by more than this many nats per token of ours; otherwise the exponential of that
    difference weighs it, up to `importance_cap`."""

    shaping_scale: float = Field(default=0.1, gt=0.0, le=1.0)
    """Under `shaped`, the probability at which a token has half the greatest credit (LUFFY's
    gamma)."""

    micro_batch_tokens: int | None = Field(default=None, ge=1)
    """Positions, padding included, that go through the model at once. It bounds memory and changes
    neither loss nor gradient; a single group that is longer goes alone. Unset is 8192, and on the
    CPU, for every model but `tiny`, 512: what is larger falls out of the processor's caches, and a
    step takes half as long again."""

    external_group_tokens: int = Field(default=8192, ge=1)
    """Positions that a group of a peer may have: a longer one is left out, since the memory that
    attention takes grows with their square."""

    activation_mib: int | None = Field(default=None, ge=0)
    """MiB that the activations of one micro-batch may take, by a measurement before the first
    step; a single group that needs more recomputes its activations. 0 leaves it to
    `micro_batch_tokens`; unset is 0 for `tiny` and 2048 for every other model. Whatever runs out of
    memory all the same is halved, and left out where that doesn't help."""

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or values.get("preset") not in PRESETS:
            return values
        return {**PRESETS[values["preset"]], **values}

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = contradiction(self)
        if found is not None:
            raise ValueError(found)
        return self

    @property
    def rate(self) -> float:
        """The learning rate; unset, it is that of `tiny`."""
        return TINY_LEARNING_RATE if self.learning_rate is None else self.learning_rate

    @property
    def activation_limit_mib(self) -> int:
        """The limit of a micro-batch's activations; 0 is none, which is what unset means here."""
        return self.activation_mib or 0

    @property
    def tokens_at_once(self) -> int:
        """Positions of a micro-batch."""
        return self.micro_batch_tokens or MICRO_BATCH_TOKENS

    def for_model(self, model: str, *, adapters: bool, device: str) -> Self:
        """The same with what suits the model, on a type of device, where a setting is unset."""
        tiny = model == "tiny"
        cached = device == "cpu" and not tiny
        rate = TINY_LEARNING_RATE if tiny else LEARNING_RATE
        suiting = {
            "learning_rate": rate * ADAPTER_FACTOR if adapters else rate,
            "activation_mib": 0 if tiny else ACTIVATION_MIB,
            "micro_batch_tokens": MICRO_BATCH_TOKENS_IN_CACHES if cached else MICRO_BATCH_TOKENS,
        }
        unset = {name: one for name, one in suiting.items() if getattr(self, name) is None}
        return self.model_copy(update=unset)
