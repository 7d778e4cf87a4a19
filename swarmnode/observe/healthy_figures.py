"""What is healthy in a figure of a round, and what to do where it is not; for docs/metrics.md.

By name, or by what names begin with where one text holds for all of them: the longest fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_COUNT = "A count: it is there to compare the others with."

HEALTHY: Mapping[str, str] = MappingProxyType(
    {
        "reward/local": "Rises over tens of rounds. At 0 the tasks are too hard, near 1 too easy: "
        "another `--level`.",
        "reward/training_set": "Above reward/local under a filter that wants successes; it says "
        "nothing of the policy.",
        "held_out": "Rises; with few questions it scatters (the dashboard's band). If it falls "
        "while reward/local rises, what is rewarded is no skill: look at the answers.",
        "held_out_greedy": "At or above held_out. Far above: sampling spoils answers, lower "
        "`policy.temperature`.",
        "sources": "Several keys. One alone, round after round: see `swarmnode peers`.",
        "trained": "For looking up why a group counted as it did.",
        "generated/": "Live groups a third of all or more; below that change the level.",
        "answers/": "An excess below 0.3, and success above that of a constant. Else `swarmnode "
        "rollouts`, and leave the task out.",
        "guard/value": "See [guard-rails](guard-rails.md): each has its own range.",
        "guard/recent": "Near guard/start; docs/guard-rails.md says what each leaving means.",
        "guard/start": "What the policy began with; nothing to do.",
        "guard/alarm": "None. The health warning of the rail says what to do.",
        "guard/skipped": "0. If it stays 1, the rail with an alarm says why.",
        "guard/rolled_back": "0. If it grows, lower `training.learning_rate`.",
        "scheduler/weight": "Moves, and leaves no task at 0 for good.",
        "scheduler/non_finite": "0. If it grows, the scheduler's settings don't fit its rewards "
        "([scheduling](scheduling.md)).",
        "scheduler/overruled": "0, as non_finite.",
        "scheduler/saturated": "Below a half. Near 1 leave that reward out.",
        "scheduler/skipped_updates": "0 or nearly. If it grows, lower the agent's step size.",
        "scheduler/": "Bounded, and settling after tens of rounds; a figure that only grows is a "
        "scheduler that learns nothing: take `uniform`.",
        "steering/": "taken near wanted. Far below: peers don't have what is wanted.",
        "mix/local_groups": "I, unless groups could not be judged.",
        "mix/external_groups": "J. Fewer: the pool was too empty; see collected/ and dropped.",
        "mix/local_live_groups": "A third of the local groups or more; else change the level.",
        "mix/external_live_groups": "All of them under the default filter.",
        "mix/external_peers": "Several; one alone decides otherwise what all learn.",
        "mix/external_age_seconds": "A few rounds at most. Old groups are of policies that are "
        "gone: lower `selection.pool_groups`, or take fewer.",
        "mix/refused/": "0 mostly. Where peers' shares are refused, few peers send much.",
        "mix/watched_groups": "0, unless `policy.external` is `monitor` or a fallback is on.",
        "mix/": "Below their limits in [selection](settings.md#selection).",
        "fallback/active": "0. The health warning `external-fallback` says what to do.",
        "fallback/": "Near 0; a drop of a few points within its error is noise.",
        "pool/groups": "Above 0 in a swarm. Empty: few peers, or all is dropped.",
        "groups/too_long": "0. Else peers answer longer than you allow: `policy.max_new_tokens`.",
        "collected/": "Growing in a swarm. Fetched without admitted: `swarmnode status` counts "
        "what was dropped and why.",
        "published/given_up": "0. Else the line is slower than the rounds: fewer questions.",
        "published/unsendable": "0. Else the policy writes what no text can hold; look at it.",
        "published/": "One bundle a round, as long as groups are shared.",
        "unscored/": "0. Otherwise `swarmnode logs` says what the scorer met.",
        "seconds/": "Steady. produce far above learn is the rule on a processor.",
        "split/lag": "At most `policy.max_policy_lag`; near it generators are too slow.",
        "split/trainer_idle_share": "Below a half; else more generators.",
        "split/generator_idle_share": "Below a half; else fewer generators.",
        "split/dropped": "Few against split/generated_groups; else allow more lag.",
        "split/": "Steady; see [split](split.md).",
        "attack/": "Of simulations alone: [attacks](attacks.md).",
        "loss": "Around 0, of either sign. It is no measure of success.",
        "grad_norm": "Steady within a factor of ten. If it grows, lower `training.learning_rate`; "
        "0 is a round without a live group.",
        "learning_rate": "As set.",
        "entropy": "Falls slowly. Near 0 nothing new is tried: lower `training.learning_rate` or "
        "raise `training.clip_high`; if it rises the policy comes apart.",
        "clip_ratio/": "A few per cent, and 0 with one inner step. Above a fifth: lower "
        "`training.learning_rate` or `training.inner_steps`.",
        "advantage_lost/": "Small, and alike for both signs.",
        "frac_reward_zero_std": "Below two thirds. Near 1 nothing is learned: another level.",
        "completions/clipped_ratio": "Below a tenth. Else raise `policy.max_new_tokens`.",
        "completions/masked": "0 under the defaults, or what your settings leave out.",
        "completions/excluded": "0; a guard-rail's health warning says why not.",
        "completions/gated": "A few in a hundred under `enforce`; many: peers of another kind.",
        "completions/weighted_external": _COUNT,
        "completions/": "Steady. Growth without success is padding: "
        "`rewards.channels.length.weight`.",
        "log_prob_gate/": "over about one in a hundred of measured, as with own ones; far more is "
        "a peer whose log-probs aren't those of its text.",
        "corrections/": "A count by [level](losses.md): many at none or positive are peers that "
        "send no log-probs.",
        "groups/live": "A third of all or more.",
        "groups/dead": "Fewer than two thirds of all; else another level.",
        "groups/oversized_external": "0. Else raise `training.external_group_tokens`.",
        "groups/out_of_memory": "0. Else shorter answers, or a smaller model.",
        "tokens/off_policy_dropped": "Few against tokens/external.",
        "tokens/": _COUNT,
        "external_token_share": "At most what `selection.external_token_share` allows, over many "
        "rounds; in one it may be more.",
        "external_gradient_share": "Near external_token_share. Far above: strangers push "
        "harder than own answers; take fewer with `--mix`.",
        "kl": "Below a few nats where `training.kl_weight` is set; else it only tells how far the "
        "policy has gone.",
        "covariance_restrained": "As set by `training.covariance`: a few in a thousand.",
        "logprobs/": "Local about minus entropy; external far below local is a distant peer.",
        "sampling/sampling_logp_difference/mean": "Below 0.01 in float32, 0.1 in bfloat16. Above "
        "that training and sampling differ: report it.",
        "sampling/sampling_logp_difference/max": "Below 1; single tokens may stand out in "
        "bfloat16.",
        "sampling/sampling_logp_difference/external": "Below 1 on the mean; more is another model.",
        "sampling/effective_sample_share/": "Above a half. Near 0 a few tokens decide: take "
        "fresher groups.",
        "sampling/cap_hit_share": "Below a tenth; else peers are too far away for weights.",
        "sampling/importance_sampling_ratio/": "A mean near 1, and the rest within the cap.",
        "steps/taken": "`training.inner_steps`. 0: nothing was live, or a gradient not finite.",
        "steps/out_of_memory": "0. Else lower `training.micro_batch_tokens`.",
        "steps/skipped_no_live_group": "0 mostly; five in a row are a health warning.",
        "steps/skipped_nonfinite_gradient": "0. Else lower `training.learning_rate`.",
        "channels/failed": "0. Else mend the reward; five rounds in a row are a health warning.",
        "channels/too_long": "0 or few; else raise that reward model's limit.",
        "channels/advantage_share": "What you mean it to count; below 0 it works against others.",
        "channels/length_correlation": "Within 0.3 of 0, but for a channel that pays for length.",
        "channels/floored": "Below a half; else the channel tells answers apart too little.",
        "channels/": "Moves with what it pays for; a deviation of 0 tells no answers apart.",
    }
)


def healthy_figure(name: str) -> str:
    """The text that fits a name best; "" where none does."""
    fitting = [each for each in HEALTHY if name.startswith(each)]
    return HEALTHY[max(fitting, key=len)] if fitting else ""
