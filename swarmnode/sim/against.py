"""What is said of variants against the first of them, in a terminal and on a page. Pure text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from swarmnode.observe.words import counted
from swarmnode.sim.comparison import difference, paired_seeds
from swarmnode.sim.summary import Variant
from swarmnode.sim.words import change

NOT_LOCAL = (
    "Schedulers are compared on held-out success alone: whoever asks easy questions raises local "
    "reward by that, and has learned nothing."
)


def about_schedulers(compared: str) -> bool:
    """Whether variants that differ in this differ in what they choose to ask."""
    return compared.startswith("scheduling.")


def against_first(variants: Sequence[Variant], compared: str) -> Sequence[str]:
    """A line for each further variant: its held-out success at the end against the first's."""
    lines = [_against(variant, variants[0]) for variant in variants[1:]]
    return [*lines, NOT_LOCAL] if lines and about_schedulers(compared) else lines


def _against(variant: Variant, first: Variant) -> str:
    found = difference(variant, first)
    if math.isnan(found.mean):
        return f"{variant.name} and {first.name} have no seed in common that both have ended."
    said = f"{variant.name} against {first.name}, held-out at the end: {change(found.mean)}"
    if math.isnan(found.low):
        return f"{said}; too few for an interval."
    seeds = counted(len(paired_seeds(variant, first)), "seed")
    over = seeds if found.over == "seeds" else "the nodes of one seed"
    return f"{said} ({change(found.low)} to {change(found.high)}, paired over {over})."


def about_pairs(compared: str) -> str:
    """What the comparison is about, and what it is not."""
    said = (
        "Success on unseen questions in the last evaluation, in which all variants are asked the "
        "same, with equal weights of all tasks. Runs of one seed share weights, warm starts, "
        "skills and questions, so that they are compared pair by pair. Each interval is about its "
        "own difference: of twenty that mean nothing, one is expected to leave out 0."
    )
    if not about_schedulers(compared):
        return said
    return (
        f"{said} {NOT_LOCAL} Local and training-set reward, above, are of questions that each "
        "scheduler drew by its own shares."
    )
