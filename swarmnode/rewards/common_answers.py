"""The guard-rail "share of the commonest answers": is it a skill, or a verifier's loophole?

A loophole shows itself when right answers are nearly all the same few texts while the reference
answers of their questions vary. Pure, over the answers to one task's questions; knows no task and
trusts no verifier. The figure is relative to the questions that were answered rightly, so that
neither a small answer space nor a policy that solves only easy questions raises it: with one right
text a question it is exactly 0.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from swarmnode.rewards.extraction import extract_answer
from swarmnode.rewards.verifiers import GRID_BYTES
from swarmnode.types import SUCCESS_THRESHOLD, CommonAnswer, Completion, SampledAnswers, Scored

COMMON_TEXTS = 4
"""So many texts count as common: the loophole that was found in a trained swarm had four."""
MINIMUM_RIGHT = 24
"""Below so many right answers there is no figure: four texts are a sixth of 24 at the least."""
EXCESS_SEEN = 0.3
"""An excess from here on is a suspicion. In samples of 60 questions of propositional_logic:paper,
whose verifier takes nearly any entailed formula, weak disjunctions had 0.38 to 0.75 and copied
premises, right for most questions but different ones, -0.36 to 0.06."""
WINDOW = 64
"""Right answers that a node looks back on, by task."""
ANSWERS_PER_GROUP = 4
"""No more right answers of a group are kept: a window of few questions has few references, and
could not tell a loophole however many completions a group has."""
LISTED = 10
"""Commonest answers that an evaluation keeps, by task."""
TEXT_CHARACTERS = 80
_HASH_CHARACTERS = 16


class Observation(NamedTuple):
    """One answer to one question."""

    reference: str
    """The question's reference answer."""
    text: str
    """The answer out of the completion; empty if there is none."""
    success: bool


@dataclass(frozen=True, slots=True)
class Concentration:
    """How far a task's right answers are the same few texts."""

    share: float
    """Of the right answers, those with one of the four commonest right texts, in (0, 1]."""
    expected: float
    """Of the same answers' questions, those with one of the four commonest reference texts."""

    @property
    def excess(self) -> float:
        """What the questions do not explain, in (-1, 1)."""
        return self.share - self.expected

    @property
    def seen(self) -> bool:
        """Whether this looks like a loophole."""
        return self.excess >= EXCESS_SEEN


def observation(reference: str, completion: Completion, score: float) -> Observation:
    """A completion as the verifiers read it."""
    # No verifier takes a longer answer than a grid's, so that none of a success is lost.
    text = extract_answer(completion.text, GRID_BYTES) or ""
    return Observation(reference.strip(), text, score >= SUCCESS_THRESHOLD)


def tally(observations: Iterable[Observation]) -> SampledAnswers:
    """Count the answers of one task."""
    counts, right, references = Counter[str](), Counter[str](), Counter[str]()
    for reference, text, success in observations:
        label = shortened(text)
        counts[label] += 1
        if success:
            right[label] += 1
            references[shortened(reference)] += 1
    return SampledAnswers(_listed(counts, right), _ranked(right), _ranked(references))


def pooled(parts: Iterable[SampledAnswers]) -> SampledAnswers:
    """Several tallies of one task as one.

    Exact but for `commonest`, where a text is not counted for a part that does not list it.
    """
    counts, right, references = Counter[str](), Counter[str](), Counter[str]()
    listed_right = Counter[str]()
    for part in parts:
        right.update(part.right)
        references.update(part.references)
        for answer in part.commonest:
            counts[answer.text] += answer.count
            listed_right[answer.text] += answer.right
    return SampledAnswers(_listed(counts, listed_right), _ranked(right), _ranked(references))


def concentration(answers: SampledAnswers) -> Concentration | None:
    """The guard-rail's figures; None below MINIMUM_RIGHT right answers."""
    count = sum(answers.right.values())
    if count < MINIMUM_RIGHT:
        return None
    return Concentration(_common(answers.right) / count, _common(answers.references) / count)


def shortened(text: str) -> str:
    """Valid Unicode of at most TEXT_CHARACTERS; different for different texts.

    The end of a longer text is replaced by an ellipsis and a hash of the whole.
    """
    sound = text.encode("utf-8", "backslashreplace")
    text = sound.decode("utf-8")
    if len(text) <= TEXT_CHARACTERS:
        return text
    digest = hashlib.sha256(sound).hexdigest()[:_HASH_CHARACTERS]
    return f"{text[: TEXT_CHARACTERS - 1 - _HASH_CHARACTERS]}…{digest}"


class CommonAnswers:
    """Watches the right answers of one node's rounds, the last `window` of each task."""

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._right: defaultdict[str, deque[Observation]] = defaultdict(self._empty)

    def _empty(self) -> deque[Observation]:
        return deque(maxlen=self._window)

    def watch(self, groups: Sequence[Scored]) -> Mapping[str, float]:
        """Take in a round's own groups; returns metrics by task, for the names in docs/metrics.md.

        A task without enough right answers within its window has none.
        """
        for scored in groups:
            question = scored.group.question
            answers = (
                observation(question.answer, completion, score)
                for completion, score in zip(scored.group.completions, scored.scores, strict=True)
            )
            right = (answer for answer in answers if answer.success)
            self._right[question.task].extend(islice(right, ANSWERS_PER_GROUP))
        metrics: dict[str, float] = {}
        for task, observations in sorted(self._right.items()):
            found = concentration(tally(observations))
            if found is not None:
                metrics[f"answers/common_share/{task}"] = found.share
                metrics[f"answers/common_excess/{task}"] = found.excess
        return metrics


def _common(counts: Mapping[str, int]) -> int:
    return sum(sorted(counts.values(), reverse=True)[:COMMON_TEXTS])


def _ranked(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _listed(counts: Mapping[str, int], right: Mapping[str, int]) -> tuple[CommonAnswer, ...]:
    ranked = islice(_ranked(counts).items(), LISTED)
    return tuple(CommonAnswer(text, count, right.get(text, 0)) for text, count in ranked)
