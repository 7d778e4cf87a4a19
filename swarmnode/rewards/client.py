"""The daemon's half of the scorer: questions and scores by request, never by importing a task.

Knows the child only as a `Child`; knows no task, no level and no answer's meaning. Whatever the
texts do, `score` answers for every group, and a text that hangs or kills the worker costs its own
group alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from swarmnode.config.rewards import Rewards
from swarmnode.process import Child, WorkKilled
from swarmnode.types import Group, Question

Rejection = Literal[
    "unknown_task", "question_differs", "held_out", "unscorable", "scorer_killed", "scorer_slow"
]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What our own verifier says of a group."""

    scores: tuple[float, ...]
    """One score in [0, 1] per completion; all 0 under a rejection, 0 for a truncated one."""
    rejection: Rejection | None = None
    """Why the group as a whole cannot be scored: its level is not known here, its question is not
    the one that its stream gives, it is (or, for an evaluation, is not) held out, its verifier
    failed, or its text hung or killed the scorer: `scorer_killed` where the same question without
    that text is scored in time, else `scorer_slow`, which is nobody's fault."""


class Scorer:
    """Asks the scorer process. Calls raise ChildError when the process itself is lost."""

    def __init__(self, child: Child, settings: Rewards) -> None:
        self._child = child
        self._settings = settings

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
        """A verdict for each group, in order.

        `expect_held_out` says whether these answer evaluation questions; others are rejected then,
        and held-out ones otherwise.
        """
        verdicts: list[Verdict] = []
        for start in range(0, len(groups), self._settings.groups_per_request):
            some = groups[start : start + self._settings.groups_per_request]
            verdicts += await self._score_request(some, expect_held_out)
        return verdicts

    async def _score_request(self, groups: Sequence[Group], expect_held_out: bool) -> list[Verdict]:
        settings = self._settings
        try:
            return await self._score_together(groups, expect_held_out, settings.request_seconds)
        except WorkKilled:
            # One by one: halving would let the culprit hang once more in each half that holds it.
            return [await self._score_alone(group, expect_held_out) for group in groups]

    async def _score_alone(self, group: Group, expect_held_out: bool) -> Verdict:
        seconds = self._settings.group_seconds
        try:
            return (await self._score_together([group], expect_held_out, seconds))[0]
        except WorkKilled:
            pass
        nothing = (0.0,) * len(group.completions)
        silent = [replace(completion, text="") for completion in group.completions]
        try:
            without = replace(group, completions=tuple(silent))
            await self._score_together([without], expect_held_out, seconds)
        except WorkKilled:
            # The question, or this machine, is too slow: no text is to blame.
            return Verdict(nothing, "scorer_slow")
        return Verdict(nothing, "scorer_killed")

    async def _score_together(
        self, groups: Sequence[Group], expect_held_out: bool, seconds: float
    ) -> list[Verdict]:
        items = [_item(group, expect_held_out) for group in groups]
        answers = await self._ask("score", items, seconds)
        return [Verdict(tuple(scores), rejection) for scores, rejection in answers]

    async def _ask(self, method: str, payload: object, seconds: float | None = None) -> Any:
        seconds = seconds or self._settings.draw_seconds
        return await self._child.call(
            method, payload, self._settings.start_seconds + seconds, seconds
        )


def _item(group: Group, expect_held_out: bool) -> list[object]:
    """A group as the scorer takes it: the publisher's answer stays behind."""
    question = group.question
    completions = [[completion.text, completion.finish_reason] for completion in group.completions]
    return [
        group.publisher,
        question.task,
        question.level,
        question.index,
        question.text,
        expect_held_out,
        completions,
    ]
