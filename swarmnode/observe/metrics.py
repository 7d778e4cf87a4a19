"""What a round's figures mean, apart from those of the training step: docs/metrics.md is made of
this and of swarmnode.training.METRICS.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

METRICS: Mapping[str, str] = MappingProxyType(
    {
        "reward/local": "Success of the node's own fresh completions in [0, 1], by task, before "
        "any filter: what its policy can do on the questions it asks.",
        "reward/training_set": "Success of everything that the round trained on, by task. The "
        "paper sums this one. A filter that prefers groups with successes raises it by itself; "
        "what it exceeds reward/local by is that selection effect.",
        "held_out": "Success on unseen questions by task, one sampled answer each, as a string "
        "of one 1 or 0 per question: the figure to judge a policy by.",
        "held_out_greedy": "The same questions answered greedily.",
        "sources": "External groups that the round trained on, by the first eight bytes of their "
        "publisher's key.",
        "trained": "Each group of the training set with the first eight bytes of its publisher's "
        "key (`own` for the node's), its task, the level of its correction and why it got that one "
        "(docs/losses.md).",
        "generated/groups": "Questions that the node asked and answered: Q, or more under dynamic "
        "sampling.",
        "generated/live_groups": "Those with both successes and failures.",
        "generated/tokens": "Tokens sampled for them, end tokens included.",
        "answers/common_share": "By task: of the node's last 64 right answers, at most four of a "
        "group, the share that is one of the four commonest texts. None below 24 right answers.",
        "answers/common_excess": "By task: what that share exceeds the share of the four commonest "
        "reference answers of the same questions by. From 0.3 on it is a suspicion: a verifier's "
        "loophole rather than a skill.",
        "answers/above_constant": "By task: success of this round's own answers minus that of the "
        "best constant answer or shallow rule, where that was measured.",
        "guard/value": "By guard-rail: its figure in this round's own answers, or in the training "
        "step; docs/guard-rails.md says what each is. Missing where it has no meaning.",
        "guard/recent": "By guard-rail: its exponential mean over about five rounds, once "
        "`guard_rails.first_rounds` are over. This is what is judged.",
        "guard/start": "By guard-rail: the median of the first rounds.",
        "guard/alarm": "By guard-rail, where it complains: 1 for a warning, 2 for critical.",
        "guard/skipped": "1 if a guard-rail let no step be taken.",
        "guard/rolled_back": "How often the policy was set back to a checkpoint since the start.",
        "scheduler/weight": "By task: the share that the round's questions were drawn by; of "
        "schedulers that learn, as all of scheduler/.",
        "scheduler/non_finite": "Values since the start that were no finite number and were kept "
        "from the scheduler.",
        "scheduler/overruled": "Rounds since the start in which the scheduler's weights could not "
        "be used and the last good ones were.",
        "scheduler/reward": "What the last step was worth, all rewards together; this and what "
        "follows of hds, ac-odm and in part reward-softmax.",
        "scheduler/share": "By reward: its part of what was paid, of the sizes of all.",
        "scheduler/saturated": "By reward: share of the steps so far in which it stood at an end "
        "of its range, where it tells no two actions apart. Near 1 it is useless.",
        "scheduler/critic_loss": "Squared errors of the critics.",
        "scheduler/actor_loss": "What the actor steps down.",
        "scheduler/entropy": "Of the shares' density, in nats; it goes to the target.",
        "scheduler/temperature": "What a nat of entropy counts; one that only grows says that the "
        "target can't be reached.",
        "scheduler/skipped_updates": "Updates of the last step that were not finite and changed "
        "nothing.",
        "steering/wanted": "By task: the share of peers' groups that the round wanted of it, under "
        "`scheduling.steer_external`, as all of steering/.",
        "steering/taken": "By task: the share that was chosen; of a round in which any was.",
        "steering/offered": "Sum of the wanted shares of those tasks that the pool had groups of. "
        "What is missing to 1 went to other tasks.",
        "mix/local_groups": "Own groups trained on: I.",
        "mix/external_groups": "Groups of peers trained on: J, or fewer if the pool had fewer.",
        "mix/local_live_groups": "Own groups with both successes and failures.",
        "mix/external_live_groups": "Groups of peers with both successes and failures.",
        "mix/external_peers": "Peers whose groups were trained on.",
        "mix/external_age_seconds": "Mean age of the peers' groups, since they were scored here.",
        "mix/external_token_share": "Share of peers in the tokens of the training sets, over about "
        "the last 64 rounds: all of our own groups, and of peers' what may be trained on. At most "
        "`selection.external_token_share`. Where own groups are dead it is less than their share "
        "of what the loss sees (external_token_share).",
        "mix/prefix_token_share": "The same of the address prefix that has the most.",
        "mix/peer_token_share": "The same of the peer that has the most.",
        "mix/refused/external": "Groups that the filter would have taken and that the share of "
        "all peers had no room for; they wait in the pool.",
        "mix/refused/prefix": "The same of their address prefix's share; they leave the pool, as "
        "do the next.",
        "mix/refused/peer": "The same of their peer's.",
        "mix/refused/too_long": "Groups with a completion of more tokens, in ours, than "
        "`policy.max_new_tokens`, whatever the peer claims.",
        "mix/watched_groups": "Groups that were chosen and not trained on: under `policy.external` "
        "= `monitor`, or during a fallback.",
        "fallback/active": "1 while own groups alone are trained on because held-out success fell.",
        "fallback/falls": "How often it fell.",
        "fallback/evaluations_left": "Evaluations until peers' groups are tried again.",
        "fallback/drop": "Held-out success lost against the best, mean of two evaluations each.",
        "fallback/deviations": "The same in standard errors of the paired difference.",
        "pool/groups": "Groups left waiting in the pool after the round.",
        "groups/too_long": "Groups of peers left out because their text is longer than our own "
        "limit, in our tokens.",
        "collected/fetched": "Groups fetched since the start.",
        "collected/fetched_bytes": "Bytes of those groups.",
        "collected/admitted": "Groups of peers that were regenerated, scored and pooled.",
        "published/bundles": "Bundles published since the start: one a round, or several where a "
        "round is too large for one.",
        "published/groups": "Groups published.",
        "published/bytes": "Bytes of the bundles published.",
        "published/given_up": "Rounds whose groups were given up because the network was slower "
        "than the rounds.",
        "published/unsendable": "Groups that may not travel, for instance with U+0000 in a text.",
        "unscored/question_differs": "Own groups that the scorer could not judge because their "
        "question did not regenerate: a fault of ours, as all of unscored/.",
        "unscored/scorer_killed": "Own groups whose text hung or killed the scorer; score 0.",
        "unscored/scorer_slow": "Own groups that the scorer did not judge in time, whatever their "
        "text; score 0.",
        "unscored/unscorable": "Own groups whose verifier failed; score 0.",
        "seconds/produce": "Of a daemon's round under `policy.mode` = `sync`: seconds until its "
        "own groups were answered, scored and shared.",
        "seconds/learn": "The rest of it, evaluation apart.",
        "split/lag_mean": "Mean of how many versions of the policy the round's own groups were "
        "behind when they were trained on; of `policy.mode` = `split`, as all of split/.",
        "split/lag_max": "The same of the stalest one.",
        "split/age_seconds": "Mean of how long ago their sampling began.",
        "split/queue_groups": "Finished groups that went on waiting when the round took its own.",
        "split/version": "The number under which the weights after the round went out. It never "
        "goes back, as the count of optimizer steps does where the trainer is lost.",
        "split/round_seconds": "Seconds of a round of training, without waiting, over about the "
        "last eight.",
        "split/group_seconds": "Seconds that a generator needs for a group, over about its last "
        "eight batches; mean over those that have delivered.",
        "split/trainer_idle_share": "Share of its time, over about the last eight rounds, that "
        "the trainer waited for groups.",
        "split/generator_idle_share": "Share of their time, over about the last eight batches, "
        "that generators waited until they might begin; mean over them.",
        "split/generated_groups": "Own groups finished since the start.",
        "split/dropped": "By reason: own groups since the start that were not trained on. `lag` "
        "and `age`: too stale in their turn; `rolled_back`: of a policy that a guard-rail took "
        "back; `trainer_lost`: the trainer was lost or failed in their step.",
        "attack/groups": "Attackers' groups trained on, where an attack is simulated "
        "(docs/attacks.md); of honest nodes, as all of attack/.",
        "attack/tokens": "Their tokens, as the shares of peers count them.",
        "attack/set_tokens": "Those of the whole training set.",
        "attack/said": "By what attacks want said: the share of held-out answers that say it.",
        "attack/answer_tokens": "Mean length of the held-out answers, end token included.",
    }
)

DROPPED: Mapping[str, str] = MappingProxyType(
    {
        "wire": "The peer delivered bytes of another kind, or too many or too few of them.",
        "signature": "The peer delivered something whose key or signature is not valid: honest "
        "peers pass on only what they verified.",
        "schema": "What the key signed breaks the wire specification.",
        "unknown_version": "It is of a version of the protocol that we don't know.",
        "foreign_swarm": "It is of another swarm.",
        "muted": "It came from a peer that is muted for what it did, was signed by one, or could "
        "be had from such peers alone.",
        "expired": "The announcement had expired when it was seen.",
        "from_the_future": "It claims to be made later than our clock and the allowed skew.",
        "swarm_rules": "The bundle or the group breaks the swarm's rules: too many groups, too few "
        "or too many completions, or a completion of too many tokens.",
        "nothing_wanted": "None of its groups is of a task that we train on, or, under a filter "
        "that wants live groups only, none is claimed to be live or a group proves not to be.",
        "too_large": "The announced bundle is larger than its groups can be.",
        "over_budget": "A group was not fetched because more was offered than may be fetched in "
        "one look, or than the pool has room for. No fault of the peer.",
        "unreachable": "The holder did not answer, or the message was lost; or no holder is named.",
        "missing": "The holder no longer has the bundle, or left out groups that were asked for.",
        "busy": "The holder answered that it is busy, or is waited for already, or is slow while "
        "enough others are.",
        "unasked": "The holder sent groups that were not asked for.",
        "hash": "The holder sent another bundle than the announced one, or a group that is not the "
        "one that its header names.",
        "bundle_differs": "The key announced a bundle that is another key's, or whose size, groups "
        "or tasks are not as announced.",
        "stale_sequence": "Its sequence number is older than the window that we remember.",
        "equivocation": "The key signed two bundles under one sequence number.",
        "unknown_task": "A group of a task or level that our scorer doesn't know.",
        "unknown_fingerprint": "The peer's version of the task gives other questions than ours.",
        "too_long": "A completion has more tokens than our own limit allows.",
        "group_repeated": "The key has already answered that question of its stream.",
        "question_differs": "The question is not the one that the peer's stream gives there.",
        "held_out": "The question is kept for evaluation; nobody may train on it.",
        "unscorable": "Our verifier could not judge the group.",
        "scorer_killed": "The text hung or killed our scorer, which was replaced; the third in an "
        "hour mutes its author.",
        "scorer_slow": "Our scorer did not judge the group in time, nor its question with right "
        "answers.",
        "scorer_budget": "Scoring the groups of its address prefix had cost more than its share of "
        "the scorer (`rewards.prefix_share`). No fault of the peer.",
    }
)
