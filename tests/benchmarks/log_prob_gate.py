"""`make bench NAME=log_prob_gate`: what the log-prob gate takes for unlikely, honest or hostile.

A receiver, a specialist of `tiny` as nodes of the default swarm begin with, is calibrated on its
own answers and then looks at successes of others: specialists of the same base, a `tiny` with other
random starting weights, a larger one, smollm2-135m, and texts of the attack lab. All goes the way
that a round takes it: the peers' policies answer, the scorer judges, the receiver's host measures.
Nothing is trained. Prints the table of docs/results/log-prob-gate.md.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from swarmnode.asking import QuestionStreams
from swarmnode.children import policy_child, scoring_child
from swarmnode.clock import SystemClock
from swarmnode.config.policy import TinySettings
from swarmnode.config.settings import Settings, load_settings
from swarmnode.paths import cache_folder
from swarmnode.policies import Making, base_pairs, policy_order
from swarmnode.policy.client import REAL_TIME, RemotePolicy
from swarmnode.process import Child
from swarmnode.rewards.channels import rewards
from swarmnode.rewards.client import Scorer
from swarmnode.sim.attacks.forging import (
    FALSE_STEP,
    answered,
    behind_right_answers,
    long_answers,
)
from swarmnode.types import Group, Question, Scored

MARK = "Eve:"
OWN_QUESTIONS = 225
"""25 of each of the nine tasks: with 8 answers each as many as the gate remembers."""
PEER_QUESTIONS = 108
SMOLLM2_QUESTIONS = 45
COMPLETIONS = 8
SKILLS = ("base_conversion", "basic_arithmetic")
OTHER_SKILLS = ("fraction_simplification", "binary_matrix")
SETTINGS = (
    # With the 20 that `tiny` has by default there is no room for a text before an answer.
    "policy.max_new_tokens=40",
    "training.learning_rate=1e-12",
    "training.warmup_steps=0",
)


USUAL = TinySettings()
LARGER = TinySettings(width=96, layers=3, heads=6, feed_forward_width=288)


@dataclass(frozen=True, slots=True)
class Source:
    """Whose answers are looked at."""

    name: str
    model: str = "tiny"
    shared_seed: int = 0
    skills: Sequence[str] = ()
    tiny: TinySettings = USUAL
    questions: int = PEER_QUESTIONS


RECEIVER = Source("the receiver itself, new answers", skills=SKILLS)
SOURCES = (
    Source("`tiny`, same base, same skills", skills=SKILLS),
    Source("`tiny`, same base, other skills", skills=OTHER_SKILLS),
    Source("`tiny`, other random start", shared_seed=1, skills=OTHER_SKILLS),
    Source("`tiny`, three layers of width 96", shared_seed=2, skills=OTHER_SKILLS, tiny=LARGER),
    Source("`smollm2-135m`", model="smollm2-135m", questions=SMOLLM2_QUESTIONS),
)
ATTACKS: Sequence[tuple[str, Callable[[Scored], Scored]]] = (
    ("right answers and nothing else", lambda scored: scored),
    (f"`{MARK}` before right answers", partial(behind_right_answers, text=MARK)),
    (f"`{FALSE_STEP}` before right answers", partial(behind_right_answers, text=FALSE_STEP)),
    ("right answers, padded to 40 tokens", partial(long_answers, tokens=40)),
)


class Bench:
    """The children, and what is asked of them."""

    def __init__(self, host: Child, scoring: Child, settings: Settings) -> None:
        self._host = host
        self._settings = settings
        self._scorer = Scorer(scoring, settings.rewards)
        self._made = 0

    async def policy(self, source: Source) -> RemotePolicy:
        """A policy as it is before its first round."""
        self._made += 1
        settings = self._settings.model_copy(
            update={"policy": self._settings.policy.model_copy(update={"tiny": source.tiny})}
        )
        tiny = source.model == "tiny"
        base = await base_pairs(settings, self._scorer, source.shared_seed) if tiny else []
        making = Making(
            model=source.model,
            skills=source.skills,
            seed=self._made,
            sampling_seed=self._made,
            shared_seed=source.shared_seed,
            stream=self._made,
            cache=cache_folder(os.environ) / "warm-starts",
        )
        policy = RemotePolicy(
            self._host,
            self._made,
            publisher=_key(self._made),
            clock=SystemClock(),
            durations=REAL_TIME,
            rewards=partial(rewards, partial_credit=False),
        )
        await policy.create(await policy_order(settings, self._scorer, making, base))
        return policy

    async def questions(self, key: bytes, count: int) -> Sequence[Question]:
        """As many of each task as of any other."""
        levels = dict(self._settings.tasks.pairs)
        streams = QuestionStreams(
            scorer=self._scorer,
            public_key=key,
            levels=levels,
            clock=SystemClock(),
            seconds=lambda: 0.0,
            rng=random.Random(0),
        )
        drawn: list[Question] = []
        for task in levels:
            drawn += await streams.draw({task: 1.0}, count // len(levels))
        return drawn

    async def scored(self, groups: Sequence[Group], *, own: bool) -> Sequence[Scored]:
        """What our verifiers say of them."""
        verdicts = await self._scorer.score(groups)
        return [
            Scored(group, verdict.scores, "local" if own else "external", 0.0)
            for group, verdict in zip(groups, verdicts, strict=True)
            if verdict.rejection is None
        ]

    async def answers(self, policy: RemotePolicy, source: Source, *, own: bool) -> Sequence[Scored]:
        """A policy's own groups."""
        asked = await self.questions(_key(self._made), source.questions)
        groups: list[Group] = []
        for start in range(0, len(asked), 9):
            groups += await policy.generate(asked[start : start + 9], COMPLETIONS)
        return await self.scored(groups, own=own)

    async def forged(self, change: Callable[[Scored], Scored]) -> Sequence[Scored]:
        """An attacker's groups."""
        key = _key(1000)
        asked = await self.questions(key, PEER_QUESTIONS)
        groups = [change(answered(each, COMPLETIONS, key)).group for each in asked]
        return await self.scored(groups, own=False)


def _key(number: int) -> bytes:
    return hashlib.sha256(b"log-prob gate %d" % number).digest()


async def _row(name: str, receiver: RemotePolicy, found: Sequence[Scored]) -> str:
    metrics = (await receiver.train([], [each for each in found if each.live])).metrics
    families = ("same_tokenizer", "other_tokenizer")
    measured, over = (
        sum(metrics.get(f"log_prob_gate/{kind}/{family}", 0.0) for family in families)
        for kind in ("measured", "over")
    )
    return _line(name, int(measured), int(over))


def _line(name: str, measured: int, over: int) -> str:
    share = f"{100 * over / measured:.1f} %" if measured else "—"
    return f"| {name} | {measured} | {over} | {share} |"


async def _measure(host: Child, scoring: Child, settings: Settings) -> None:
    bench = Bench(host, scoring, settings)
    receiver = await bench.policy(RECEIVER)
    own = Source(RECEIVER.name, skills=SKILLS, questions=OWN_QUESTIONS)
    await receiver.train(await bench.answers(receiver, own, own=True))
    print("| whose completions | successes in live groups | past the limit | share |")
    print("| --- | --- | --- | --- |")
    metrics = (await receiver.train(await bench.answers(receiver, own, own=True))).metrics
    print(
        _line(
            f"{own.name} (all)",
            int(metrics["log_prob_gate/measured/own"]),
            int(metrics["log_prob_gate/over/own"]),
        )
    )
    for name, change in ATTACKS:
        print(await _row(name, receiver, await bench.forged(change)), flush=True)
    for source in SOURCES:
        policy = await bench.policy(source)
        found = await bench.answers(policy, source, own=False)
        print(await _row(source.name, receiver, found), flush=True)


def main() -> None:
    """Measure and print."""
    settings = load_settings(assignments=[*SETTINGS, *sys.argv[1:]])
    scoring, host = scoring_child(settings, bytes(32)), policy_child(os.environ, "policy host")
    for child in (scoring, host):
        child.start()
    try:
        asyncio.run(_measure(host, scoring, settings))
    finally:
        host.close_now()
        scoring.close_now()


if __name__ == "__main__":
    main()
