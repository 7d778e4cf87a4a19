"""What a study found, in sentences for somebody who sees a swarm for the first time. Pure text.

Claims no more than the intervals allow, and says what an interval is over. Knows no HTML.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swarmnode import __version__
from swarmnode.config.settings import Settings
from swarmnode.observe.words import counted
from swarmnode.rewards.common_answers import concentration
from swarmnode.sim.comparison import leads
from swarmnode.sim.smoothing import smoothing_width
from swarmnode.sim.summary import Variant
from swarmnode.types import SampledAnswers

REASONS = {
    "wire": "bytes of another kind were delivered, or too many or too few of them",
    "signature": "a key or a signature was wrong",
    "schema": "what the node had signed did not follow the specification",
    "unknown_version": "it spoke another version of the protocol",
    "foreign_swarm": "it belonged to another swarm",
    "muted": "the node is not listened to for a while, after what it sent before",
    "expired": "the announcement was past its expiry",
    "from_the_future": "the announcement claimed to be made in the future",
    "swarm_rules": "it broke the rules that the swarm agreed on, such as answers to a question",
    "nothing_wanted": "the announcement offered nothing to learn from: groups of other tasks, or "
    "with all answers wrong or all right",
    "too_large": "more bytes were announced than can be",
    "over_budget": "more was on offer than is fetched at a time",
    "unreachable": "the holder did not answer, or the message was lost",
    "missing": "the holder no longer had what was asked for",
    "busy": "the holder was busy, or too slow to be waited for",
    "unasked": "the holder sent more than it had been asked for",
    "hash": "the holder sent something else than it had been asked for",
    "bundle_differs": "what came was not what the node had announced",
    "stale_sequence": "something newer of the same node was already known",
    "equivocation": "the node had signed two different things under one number",
    "unknown_task": "the group's task is not one that is trained on here",
    "unknown_fingerprint": "the sender's task makes other questions under the same name",
    "too_long": "an answer was longer than the limit",
    "group_repeated": "the node had already answered that question",
    "question_differs": "making the question again gave another text",
    "held_out": "the question belongs to the held-out ones",
    "unscorable": "the question cannot be scored",
    "scorer_killed": "scoring it took too long or too much memory and was ended",
    "scorer_slow": "scoring took too long, whatever the text",
    "scorer_budget": "scoring for the addresses it comes from had taken its share of time",
}
"""The reasons of swarmnode.selection.admission, in plain words."""


@dataclass(frozen=True, slots=True)
class Study:
    """What the page tells of."""

    variants: Sequence[Variant]
    settings: Settings
    complete: bool
    command: str
    baselines: Mapping[str, float | None]
    compared: str = "mix"
    """What the variants differ in: the mix, or the name of a setting."""


def answer(variants: Sequence[Variant]) -> str:
    """What came out, in a line.

    Of several variants it tells every gain, and names a best one only where several seeds were run
    and the interval of its paired difference from each other one lies above 0.
    """
    if not variants:
        return "No round has ended, so there is nothing to tell yet"
    if len(variants) == 1:
        return verdict(variants[0])
    known = [each for each in variants if not math.isnan(each.held_out_gain.mean)]
    if not known:
        return "Held-out success was measured only at the start"
    ranked = sorted(known, key=lambda variant: variant.held_out_gain.mean, reverse=True)
    gains = ", ".join(f"{each.name} {change(each.held_out_gain.mean)}" for each in ranked)
    best, others = ranked[0], ranked[1:]
    seeds = min(len(each.seeds) for each in variants)
    if seeds > 1 and leads(best, others) and len(known) == len(variants):
        return f"{best.name} gained most held-out success: {gains}"
    why = "the first is not clearly ahead of all others" if seeds > 1 else "one seed"
    return f"Held-out success: {gains}; {why}, so this does not tell which is best"


def change(gain: float) -> str:
    """With its sign, and three digits."""
    return f"{gain:+.3f}".replace("-", "−")


def verdict(variant: Variant) -> str:
    """How held-out success changed in one variant, no more certain than its interval."""
    gain = variant.held_out_gain
    digits = 2 if abs(gain.mean) >= 0.05 else 3
    start = f"{variant.start['held_out'].mean:.{digits}f}"
    end = f"{variant.end['held_out'].mean:.{digits}f}"
    if math.isnan(gain.mean):
        return f"Held-out success was {start} at the start and was not measured again"
    change = f"{gain.mean:+.{digits}f}".replace("-", "−")
    if math.isnan(gain.low):
        return f"Held-out success went from {start} to {end} ({change}; too few for an interval)"
    interval = f"{gain.low:.{digits}f} to {gain.high:.{digits}f}".replace("-", "−")
    if gain.low > 0:
        verb = "rose"
    elif gain.high < 0:
        verb = "fell"
    else:
        return (
            f"Held-out success did not clearly change: {start} at the start, {end} at the end "
            f"({change}, 95\u00a0% interval {interval})"
        )
    return (
        f"Held-out success {verb} from {start} to {end} ({change}, 95\u00a0% interval {interval})"
    )


def suspicious_tasks(variant: Variant) -> Sequence[str]:
    """Tasks whose right answers look like a verifier's loophole, at the end or in some round."""
    at_end = [task for task, answers in variant.end_answers.items() if _suspicious(answers)]
    return sorted({*at_end, *variant.loophole_seen})


def suspicions(variant: Variant) -> Sequence[str]:
    """A sentence for each suspicious task, and one for the guard-rails that complained."""
    found = [_suspicion(variant, task) for task in suspicious_tasks(variant)]
    return [*found, alarms(variant)] if variant.alarms_seen else found


def alarms(variant: Variant) -> str:
    """The guard-rails that complained at some node; docs/guard-rails.md says what each means."""
    named = (f"{rail} (from round {first})" for rail, first in variant.alarms_seen.items())
    return f"Guard-rails complained of what some node's answers had become: {', '.join(named)}."


def _suspicious(answers: SampledAnswers | None) -> bool:
    figures = concentration(answers) if answers else None
    return figures is not None and figures.seen


def _suspicion(variant: Variant, task: str) -> str:
    answers = variant.end_answers.get(task)
    figures = concentration(answers) if answers else None
    if figures is None:
        right = sum(answers.right.values()) if answers else 0
        found = (
            f"In {task} the right answers of some node came down to a few texts, whatever the "
            f"question; of the last answers to unseen questions only {right} were right, too few "
            "to tell"
        )
    elif figures.seen:
        found = (
            f"In {task} {_percent(figures.share)} of the right answers to unseen questions are one "
            "of four texts, though the four commonest reference answers make up only "
            f"{_percent(figures.expected)}"
        )
    else:
        found = (
            f"In {task} the right answers of some node came down to a few texts, whatever the "
            "question, but those to unseen questions did not at the end"
        )
    first = variant.loophole_seen.get(task)
    since = "" if first is None else f" First seen in round {first}."
    if _suspicious(variant.start_answers.get(task)):
        since = " It was so before the first round."
    return f"{found}: a loophole of the verifier rather than a skill?{since}"


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", "\u00a0%")


def what_was_run(settings: Settings, variants: Sequence[Variant], compared: str = "mix") -> str:
    """The swarm and its rounds, for somebody who has never seen either."""
    simulation, rounds = settings.simulation, settings.rounds
    tasks = ", ".join(f"{task} ({level})" for task, level in settings.tasks.pairs)
    mix = f"{rounds.local_groups_per_round}/{rounds.external_groups_per_round}"
    names = ", ".join(variant.name for variant in variants) or mix
    here = names if compared == "mix" else f"{mix}. What differs is {compared}: {names}"
    return (
        f"{counted(simulation.nodes, 'node')}{', each' if simulation.nodes > 1 else ''} with a "
        "language model of its own "
        f"({', '.join(sorted(set(simulation.models)))}), went through "
        f"{counted(simulation.rounds, 'round')} on {counted(len(settings.tasks.pairs), 'task')}: "
        f"{tasks}. In a round a node draws questions and answers each "
        f"{rounds.completions_per_group} times (a group), scores the answers, shares the groups, "
        "and trains on some of its own and some of other nodes'. The mix says how many: 4/4 is 4 "
        "of its own and 4 of others', 8/0 is 8 of its own, training alone. "
        f"Here: {here}."
    )


def visible(text: str) -> str:
    """A text with everything that does not print, or changes direction, as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def caption(study: Study) -> str:
    """How to read the picture."""
    rounds = max((variant.rounds for variant in study.variants), default=0)
    width = smoothing_width(rounds)
    smoothed = (
        f" In the two panels beside it a thick line is the mean of {width} rounds, the thin one "
        "shows single rounds."
        if width > 1
        else ""
    )
    member = "seed" if any(len(variant.seeds) > 1 for variant in study.variants) else "node"
    return (
        "How to read it: higher is better, 1 would be every answer right. On the left, success on "
        f"unseen questions; the band reaches from the lowest to the highest {member}.{smoothed} "
        "The upper panels share one scale. If what was trained on lies above a node's own fresh "
        "answers, that is the choosing of groups, not learning. The dotted line is the "
        "baseline: what the best fixed answer or shallow rule reaches without solving anything."
    )


def about_intervals(study: Study) -> str:
    """What the intervals are over, and what they cannot tell."""
    if not study.variants:
        return ""
    seeds = max(len(variant.seeds) for variant in study.variants)
    nodes = study.settings.simulation.nodes
    meaning = "The small figures are 95 % intervals. "
    if seeds > 1:
        meaning += f"They are Student's t over {seeds} seeds; the fewer seeds, the wider."
    elif nodes > 1:
        meaning += (
            f"There is one seed, and they are a bootstrap over its {nodes} nodes: they tell how "
            "much the nodes of this one swarm differ, not how another seed, with other weights, "
            "skills and questions, would turn out."
        )
    else:
        meaning = "One node and one seed give no interval."
    if len(study.variants) > 1 and seeds == 1:
        meaning += " One seed does not settle which is better: use --seeds with more."
    return meaning


def reproducible(study: Study) -> str:
    """Why the same command gives the same numbers."""
    seeds = sorted({seed for variant in study.variants for seed in variant.seeds})
    named = ", ".join(map(str, seeds)) or str(study.settings.simulation.seed)
    return (
        f"The command above gives the same numbers again with swarmnode {__version__} on a machine "
        f"that computes alike (random seed {named}). Time is virtual: every answer, score and step "
        "takes a duration that the seed decides, whatever the machine is busy with. Each model "
        "computes on one thread, keys, questions, weights, sampling and the network's delays "
        "follow from the seed, and the held-out questions are fixed."
    )
