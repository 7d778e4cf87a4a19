"""The daemon's half of the scorer: questions and scores by request, never by importing a task.

Knows the child only as a `Child`; knows no task, no level and no answer's meaning. Whatever the
texts do, every group gets a verdict, and a text that hangs or kills the worker costs its own
group alone. What a worker says that has seen a stranger's text is checked before it is believed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from swarmnode.config.rewards import Rewards
from swarmnode.process import Child, WorkKilled
from swarmnode.types import Group, Question

FromWorker = Literal["unknown_task", "question_differs", "held_out", "unscorable"]
Rejection = Literal[FromWorker, "scorer_killed", "scorer_slow", "scorer_budget"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What our own verifier says of a group."""

    scores: tuple[float, ...]
    """One score in [0, 1] per completion; all 0 under a rejection, 0 for a truncated one."""
    rejection: Rejection | None = None
    """Why the group as a whole cannot be scored: its level is not known here, its question is not
    the one that its stream gives, it is (or, for an evaluation, is not) held out, its verifier
    failed, or its text hung or killed the scorer: `scorer_killed` where the same question with
    right answers in place of that text is scored in time, else `scorer_slow`, which is nobody's
    fault. `scorer_budget`: the seconds that it might take were spent on groups before it."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Verdicts of the groups of peers, and what they cost."""

    verdicts: Sequence[Verdict]
    seconds: float
    """Of the scorer: CPU seconds for what was answered, elapsed ones for what was killed."""


class Scorer:
    """Asks the scorer process. Calls raise ChildError when the process itself is lost.

    `trusting` lets all authors share the worker that does our own work: for a simulation, whose
    authors are all its own, since a worker for each request takes longer to fork than to score.
    """

    def __init__(self, child: Child, settings: Rewards, *, trusting: bool = False) -> None:
        self._child = child
        self._settings = settings
        self._trusting = trusting

    async def draw(
        self, public_key: bytes, task: str, level: str, start: int, count: int
    ) -> tuple[list[Question], int]:
        """The next `count` questions of a key's stream from index `start`, and the next index.

        Raises ChildFailed for an unknown task or level; the message names the remedy.
        """
        questions, next_index = await self._ask("draw", [public_key, task, level, start, count])
        return [Question(*fields) for fields in questions], next_index

    async def held_out(self, task: str, level: str, count: int) -> list[Question]:
        """The first `count` questions of the fixed evaluation set; raises as `draw` does."""
        return [Question(*fields) for fields in await self._ask("held_out", [task, level, count])]

    async def warm_start_pairs(
        self, task: str, level: str, seed: int, count: int
    ) -> list[tuple[str, str]]:
        """Question and answer texts for supervised learning; raises as `draw` does."""
        pairs = await self._ask("warm_start_pairs", [task, level, seed, count])
        return [(question, answer) for question, answer in pairs]

    async def fingerprints(self, levels: Sequence[tuple[str, str]]) -> list[bytes]:
        """The fingerprint of each (task, level); raises as `draw` does."""
        fingerprints: list[bytes] = await self._ask("fingerprints", [list(pair) for pair in levels])
        return fingerprints

    async def score(
        self, groups: Sequence[Group], *, expect_held_out: bool = False
    ) -> list[Verdict]:
        """A verdict for each of our own groups, in order.

        `expect_held_out` says whether these answer evaluation questions; others are rejected then,
        and held-out ones otherwise.
        """
        batch = _Batch(self._child, self._settings, expect_held_out=expect_held_out)
        return await batch.score(groups)

    async def score_external(self, groups: Sequence[Group], seconds: float = math.inf) -> Judged:
        """A verdict for each group of peers, in order, for `seconds` of the scorer at most.

        The groups of an author are scored together, by a worker that sees nothing else. Of
        the seconds one request may take more than is left; nothing is asked when none are.
        """
        verdicts: dict[int, Verdict] = {}
        spent = 0.0
        for author in dict.fromkeys(group.publisher for group in groups):
            places = [place for place, group in enumerate(groups) if group.publisher == author]
            batch = _Batch(
                self._child, self._settings, apart=not self._trusting, seconds=seconds - spent
            )
            judged = await batch.score([groups[place] for place in places])
            verdicts.update(zip(places, judged, strict=True))
            spent += batch.spent
        return Judged([verdicts[place] for place in range(len(groups))], spent)

    async def _ask(self, method: str, payload: object) -> Any:
        settings = self._settings
        return await self._child.call(
            method, payload, settings.start_seconds + settings.draw_seconds, settings.draw_seconds
        )


class _Batch:
    """Groups of one author on their way through the scorer, with what they cost."""

    def __init__(
        self,
        child: Child,
        settings: Rewards,
        *,
        apart: bool = False,
        expect_held_out: bool = False,
        seconds: float = math.inf,
    ) -> None:
        self._child = child
        self._settings = settings
        self._apart = apart
        self._expect_held_out = expect_held_out
        self._seconds = seconds
        self.spent = 0.0

    async def score(self, groups: Sequence[Group]) -> list[Verdict]:
        """A verdict for each, in order."""
        verdicts: list[Verdict] = []
        for start in range(0, len(groups), self._settings.groups_per_request):
            verdicts += await self._together(
                groups[start : start + self._settings.groups_per_request]
            )
        return verdicts

    async def _together(self, groups: Sequence[Group]) -> list[Verdict]:
        """Score in one request; where a group ends the worker, those before and after it again."""
        if self.spent >= self._seconds:
            return [_zeros(group, "scorer_budget") for group in groups]
        try:
            return await self._ask([self._item(group) for group in groups], groups)
        except WorkKilled as killed:
            at = killed.reached if killed.reached < len(groups) else 0
            culprit = await self._culprit(groups[at], killed)
        before = await self._together(groups[:at]) if at else []
        after = await self._together(groups[at + 1 :]) if at + 1 < len(groups) else []
        return [*before, culprit, *after]

    async def _culprit(self, group: Group, killed: WorkKilled) -> Verdict:
        """The verdict of the group at which the worker ended, for that reason."""
        if killed.cause != "cpu":
            # The time or the memory may have been spent on the groups before it.
            try:
                return (await self._ask([self._item(group)], [group], alone=True))[0]
            except WorkKilled:
                pass
        try:
            await self._ask([self._item(group, right_answers=True)], [group], alone=True)
        except WorkKilled:
            return _zeros(group, "scorer_slow")
        return _zeros(group, "scorer_killed")

    async def _ask(
        self, items: list[object], groups: Sequence[Group], *, alone: bool = False
    ) -> list[Verdict]:
        settings = self._settings
        seconds = settings.group_seconds if alone else settings.request_seconds
        timeout = settings.start_seconds + seconds
        try:
            worked = await self._child.work("score", items, timeout, seconds, apart=self._apart)
        except WorkKilled as killed:
            self.spent += killed.seconds
            raise
        self.spent += worked.seconds
        if (verdicts := verdicts_in(worked.value, groups)) is None:
            raise WorkKilled("scorer: no verdicts", "garbled", 0, 0.0)
        return verdicts

    def _item(self, group: Group, *, right_answers: bool = False) -> object:
        """A group as the scorer takes it: the publisher's answer stays behind.

        A text of None stands for the answer that the scorer itself finds right.
        """
        question = group.question
        completions = [
            [None if right_answers else completion.text, completion.finish_reason]
            for completion in group.completions
        ]
        return [
            group.publisher,
            question.task,
            question.level,
            question.index,
            question.text,
            self._expect_held_out,
            completions,
        ]


def verdicts_in(answer: object, groups: Sequence[Group]) -> list[Verdict] | None:
    """The verdicts that a worker's answer gives for these groups; None where it is no such."""
    if not isinstance(answer, list) or len(answer) != len(groups):
        return None
    verdicts: list[Verdict] = []
    for each, group in zip(answer, groups, strict=True):
        if not isinstance(each, list) or len(each) != 2 or not isinstance(each[0], list):
            return None
        scores, rejection = each
        fits = len(scores) == len(group.completions) and all(map(_is_score, scores))
        if not fits or not (rejection is None or rejection in get_args(FromWorker)):
            return None
        verdicts.append(Verdict(tuple(scores), rejection))
    return verdicts


def _is_score(value: object) -> bool:
    return isinstance(value, float) and 0.0 <= value <= 1.0


def _zeros(group: Group, rejection: Rejection) -> Verdict:
    return Verdict((0.0,) * len(group.completions), rejection)
