"""Our propositional questions: two facts, six implications, and the two letters they prove.

reasoning-gym pays full marks for any entailed formula that is no tautology, so a weak disjunction
or a premise answers most of its questions. Here the question asks for the two letters that follow
from the statements together though neither follows from a single one. Each fact is the condition
of one implication and so proves its consequence; four implications are idle. Letters and orders
are drawn per question, and every letter of an implication occurs in no other, so that neither a
fixed text nor letters copied from two places are right often: who takes the consequences of any
two implications is right once in fifteen. Notation and the rule of what is right are those of
swarmnode/logic.py.

Knows no reasoning-gym. Source: simulation.md section 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from swarmnode.logic import AND, IMPLIES, JOINT_LITERALS
from swarmnode.tasks.drafts import Draft

LETTERS = "KLMNOPQRSTUVWXYZ"
IDLE_IMPLICATIONS = 4


@dataclass(frozen=True, slots=True)
class JointConclusions:
    """The source of propositional_logic at level easy."""

    def draft(self, seed: int, index: int) -> Draft:
        """See DraftSource; never None."""
        random = Random(seed + index)
        letters = random.sample(LETTERS, 4 + 2 * IDLE_IMPLICATIONS)
        facts, proven, idle = letters[:2], letters[2:4], letters[4:]
        pairs = [*zip(facts, proven, strict=True), *zip(idle[::2], idle[1::2], strict=True)]
        random.shuffle(pairs)
        premises = [*facts, *(f"{one} {IMPLIES} {other}" for one, other in pairs)]
        return Draft(
            text=_question(premises),
            answer=f"{proven[0]} {AND} {proven[1]}",
            metadata={
                "rule": JOINT_LITERALS,
                "premises": premises,
                "variables": sorted(letters),
            },
        )


def _question(premises: list[str]) -> str:
    return (
        f"Given: {'; '.join(premises)}. "
        "Which two letters follow from these statements together, but from no single one?"
    )
