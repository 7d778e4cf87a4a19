"""Two policies that answered the same questions: who is right more often, and how they differ.

All is told of A against B: A - B, and the share of answers that A wins. Answer k of A to a question
stands against answer k of B to it, which was sampled with the same random seed. Figures are means
over a question's answers, then over questions, then over tasks with equal weights; intervals count
questions (swarmnode.pass_rates). Pure; knows no process and no screen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from swarmnode.config.guard_rails import GuardRails
from swarmnode.evaluation import Answered
from swarmnode.guard_rails.baselines import Reading
from swarmnode.guard_rails.judgement import MEASURED, Measured, Verdict, beyond
from swarmnode.guard_rails.statistics import round_statistics
from swarmnode.pass_rates import Interval, Values, difference, interval, success_difference
from swarmnode.pass_rates import win_rate as win_rate_of
from swarmnode.types import Completion, Group, PolicyInfo, Scored

Answers = Mapping[str, Sequence[Answered]]
"""By task, questions in their fixed order."""

EMPTY = "empty"
"""The guard-rail that only a comparison has: the share of answers without a visible character."""
BY_TOKENS = frozenset({"length", "entropy", "distinct"})
"""Guard-rails that say nothing about policies with other tokens."""


class UnlikeAnswers(ValueError):
    """The two did not answer the same questions equally often."""


@dataclass(frozen=True, slots=True)
class Against:
    """One figure of both, and how much higher A's is."""

    a: Interval
    b: Interval
    difference: Interval


@dataclass(frozen=True, slots=True)
class Agreement:
    """Shares of pairs of answers by who was right; they sum to 1."""

    both: float
    only_a: float
    """A's wins."""
    only_b: float
    """A's losses."""
    neither: float

    @property
    def ties(self) -> float:
        """Both right, or both wrong."""
        return self.both + self.neither


@dataclass(frozen=True, slots=True)
class Part:
    """All figures of one task, or of the mean over tasks."""

    success: Against
    """Of the sampled answers."""
    greedy: Against
    win_rate: Interval
    """The share of pairs that A wins, ties counted half."""
    agreement: Agreement
    tokens: Against
    """Length of the sampled answers in each policy's own tokens, the end token included."""
    characters: Against


@dataclass(frozen=True, slots=True)
class Rail:
    """A guard-rail's figure of each; None where it has no meaning there."""

    a: float | None
    b: float | None
    verdict_a: Verdict = Verdict.NORMAL
    """What would be said of A had it been like B in its first rounds."""
    verdict_b: Verdict = Verdict.NORMAL


@dataclass(frozen=True, slots=True)
class Example:
    """A question that one of the two answers better, and an answer of each."""

    task: str
    question: str
    reference: str
    right_a: int
    """Right ones of A's `samples` answers."""
    right_b: int
    samples: int
    answer_a: str
    answer_b: str
    """Sampled with the same random seed; that of the better one is right, the other's wrong."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All figures."""

    mean: Part
    """Over tasks with equal weights."""
    tasks: Mapping[str, Part]
    rails: Mapping[str, Rail]
    same_tokenizer: bool
    better_a: Sequence[Example] = field(default=())
    """Questions that A answers better, the clearest first."""
    better_b: Sequence[Example] = field(default=())


def compare(
    a: Answers,
    b: Answers,
    infos: tuple[PolicyInfo, PolicyInfo],
    examples: int,
    limits: GuardRails | None = None,
) -> Comparison:
    """Compare what two policies said; so many examples of either kind.

    Raises UnlikeAnswers unless both answered the same questions, equally often.
    """
    _check_alike(a, b)
    same_tokenizer = infos[0].tokenizer_fingerprint == infos[1].tokenizer_fingerprint
    figures = rail_figures(a, infos[0]), rail_figures(b, infos[1])
    return Comparison(
        mean=_part(a, b),
        tasks={task: _part({task: a[task]}, {task: b[task]}) for task in a},
        rails=rails_of(*figures, limits or GuardRails(), same_tokenizer=same_tokenizer),
        same_tokenizer=same_tokenizer,
        better_a=examples_of(a, b, examples, a_is_better=True),
        better_b=examples_of(a, b, examples, a_is_better=False),
    )


def rail_figures(answers: Answers, info: PolicyInfo) -> dict[str, float]:
    """The guard-rails' figures over all sampled answers, as if they were those of a round."""
    rows = [each for some in answers.values() for each in some]
    scored = [
        Scored(
            Group(each.question, tuple(each.sampled), b"", info),
            tuple(map(float, each.marks)),
            "local",
            0.0,
        )
        for each in rows
    ]
    texts = [completion.text for each in rows for completion in each.sampled]
    empty = sum(not text.strip() for text in texts) / len(texts)
    return {**round_statistics(scored), EMPTY: empty}


def rails_of(
    a: Mapping[str, float], b: Mapping[str, float], limits: GuardRails, *, same_tokenizer: bool
) -> dict[str, Rail]:
    """Each figure of both, each judged with the other's for its start."""
    rails = {}
    for name in (*a, *(each for each in b if each not in a)):
        one, other = a.get(name), b.get(name)
        judged = one is not None and other is not None
        if not judged or (not same_tokenizer and name in BY_TOKENS):
            rails[name] = Rail(one, other)
            continue
        assert one is not None
        assert other is not None
        rails[name] = Rail(
            one, other, _verdict(name, one, other, limits), _verdict(name, other, one, limits)
        )
    return rails


def examples_of(a: Answers, b: Answers, count: int, *, a_is_better: bool) -> list[Example]:
    """The `count` questions that one of the two answers best in comparison, the clearest first."""
    found: list[tuple[int, Example]] = []
    for task in a:
        for one, other in zip(a[task], b[task], strict=True):
            better, worse = (one, other) if a_is_better else (other, one)
            ahead = better.marks.count("1") - worse.marks.count("1")
            pairs = zip(better.marks, worse.marks, strict=True)
            place = next((k for k, pair in enumerate(pairs) if pair == ("1", "0")), None)
            if ahead > 0 and place is not None:
                found.append((ahead, _example(one, other, place)))
    found.sort(key=lambda pair: -pair[0])
    return [example for _, example in found[:count]]


def _example(a: Answered, b: Answered, place: int) -> Example:
    return Example(
        task=a.question.task,
        question=a.question.text,
        reference=a.question.answer,
        right_a=a.marks.count("1"),
        right_b=b.marks.count("1"),
        samples=len(a.marks),
        answer_a=a.sampled[place].text,
        answer_b=b.sampled[place].text,
    )


def _verdict(name: str, figure: float, start: float, limits: GuardRails) -> Verdict:
    rail = name.partition("/")[0]
    # No answer is as useless as one that was cut off.
    measured: Measured = "above" if rail == EMPTY else MEASURED[rail]
    warn, critical = limits.truncated if rail == EMPTY else getattr(limits, rail)
    reading = Reading(figure, start, 0.0)
    if beyond(measured, reading, critical):
        return Verdict.CRITICAL
    return Verdict.WARN if beyond(measured, reading, warn) else Verdict.NORMAL


def _check_alike(a: Answers, b: Answers) -> None:
    """Raises UnlikeAnswers."""

    def asked(answers: Answers) -> list[tuple[str, str, int]]:
        return [
            (task, each.question.text, len(each.marks))
            for task, rows in answers.items()
            for each in rows
        ]

    if asked(a) != asked(b):
        raise UnlikeAnswers("the two did not answer the same questions equally often")


def _part(a: Answers, b: Answers) -> Part:
    success = success_difference(_shares(a), _shares(b))
    return Part(
        success=Against(interval(_shares(a)), interval(_shares(b)), success),
        greedy=_against(a, b, lambda row: float(row.greedy_mark), success_difference),
        win_rate=win_rate_of(success),
        agreement=_agreement(a, b),
        tokens=_against(a, b, _mean_over(lambda said: said.token_count), _less),
        characters=_against(a, b, _mean_over(lambda said: len(said.text)), _less),
    )


def _against(
    a: Answers,
    b: Answers,
    value: Callable[[Answered], float],
    less: Callable[[Values, Values], Interval],
) -> Against:
    one, other = _values(a, value), _values(b, value)
    return Against(interval(one), interval(other), less(one, other))


def _less(a: Values, b: Values) -> Interval:
    return difference(b, a)


def _agreement(a: Answers, b: Answers) -> Agreement:
    def share(mark_a: str, mark_b: str) -> float:
        return _mean(
            _mean(
                _mean(pair == (mark_a, mark_b) for pair in zip(one.marks, other.marks, strict=True))
                for one, other in zip(rows, b[task], strict=True)
            )
            for task, rows in a.items()
        )

    return Agreement(share("1", "1"), share("1", "0"), share("0", "1"), share("0", "0"))


def _shares(answers: Answers) -> Values:
    """The share of right answers to each question."""
    return _values(answers, lambda row: row.marks.count("1") / len(row.marks))


def _mean_over(measure: Callable[[Completion], float]) -> Callable[[Answered], float]:
    """A measure of a question's sampled answers."""
    return lambda row: _mean(measure(said) for said in row.sampled)


def _values(answers: Answers, value: Callable[[Answered], float]) -> Values:
    return {task: [value(row) for row in rows] for task, rows in answers.items()}


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known)
