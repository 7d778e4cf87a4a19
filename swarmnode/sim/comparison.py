"""Variants against each other: held-out success at the end, paired. Pure.

Runs of one seed have the same weights, warm starts, skills, keys and held-out questions, whatever
the variant, so that their differences vary less than they do. Local reward is not compared: it is
about the questions that a variant chose to ask.
"""

from __future__ import annotations

from collections.abc import Sequence

from swarmnode.sim.intervals import Estimate, Figure, estimate
from swarmnode.sim.summary import Variant


def paired_seeds(variant: Variant, other: Variant) -> Sequence[int]:
    """The seeds that both have an evaluation at the end of, after as many rounds."""
    if variant.rounds != other.rounds:
        return []
    return [seed for seed in variant.held_out_ends if seed in other.held_out_ends]


def difference(variant: Variant, other: Variant) -> Estimate:
    """Held-out success of the last evaluation, less that of another variant.

    Over their seeds by Student's t of the differences; of a single seed by a bootstrap that draws
    its nodes, each with its counterpart. NaN where nothing can be paired.
    """
    return estimate(
        [
            Figure(one.nodes, one.table, two.table)
            for seed in paired_seeds(variant, other)
            for one, two in [(variant.held_out_ends[seed], other.held_out_ends[seed])]
        ]
    )


def leads(best: Variant, others: Sequence[Variant]) -> bool:
    """Whether a variant is ahead of each other one by more than chance over seeds explains."""
    found = [difference(best, each) for each in others]
    return all(each.over == "seeds" and each.low > 0.0 for each in found)
