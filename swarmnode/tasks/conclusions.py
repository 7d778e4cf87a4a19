"""Our propositional questions: four facts, four equivalences, and the four literals they prove.

reasoning-gym pays full marks for any entailed formula that is no tautology, so a weak disjunction
or a premise answers most of its questions. Here the question asks for all literals that follow
from the statements together though none of them follows from a single one: each equivalence ties
a letter to the letter of a fact or to its negation. Signs are drawn independently, so that an
answer which ignores facts, or equivalences, or both, is right once in sixteen. Notation and the
rule of what is right are those of swarmnode/logic.py.

Knows no reasoning-gym. Source: simulation.md section 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from swarmnode.logic import AND, IFF, JOINT_LITERALS, NOT
from swarmnode.tasks.drafts import Draft

KNOWN = "ABCD"
UNKNOWN = "PQRS"


@dataclass(frozen=True, slots=True)
class JointConclusions:
    """The source of propositional_logic at level easy."""

    def draft(self, seed: int, index: int) -> Draft:
        """See DraftSource; never None."""
        random = Random(seed + index)
        facts, equivalences, conclusions = [], [], []
        for known, unknown in zip(KNOWN, UNKNOWN, strict=True):
            fact_holds, alike = random.random() < 0.5, random.random() < 0.5
            sides = [known, _literal(unknown, alike)]
            if random.random() < 0.5:
                sides.reverse()
            facts.append(_literal(known, fact_holds))
            equivalences.append(f" {IFF} ".join(sides))
            conclusions.append(_literal(unknown, fact_holds == alike))
        premises = facts + equivalences
        return Draft(
            text=(
                f"Given: {'; '.join(premises)}. Which literals follow from these statements "
                "together, but from no single one?"
            ),
            answer=f" {AND} ".join(conclusions),
            metadata={
                "rule": JOINT_LITERALS,
                "premises": premises,
                "variables": list(KNOWN + UNKNOWN),
            },
        )


def _literal(letter: str, sign: bool) -> str:
    return letter if sign else NOT + letter
