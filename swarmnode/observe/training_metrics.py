"""What figures of the training step and of reward channels mean; docs/metrics.md is made of this.

Names are TRL's where the meaning is TRL's; swarmnode.training reports under them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

TRAINING_METRICS: Mapping[str, str] = MappingProxyType(
    {
        "loss": "What the step minimised, as `normalization` divides it, mean over inner steps. "
        "With one inner step it says little: the ratio is 1 and only advantages remain.",
        "grad_norm": "Euclidean norm of the gradient before clipping, mean over inner steps.",
        "learning_rate": "Adam's step size in the last inner step.",
        "entropy": "Mean entropy in nats of the distribution behind each trained token.",
        "clip_ratio/low_mean": "Share of trained tokens held back by the ratio's lower bound.",
        "clip_ratio/high_mean": "Share of trained tokens held back by the ratio's upper bound.",
        "clip_ratio/region_mean": "Sum of the two.",
        "advantage_lost/positive": "Share of the summed positive advantages of tokens that got no "
        "gradient, because of a clip or a mask, mean over inner steps. A divergence or an entropy "
        "bonus is a gradient, too: then it says nothing.",
        "advantage_lost/negative": "The same of negative advantages. Where one sign loses more, "
        "policy and sampler drift apart.",
        "frac_reward_zero_std": "Share of the given groups whose rewards are all equal (dead); "
        "external groups are left out when they don't count.",
        "completions/mean_length": "Mean tokens of the local completions, end token included.",
        "completions/min_length": "Fewest tokens of a local completion.",
        "completions/max_length": "Most tokens of a local completion.",
        "completions/clipped_ratio": "Share of the local completions that were cut off.",
        "completions/mean_terminated_length": "Mean tokens of those that weren't; 0 if none.",
        "completions/masked_local": "Local completions of live groups that `local_advantage` or "
        "`mask_truncated` keeps out of the loss, or without any token.",
        "completions/masked_external": "External completions of live groups that "
        "`external_advantage`, `external_fallback` or `mask_truncated` keeps out of the loss, or "
        "without any token.",
        "completions/excluded_local": "Local completions of live groups that a guard-rail keeps "
        "out of the loss; their rewards count in the baseline.",
        "completions/excluded_external": "The same of external completions.",
        "completions/gated_external": "External completions that the log-prob gate kept out of the "
        "loss under `enforce`; their rewards count in the baseline.",
        "log_prob_gate/measured/own": "Own completions held against the limit of the rounds "
        "before; as all of log_prob_gate/ missing until 200 own completions are known.",
        "log_prob_gate/over/own": "Those past it: about one in a hundred.",
        "log_prob_gate/measured/same_tokenizer": "Completions held against it of peers whose "
        "tokenizer is ours: those trained on, and those that would be under `monitor`.",
        "log_prob_gate/over/same_tokenizer": "Those past it.",
        "log_prob_gate/measured/other_tokenizer": "The same of peers with another tokenizer.",
        "log_prob_gate/over/other_tokenizer": "Those past it.",
        "completions/weighted_external": "External completions under importance weights, of single "
        "tokens or of the whole.",
        "corrections/full": "External groups trained on under per-token importance ratios.",
        "corrections/gate": "External groups trained on by their total log-probs alone.",
        "corrections/shaped": "External groups trained on with a bounded gradient.",
        "corrections/positive": "External groups of which positive advantages alone count.",
        "corrections/none": "External groups trained on as if our own policy had sampled them.",
        "groups/live_local": "Local groups with successes and failures, trained on.",
        "groups/live_external": "External groups with successes and failures.",
        "groups/dead_local": "Local groups dropped because all rewards are equal.",
        "groups/dead_external": "External groups dropped because all rewards are equal.",
        "groups/oversized_external": "Live external groups dropped because one alone exceeds "
        "`external_group_tokens`.",
        "groups/out_of_memory": "Groups left out because one alone ran out of memory.",
        "tokens/local": "Trained tokens of local completions, per inner step.",
        "tokens/external": "Trained tokens of external completions, per inner step.",
        "tokens/off_policy_dropped": "Tokens that a correction left out: by "
        "`off_policy_threshold`, the band of `correction` or `gate_width`.",
        "external_token_share": "Share of the trained tokens that peers sampled.",
        "external_gradient_share": "Share of peers in the sum over trained tokens of the absolute "
        "derivative of the loss by the token's log-prob: how much of the push was theirs, whatever "
        "the directions.",
        "external_gradient_share/largest_peer": "The same for the peer with the largest share.",
        "kl": "Mean divergence in nats from the reference policy (k3) of our own tokens.",
        "covariance_restrained": "Share of the trained tokens that `covariance` acted on.",
        "logprobs/local": "Mean log-prob in nats of the trained local tokens under our policy.",
        "logprobs/external": "The same for external tokens: far lower means distant peers.",
        "sampling/sampling_logp_difference/mean": "Mean absolute difference in nats between "
        "training's and the sampler's log-probs of local tokens: ought to be float noise.",
        "sampling/sampling_logp_difference/max": "The largest such difference.",
        "sampling/sampling_logp_difference/external_mean": "Mean absolute difference in nats "
        "between our log-probs of external tokens and their sampler's, where these are known.",
        "sampling/sampling_logp_difference/external_max": "The largest such difference.",
        "sampling/effective_sample_share/local": "Share of equally weighted tokens that say as "
        "much as our own weighted ones; near 0 a few tokens decide.",
        "sampling/effective_sample_share/external": "The same of external tokens.",
        "sampling/cap_hit_share": "Share of the weighted tokens whose weight was cut at "
        "`importance_cap`.",
        "sampling/importance_sampling_ratio/mean": "Mean truncated weight of weighted tokens.",
        "sampling/importance_sampling_ratio/min": "The smallest such weight.",
        "sampling/importance_sampling_ratio/max": "The largest such weight, at most the cap.",
        "steps/taken": "Optimizer steps taken in this round.",
        "steps/out_of_memory": "Times that a micro-batch ran out of memory and was made smaller.",
        "steps/skipped_no_live_group": "1 if nothing could be trained on, so that neither the "
        "policy nor the optimizer changed.",
        "steps/skipped_nonfinite_gradient": "1 if a gradient held NaN or infinity; the inner "
        "step was not taken and the round ended there.",
    }
)

TRL_NAMES = frozenset(
    {
        "loss",
        "grad_norm",
        "learning_rate",
        "entropy",
        "kl",
        "frac_reward_zero_std",
        "clip_ratio/low_mean",
        "clip_ratio/high_mean",
        "clip_ratio/region_mean",
        "completions/mean_length",
        "completions/min_length",
        "completions/max_length",
        "completions/clipped_ratio",
        "completions/mean_terminated_length",
        "sampling/sampling_logp_difference/mean",
        "sampling/sampling_logp_difference/max",
        "sampling/importance_sampling_ratio/mean",
        "sampling/importance_sampling_ratio/min",
        "sampling/importance_sampling_ratio/max",
    }
)
"""Those of TRAINING_METRICS that TRL's GRPOTrainer logs, or the Trainer that it is made of, under
the same name in the same meaning (trl 1.16.0)."""

CHANNEL_METRICS: Mapping[str, str] = MappingProxyType(
    {
        "channels/mean": "Mean over local completions.",
        "channels/std": "Standard deviation over local completions.",
        "channels/advantage_share": "Its share of the variance of the advantages of "
        "live local groups. The shares add up to 1; a channel below 0 works against the others.",
        "channels/length_correlation": "Spearman's correlation of what it pays with a completion's "
        "tokens, ranked within each local group. Far from 0 it pays for long or short answers, "
        "whatever else it means to.",
        "channels/floored": "Under `normalise_then_sum`: share of the local groups in "
        "which it differs by so little that its deviation is floored.",
        "channels/failed": "Completions, own and external, that a reward model or a reward of "
        "another package gave no finite number, raised at or took too long over.",
        "channels/too_long": "Completions that are longer than what the reward model is shown.",
    }
)
"""Where there is more than accuracy, each with the channel's name behind it."""
