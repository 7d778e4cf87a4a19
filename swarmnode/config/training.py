"""Settings of the training step: which groups count how much, and how far one round may move.

What the defaults mean is said at each. Generation's settings, the sampling temperature among them,
are not here: the step is told the temperature that the completions were sampled at.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from swarmnode.config.base import Section

AdvantageScaling = Literal["group", "batch", "none"]
RewardAggregation = Literal["sum_then_normalise", "normalise_then_sum"]
TrainedGroups = Literal["accuracy", "any_channel"]
LocalAdvantage = Literal["both", "positive"]
ExternalAdvantage = Literal["positive", "both", "weighted", "off"]
ExternalBaseline = Literal["peer_group", "receiver_task_mean", "union"]


class Training(Section):
    """How a round's groups change the policy."""

    learning_rate: float = Field(default=2e-4, gt=0.0)
    """Adam's step size after the warm-up. 2e-4 suits `tiny`, which 1e-3 makes forget; models of
    100 M parameters and more want 1e-6 to 1e-5."""

    warmup_steps: int = Field(default=10, ge=0)
    """Optimizer steps over which the learning rate rises linearly to its value; 0 starts at it."""

    weight_decay: float = Field(default=0.0, ge=0.0)
    """AdamW's decoupled weight decay, per unit of learning rate."""

    gradient_clip: float = Field(default=1.0, gt=0.0)
    """Largest Euclidean norm of the whole gradient; a longer one is scaled down to it."""

    inner_steps: int = Field(default=1, ge=1, le=64)
    """Optimizer steps per round on the same groups. With 1 the importance ratio is 1 everywhere,
    so that the clip never acts; from the second on, it is taken against the policy at the start
    of the round."""

    clip_low: float = Field(default=0.2, ge=0.0, le=1.0)
    """The token ratio's lower bound is 1 minus this (GRPO's epsilon)."""

    clip_high: float = Field(default=0.28, ge=0.0)
    """The token ratio's upper bound is 1 plus this (DAPO's clip-higher)."""

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

    local_advantage: LocalAdvantage = "both"
    """What our own completions contribute. `both`: all (GRPO). `positive`: only those with a
    positive advantage, so that nothing is made less likely directly."""

    external_advantage: ExternalAdvantage = "positive"
    """What completions of peers contribute. `positive`: those with a positive advantage, at full
    weight. `both`: all, as if our own policy had sampled them (the paper). `weighted`: all, under
    truncated importance sampling, where the peer's log-probs per token are known and fit our
    tokenizer; completions without them are treated as under `positive`. `off`: nothing."""

    external_baseline: ExternalBaseline = "peer_group"
    """What the reward of a peer's completion is compared with. `peer_group`: the mean of its own
    group. `receiver_task_mean`: the mean of our own completions of that task in this round (of its
    own group where we have none); divided by its own group's deviation. `union`: mean and deviation
    of all completions of that task in this round, ours and those of all peers."""

    importance_cap: float = Field(default=2.0, ge=1.0)
    """Under `weighted`, the largest factor that the ratio of our probability to the peer's may
    give a token; it bounds what a lying peer can gain."""

    off_policy_threshold: float = Field(default=0.5, gt=0.0)
    """Under `weighted`, a peer's completion with a negative advantage is dropped when its tokens
    are on average more than this many nats likelier to the peer than to us."""

    micro_batch_tokens: int = Field(default=8192, ge=1)
    """Positions, padding included, that go through the model at once. It bounds memory and changes
    neither loss nor gradient; a single group of our own that is longer goes alone, one of a peer is
    left out."""
