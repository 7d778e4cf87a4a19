"""The values that pass between rooms: plain, frozen, without behaviour beyond derived figures.

Nothing here knows the wire, torch or asyncio. Every room may import this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

FinishReason = Literal["stop", "length"]
Source = Literal["local", "external"]

SUCCESS_THRESHOLD = 0.99
"""A verifier's score from here on is a success (the accuracy channel is 1)."""


@dataclass(frozen=True, slots=True)
class Question:
    """One instance of a task, as its owner's question stream gives it."""

    task: str
    level: str
    index: int
    """Position in the stream of the key that asks it, 0 to 2**32 - 1."""
    text: str
    answer: str
    """A reference answer as plain text; receivers regenerate it and never score with a peer's."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One sampled answer."""

    text: str
    finish_reason: FinishReason
    token_count: int
    """Sampled tokens, the end token included when the finish reason is "stop"."""
    token_ids: tuple[int, ...] | None = None
    """The sampled ids (the end token included), known only for completions of our own policy."""
    logprobs: tuple[float, ...] | None = None
    """Sampler log-probs in nats, one per sampled token, at the sampling temperature."""
    total_logprob: float | None = None
    """Their sum, where a peer sent nothing else."""
    judged: Mapping[str, float] = field(default_factory=dict, hash=False)
    """What reward models beside the generator say of it, by channel; empty where none are, and of
    peers' completions."""


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """Which policy sampled a group."""

    name: str
    version: int
    """Optimizer steps taken when the group was sampled."""
    tokenizer_fingerprint: bytes


@dataclass(frozen=True, slots=True)
class Group:
    """The G completions of one question by one policy: the unit of sharing, the paper's R(q)."""

    question: Question
    completions: tuple[Completion, ...]
    publisher: bytes
    """Public key (32 bytes) whose question stream the question belongs to."""
    policy: PolicyInfo


@dataclass(frozen=True, slots=True)
class Scored:
    """A group with the scores that this node's own verifier gave it."""

    group: Group
    scores: tuple[float, ...]
    """One score in [0, 1] per completion; truncated completions score 0."""
    source: Source
    received: float
    """Seconds on the node's clock when it was scored."""
    excluded: frozenset[int] = frozenset()
    """Positions of completions that a guard-rail keeps out of training; they are scored and shared
    like all others, and count in the baseline of their group."""
    prefix: str = ""
    """Where its author is connected to us from, as of prefixes.py; empty for our own groups."""

    @property
    def successes(self) -> tuple[float, ...]:
        """The accuracy channel: 1.0 for a score of at least SUCCESS_THRESHOLD, else 0.0."""
        return tuple(1.0 if score >= SUCCESS_THRESHOLD else 0.0 for score in self.scores)

    @property
    def pass_rate(self) -> float:
        """Share of completions that succeed, in [0, 1]."""
        return sum(self.successes) / len(self.scores)

    @property
    def live(self) -> bool:
        """Whether successes and failures both occur, so that group advantages are not zero."""
        return 0.0 < self.pass_rate < 1.0


@dataclass(frozen=True, slots=True)
class TrainedGroup:
    """What one training step made of one group."""

    publisher: str
    """The first eight bytes of its key, in hex; `own` for the node's own."""
    task: str
    level: str
    """Of the correction (docs/losses.md), "out" where nothing of the group was trained on."""
    why: str
    """In a few words."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What one training step did."""

    metrics: Mapping[str, float]
    """Under the names of docs/metrics.md."""
    groups: Sequence[TrainedGroup] = ()
    """Every group that the step was given, in its order."""
    advantages: Sequence[Sequence[float]] = ()
    """Likewise, of its completions; empty for a group that was left out beforehand."""


@dataclass(frozen=True, slots=True)
class TaskRewards:
    """Mean success in [0, 1] by task, and over tasks with equal weights."""

    by_task: Mapping[str, float]

    @property
    def mean(self) -> float:
        """The mean over tasks with equal weights; 0.0 when no task was seen."""
        return sum(self.by_task.values()) / len(self.by_task) if self.by_task else 0.0


@dataclass(frozen=True, slots=True)
class CommonAnswer:
    """A text, how many sampled answers it was, and how many of these were right."""

    text: str
    count: int
    right: int


@dataclass(frozen=True, slots=True)
class SampledAnswers:
    """Which texts the sampled answers to one task's questions were; long ones are shortened."""

    commonest: Sequence[CommonAnswer]
    """The ten commonest, commonest first."""
    right: Mapping[str, int]
    """Right answers by text."""
    references: Mapping[str, int]
    """The same right answers by the reference answer of their question: the sums are equal."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Held-out success: each unseen question answered once sampled and once greedily.

    By task, one character per question in a fixed order: "1" for a success, else "0".
    """

    sampled: Mapping[str, str]
    greedy: Mapping[str, str]
    answers: Mapping[str, SampledAnswers] = field(default_factory=dict)
    """What the sampled answers said, by task; empty where that was not kept."""

    @property
    def held_out(self) -> TaskRewards:
        """reward/held_out: success of the sampled answers."""
        return TaskRewards({task: _share(marks) for task, marks in self.sampled.items()})

    @property
    def held_out_greedy(self) -> TaskRewards:
        """reward/held_out_greedy: success of the greedy answers."""
        return TaskRewards({task: _share(marks) for task, marks in self.greedy.items()})


def _share(marks: str) -> float:
    return marks.count("1") / len(marks)


@dataclass(frozen=True, slots=True)
class RoundReport:
    """Everything a round tells: the store, the metrics and the reports hang on this one value."""

    node: int
    round: int
    clock_seconds: float
    """Node clock at the end of the round."""
    local: TaskRewards
    """reward/local: own fresh completions, before any filter."""
    training_set: TaskRewards
    """reward/training_set: what was trained on, which is what the paper sums."""
    evaluation: Evaluation | None = None
    """reward/held_out, on evaluation rounds."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Everything else, under the names of docs/metrics.md."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Count of everything dropped in this round, by its named reason."""
    sources: Mapping[str, int] = field(default_factory=dict)
    """External groups trained on, by the first eight bytes of their publisher's key, in hex."""
    trained: Sequence[TrainedGroup] = ()
    """What the step made of each group of the training set; empty without a step."""
