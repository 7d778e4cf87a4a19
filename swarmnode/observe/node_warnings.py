"""What a node can complain of in itself: its processes, training, checkpoints, disk and memory."""

from __future__ import annotations

from swarmnode.observe.facts import Facts, Severity, Warnable
from swarmnode.observe.words import counted, lasting, size_of

RESTARTS_IN_AN_HOUR = 3
ROUNDS_WITHOUT_LIVE_GROUP = 5
FAILURES_IN_A_ROW = 3
SCORER_KILLS_IN_AN_HOUR = 10
REWARD_FAILURES_IN_A_ROW = 5
LOW_DISK_BYTES = 2 * 1024**3
NO_DISK_BYTES = 256 * 1024**2
LOW_MEMORY_SHARE = 0.05
CHECKPOINT_INTERVALS = 3.0


def _troubled(facts: Facts) -> dict[str, int]:
    return {
        name: count
        for name, count in sorted(facts.restarts_last_hour.items())
        if count >= RESTARTS_IN_AN_HOUR
    }


def _failing_rewards(facts: Facts) -> dict[str, int]:
    found = sorted(facts.failing_rewards.items())
    return {name: rounds for name, rounds in found if rounds >= REWARD_FAILURES_IN_A_ROW}


def _checkpoint_age(facts: Facts) -> float:
    age = facts.checkpoint_age_seconds
    return facts.uptime_seconds if age is None else age


NODE_WARNABLES: tuple[Warnable, ...] = (
    Warnable(
        "process-restarts",
        Severity.WARNING,
        "A process keeps ending",
        lambda f: bool(_troubled(f)),
        lambda f: (
            "Restarted in the last hour: "
            + ", ".join(f"{name} {count} times" for name, count in _troubled(f).items())
            + "."
        ),
        "Look into `swarmnode logs`; lack of memory is the commonest cause.",
        f"a child process was restarted {RESTARTS_IN_AN_HOUR} times in an hour",
        ("network-down",),
    ),
    Warnable(
        "training-keeps-failing",
        Severity.ERROR,
        "Training fails",
        lambda f: f.training_failures >= FAILURES_IN_A_ROW,
        lambda f: f"The last {f.training_failures} training steps failed: {f.training_error}",
        "See the traceback in `swarmnode logs`; with too little memory, lower "
        "`training.micro_batch_tokens`.",
        f"{FAILURES_IN_A_ROW} training steps in a row failed",
    ),
    Warnable(
        "training-failed",
        Severity.WARNING,
        "A training step failed",
        lambda f: f.training_failures > 0,
        lambda f: f"The last training step failed: {f.training_error}",
        "Nothing yet; the traceback is in `swarmnode logs`.",
        "the last training step failed",
        ("training-keeps-failing",),
    ),
    Warnable(
        "nothing-to-learn",
        Severity.WARNING,
        "Nothing to learn from",
        lambda f: f.rounds_without_live_group >= ROUNDS_WITHOUT_LIVE_GROUP,
        lambda f: (
            f"For {f.rounds_without_live_group} rounds all answers to each question were "
            "right, or all were wrong, so that no step was taken."
        ),
        "Choose tasks or a level that the policy answers right sometimes: `--level easy`.",
        f"{ROUNDS_WITHOUT_LIVE_GROUP} rounds in a row without a live group",
        ("training-keeps-failing",),
    ),
    Warnable(
        "loophole",
        Severity.WARNING,
        "A verifier may be fooled",
        lambda f: bool(f.loopholes),
        lambda f: (
            f"Right answers in {', '.join(f.loopholes)} are a few texts over and over, more "
            "than their questions explain."
        ),
        "Look at the answers with `swarmnode rollouts --peer own`; leave the task out if they are "
        "no real answers.",
        "the commonest right answers of a task exceed what its questions explain",
    ),
    Warnable(
        "reward-keeps-failing",
        Severity.WARNING,
        "A reward can't be told",
        lambda f: bool(_failing_rewards(f)),
        lambda f: (
            ", ".join(
                f"`{name}` told nothing of some answers in {rounds} rounds in a row"
                for name, rounds in _failing_rewards(f).items()
            )
            + "; what it is to pay for is not paid."
        ),
        "The node's terminal has the reason, once for each kind. Mend the reward, raise its "
        "`seconds` where it takes too long, or leave it out by a `weight` of 0.",
        f"a reward model or an own reward failed in {REWARD_FAILURES_IN_A_ROW} rounds in a row",
    ),
    Warnable(
        "scorer-kills",
        Severity.WARNING,
        "Texts keep killing the scorer",
        lambda f: f.scorer_kills_last_hour >= SCORER_KILLS_IN_AN_HOUR,
        lambda f: (
            f"{f.scorer_kills_last_hour} groups hung or killed the scorer in the last hour; "
            "it was replaced each time."
        ),
        "Nothing: who sends such texts is muted. `swarmnode peers` shows who.",
        f"{SCORER_KILLS_IN_AN_HOUR} groups in an hour hung or killed the scorer",
    ),
    Warnable(
        "disk-full",
        Severity.ERROR,
        "Disk full",
        lambda f: f.disk_free_bytes < NO_DISK_BYTES,
        lambda f: f"{size_of(f.disk_free_bytes)} are free where the home is.",
        "Free some space, or move the home with SWARMNODE_HOME. Training goes on meanwhile.",
        f"less than {size_of(NO_DISK_BYTES)} are free for the home",
    ),
    Warnable(
        "disk-low",
        Severity.WARNING,
        "Disk nearly full",
        lambda f: f.disk_free_bytes < LOW_DISK_BYTES,
        lambda f: f"{size_of(f.disk_free_bytes)} are free where the home is.",
        "Free some space, or move the home with SWARMNODE_HOME.",
        f"less than {size_of(LOW_DISK_BYTES)} are free for the home",
        ("disk-full",),
    ),
    Warnable(
        "checkpoint-failed",
        Severity.ERROR,
        "Checkpoints cannot be written",
        lambda f: f.checkpoint_failures > 0,
        lambda f: (
            f"{counted(f.checkpoint_failures, 'checkpoint')} in a row could not be written: "
            f"{f.checkpoint_error}"
        ),
        "Check space and permissions of the home with `swarmnode doctor`.",
        "the last checkpoint could not be written",
        ("disk-full",),
    ),
    Warnable(
        "checkpoint-old",
        Severity.WARNING,
        "Last checkpoint is old",
        lambda f: (
            _checkpoint_age(f)
            >= max(CHECKPOINT_INTERVALS * f.checkpoint_interval_seconds, 2 * f.round_seconds)
        ),
        lambda f: (
            f"No checkpoint was completed for {lasting(_checkpoint_age(f))}; what was learnt "
            "since would be lost if the machine stopped now."
        ),
        "Look into `swarmnode logs` for what holds it up.",
        "no checkpoint for three intervals and two rounds",
        ("checkpoint-failed", "disk-full", "training-keeps-failing"),
    ),
    Warnable(
        "store-problem",
        Severity.ERROR,
        "The store has a problem",
        lambda f: bool(f.store_problem),
        lambda f: f.store_problem,
        "Check space and permissions of the home with `swarmnode doctor`; training goes on.",
        "the store cannot be written, or was damaged and set aside",
        ("disk-full",),
    ),
    Warnable(
        "tracker-failing",
        Severity.WARNING,
        "A tracker takes no rounds",
        lambda f: bool(f.tracker_problems),
        lambda f: "; ".join(f"{name}: {why}" for name, why in f.tracker_problems.items()),
        "Nothing is lost that training needs, and it is tried again after growing pauses; the "
        "store has the rounds. If it stays so, mend what the line names, or leave the tracker out "
        "of `metrics.trackers`.",
        "a tracker of `metrics.trackers`, or `rounds.jsonl`, could not take the last rounds",
        ("disk-full",),
    ),
    Warnable(
        "memory-low",
        Severity.WARNING,
        "Memory nearly used up",
        lambda f: f.memory_available_bytes < LOW_MEMORY_SHARE * f.memory_total_bytes,
        lambda f: (
            f"{size_of(f.memory_available_bytes)} of {size_of(f.memory_total_bytes)} are "
            "available; the system may end a process."
        ),
        "Close other programs, or lower `training.micro_batch_tokens`.",
        f"less than {LOW_MEMORY_SHARE:.0%} of the memory is available",
    ),
)
