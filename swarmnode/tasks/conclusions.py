"""Our propositional questions: facts, equivalences, and the four literals that they prove.

reasoning-gym pays full marks for any entailed formula that is no tautology, so a weak disjunction
or a premise answers most of its questions. Here the question asks for all literals that follow
from the statements together though none of them follows from a single one: each equivalence ties
a letter to the letter of a fact or to its negation. The four signs of the answer are drawn
independently, so that an answer which ignores facts, or equivalences, or both, is right once in
sixteen. Were the signs of the statements drawn independently as well, the number of negations
would tell about the answer; so it is drawn first, and idle facts make up for the difference.
Notation and the rule of what is right are those of swarmnode/logic.py.

Knows no reasoning-gym. Why it asks this: docs/decisions/0005.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from swarmnode.logic import AND, IFF, JOINT_LITERALS, NOT
from swarmnode.tasks.drafts import Draft

KNOWN = "ABCD"
UNKNOWN = "PQRS"
IDLE = "EF"
NEGATIONS = (4, 5, 6)
"""Negations in a question; each is possible for every answer."""


@dataclass(frozen=True, slots=True)
class JointConclusions:
    """The source of propositional_logic at level easy."""

    def draft(self, seed: int, index: int) -> Draft:
        """See DraftSource; never None."""
        random = Random(seed + index)
        signs = [random.random() < 0.5 for _ in UNKNOWN]
        negative_facts, negative_idle = _negations(random, signs)
        facts = [
            _literal(letter, place not in negative_facts) for place, letter in enumerate(KNOWN)
        ]
        for letter in IDLE:
            idle = _literal(letter, letter not in negative_idle)
            facts.insert(random.randrange(len(facts) + 1), idle)
        equivalences = []
        for place, (known, unknown) in enumerate(zip(KNOWN, UNKNOWN, strict=True)):
            sides = [known, _literal(unknown, signs[place] == (place not in negative_facts))]
            random.shuffle(sides)
            equivalences.append(f" {IFF} ".join(sides))
        premises = facts + equivalences
        return Draft(
            text=(
                f"Given: {'; '.join(premises)}. Which literals follow from these statements "
                "together, but from no single one?"
            ),
            answer=f" {AND} ".join(map(_literal, UNKNOWN, signs)),
            metadata={
                "rule": JOINT_LITERALS,
                "premises": premises,
                "variables": list(KNOWN + IDLE + UNKNOWN),
            },
        )


def _negations(random: Random, signs: Sequence[bool]) -> tuple[set[int], list[str]]:
    """The places of negative facts, and the negative ones of the idle letters.

    A negative answer costs one negation, in its fact or in its equivalence; a positive one none,
    or one in each.
    """
    negative = [place for place, sign in enumerate(signs) if not sign]
    positive = [place for place, sign in enumerate(signs) if sign]
    rest = random.choice(NEGATIONS) - len(negative)
    counts = [(rest - idle) // 2 for idle in range(len(IDLE) + 1) if (rest - idle) % 2 == 0]
    doubled = random.choice([count for count in counts if 0 <= count <= len(positive)])
    facts = {place for place in negative if random.random() < 0.5}
    facts.update(random.sample(positive, doubled))
    return facts, random.sample(IDLE, rest - 2 * doubled)


def _literal(letter: str, sign: bool) -> str:
    return letter if sign else NOT + letter
