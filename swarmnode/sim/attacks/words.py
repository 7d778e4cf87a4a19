"""What a report says of an attack, for somebody who knows nothing of it. Pure text."""

from __future__ import annotations

from collections.abc import Mapping

from swarmnode.config.settings import Settings
from swarmnode.config.simulation import AttackName
from swarmnode.sim.attacks.forging import FALSE_ANSWER, FALSE_STEP, WEAK_ANSWER
from swarmnode.sim.attacks.seen import Seen

ATTACKS: Mapping[AttackName, str] = {
    "out-of-context": "a line break before right answers, which belongs nowhere and costs nothing",
    "false-steps": f"right answers behind a false step, “{FALSE_STEP}”",
    "long-answers": "right answers, as long as is allowed",
    "loophole": f"“{WEAK_ANSWER}”, which a gameable verifier pays, to every question",
    "false-truth": f"false questions and reference answers, and “{FALSE_ANSWER}” as the answer",
    "withheld-failures": "right answers alone, while announcing failures among them",
    "copying": "the groups of others as their own",
    "free-riding": "nothing; they only take",
    "sybil": "a line break before right answers, under many keys behind one address prefix",
    "slow": "right answers, which they send as late as they may",
    "eclipse": "a line break before right answers, and hide what honest nodes announce",
}
"""What attackers publish, by attack."""

SAYINGS = {
    "mark": "A line break before the answer",
    "false_step": f"“{FALSE_STEP}”",
    "false_answer": f"“{FALSE_ANSWER}”",
    "weak_answer": f"“{WEAK_ANSWER}”",
}
"""What is said under the names of swarmnode.sim.attacks.measures.said."""

_WANTED: Mapping[AttackName, str] = {
    "out-of-context": "mark",
    "sybil": "mark",
    "eclipse": "mark",
    "false-steps": "false_step",
    "false-truth": "false_answer",
    "loophole": "weak_answer",
}


def announced(settings: Settings) -> str:
    """Which attack is run, by how many, and whose figures are shown; empty for none."""
    simulation = settings.simulation
    if simulation.attack == "none":
        return ""
    count = simulation.attackers
    who = f"{count} attacker{'' if count == 1 else 's'}" if count else "no attacker"
    return (
        f"Attack {simulation.attack}: {who} beside {simulation.nodes} honest nodes. What attackers "
        f"publish: {ATTACKS[simulation.attack]}. All figures are those of the honest nodes."
    )


def told(attack: AttackName, seen: Seen) -> str:
    """What was seen of it."""
    honest = seen.external_groups - seen.groups
    first, last = seen.answer_tokens
    sentences = [
        f"Of attackers were {seen.groups:.2f} groups a round that honest nodes trained on, and "
        f"{_percent(seen.tokens)} of all tokens that they trained on; of other honest nodes "
        f"{honest:.2f} groups.",
        *_saying(attack, seen),
        f"Answers to unseen questions were {first:.1f} tokens long at the start, {last:.1f} at the "
        "end.",
    ]
    return " ".join(sentences)


def _saying(attack: AttackName, seen: Seen) -> list[str]:
    wanted = _WANTED.get(attack, "")
    if wanted not in seen.said:
        return []
    start, end = seen.said[wanted]
    return [
        f"{SAYINGS[wanted]}: in {_percent(start)} of the answers to unseen questions at the start, "
        f"in {_percent(end)} at the end."
    ]


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", "\u00a0%")
