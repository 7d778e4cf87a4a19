"""report.html: what a study found, for somebody who sees a swarm for the first time. Pure.

One file without scripts and without anything loaded from elsewhere; page.html is its frame. Every
text that is not ours is escaped where it enters (`_text`). Numbers are those of summary.py.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from string import Template

from swarmnode import __version__
from swarmnode.drawing import SERIES, page_style
from swarmnode.observe.words import counted
from swarmnode.rewards.common_answers import concentration
from swarmnode.sim.against import about_pairs
from swarmnode.sim.attacks.words import announced, told
from swarmnode.sim.comparison import difference, paired_seeds
from swarmnode.sim.intervals import Estimate
from swarmnode.sim.summary import REWARDS, RewardName, Variant
from swarmnode.sim.words import (
    REASONS,
    Study,
    about_intervals,
    answer,
    caption,
    reproducible,
    suspicions,
    verdict,
    visible,
    what_was_run,
)
from swarmnode.types import SampledAnswers

REWARD_WORDS: Mapping[RewardName, str] = {
    "local": "local",
    "training_set": "training set",
    "held_out": "held-out",
    "held_out_greedy": "held-out, greedy",
}


def page(study: Study, curves_svg: str) -> str:
    """The whole page; `curves_svg` is inserted as it is."""
    frame = Template((files("swarmnode.sim") / "page.html").read_text(encoding="utf-8"))
    return frame.substitute(
        title=_text(f"swarmnode: {answer(study.variants)}"),
        style=page_style(),
        version=_text(__version__),
        answer=_text(answer(study.variants)),
        stopped=_stopped(study),
        attack=_attack(study),
        each=_each(study.variants),
        what_was_run=_text(what_was_run(study.settings, study.variants, study.compared)),
        command=_text(study.command),
        picture_in_words=_text(answer(study.variants)),
        curves=curves_svg,
        caption=_text(caption(study)),
        rewards=_reward_table(study),
        comparison=_comparison(study),
        intervals=_text(about_intervals(study)),
        tasks=_task_table(study),
        suspicions=_suspicions(study.variants),
        all_rewards="".join(map(_all_rewards, study.variants)),
        answers="".join(map(_answers, study.variants)),
        dropped=_dropped(study.variants),
        reproducible=_text(reproducible(study)),
        settings=_text(study.settings.model_dump_json(indent=2)),
    )


def _text(value: str) -> str:
    return html.escape(value)


def _each(variants: Sequence[Variant]) -> str:
    lines = [
        f"<li>{_swatch(number)}<strong>{_text(variant.name)}</strong>: "
        f"{_text(verdict(variant))}.</li>"
        for number, variant in enumerate(variants)
    ]
    return f'<ul class="plain">{"".join(lines)}</ul>' if len(lines) > 1 else ""


def _swatch(number: int) -> str:
    colour = f"var(--series-{number % len(SERIES) + 1})"
    return f'<span class="swatch" style="background: {colour}"></span>'


def _stopped(study: Study) -> str:
    if study.complete:
        return ""
    asked = study.settings.simulation.rounds
    reached = ", ".join(
        f"{variant.name}: {variant.rounds} of {asked} rounds, {counted(len(variant.seeds), 'seed')}"
        for variant in study.variants
    )
    told = f"This page tells of {reached}." if reached else ""
    return f'<p class="warning">Stopped before its end. {_text(told)}</p>'


def _attack(study: Study) -> str:
    simulation = study.settings.simulation
    if simulation.attack == "none":
        return ""
    lines = [
        f"<li><strong>{_text(variant.name)}</strong>: "
        f"{_text(told(simulation.attack, variant.attacked))}</li>"
        for variant in study.variants
        if variant.attacked
    ]
    what = _text(announced(study.settings))
    return f'<div class="warning"><p>{what}</p><ul>{"".join(lines)}</ul></div>'


def _reward_table(study: Study) -> str:
    variants = study.variants
    head = (
        *(study.compared, "seeds", "rounds", "held-out, start", "held-out, end", "gain"),
        *("local, end", "training set, end", "selection effect"),
        *("local, summed over rounds", "groups with something to learn, a round"),
    )
    rows = [
        [
            f"{_swatch(number)}{_text(variant.name)}",
            str(len(variant.seeds)),
            str(variant.rounds),
            _estimate(variant.start["held_out"]),
            _estimate(variant.end["held_out"]),
            _estimate(variant.held_out_gain, sign="+"),
            _estimate(variant.end["local"]),
            _estimate(variant.end["training_set"]),
            _estimate(variant.selection_effect, sign="+"),
            _estimate(variant.cumulative_local, digits=2),
            _figure(variant.live_groups_trained, 1),
        ]
        for number, variant in enumerate(variants)
    ]
    return _table(head, rows)


def _comparison(study: Study) -> str:
    """The variants against the first; nothing where there is but one."""
    if len(study.variants) < 2:
        return ""
    first = study.variants[0]
    head = (study.compared, "seeds paired", "held-out, end", f"less that of {first.name}")
    rows = [
        [
            f"{_swatch(number)}{_text(variant.name)}",
            str(len(paired_seeds(variant, first))),
            _estimate(variant.end["held_out"]),
            "–" if variant is first else _estimate(difference(variant, first), sign="+"),
        ]
        for number, variant in enumerate(study.variants)
    ]
    note = f'<p class="note">{_text(about_pairs(study.compared))}</p>'
    return (
        f'<section>\n<h2>Against {_text(first.name)}</h2>\n<div class="wide">'
        f"{_table(head, rows)}</div>\n{note}\n</section>"
    )


def _task_table(study: Study) -> str:
    names = [f"{_swatch(at)}{_text(each.name)}" for at, each in enumerate(study.variants)]
    rows = []
    for task, level in study.settings.tasks.pairs:
        baseline = study.baselines.get(task)
        rows.append(
            [
                _text(task),
                _text(level),
                "not measured" if baseline is None else _figure(baseline),
                *(_change(variant, task, baseline) for variant in study.variants),
            ]
        )
    return _table(("task", "level", "baseline"), rows, names)


def _change(variant: Variant, task: str, baseline: float | None) -> str:
    if task not in variant.end_by_task:
        return "–"
    start = variant.start_by_task[task]["held_out"]
    end = variant.end_by_task[task]["held_out"]
    if math.isnan(end.mean):
        return _estimate(start)
    reached = _figure(end.mean)
    if baseline is not None and end.low > baseline:
        reached = f"<strong>{reached}</strong>"
    return f"{_figure(start.mean)} → {reached}{_interval(end)}"


def _all_rewards(variant: Variant) -> str:
    rows = [
        [_text(task), *(_estimate(rewards[reward]) for reward in REWARDS)]
        for task, rewards in variant.end_by_task.items()
    ]
    table = _table(("task", *(REWARD_WORDS[reward] for reward in REWARDS)), rows)
    name = _text(f"All rewards by task at the end, {variant.name}")
    return f'<details><summary>{name}</summary><div class="wide">{table}</div></details>'


def _suspicions(variants: Sequence[Variant]) -> str:
    return "".join(
        f'<p class="warning"><strong>{_text(variant.name)}</strong>: {_text(sentence)}</p>'
        for variant in variants
        for sentence in suspicions(variant)
    )


def _answers(variant: Variant) -> str:
    rows = []
    for task in sorted({*variant.start_answers, *variant.end_answers}):
        for moment, by_task in (("first", variant.start_answers), ("last", variant.end_answers)):
            if answers := by_task.get(task):
                rows.append([_text(task), moment, *_answer_cells(answers)])
    if not rows:
        return ""
    head = (
        "task",
        "evaluation",
        "right answers",
        "one of four texts",
        "by the questions",
        "commonest",
    )
    name = _text(f"Commonest answers to unseen questions, {variant.name}")
    table = f'<div class="wide reasons">{_table(head, rows)}</div>'
    note = (
        '<p class="note">Over all nodes and seeds, sampled answers; behind each text how often it '
        "was given, and in brackets how often it was right. One of four texts: of the right "
        "answers, the share that the four commonest right texts make up. By the questions: the "
        "same of the reference answers to the same questions, which a skill would come to.</p>"
    )
    return f"<details><summary>{name}</summary>{table}{note}</details>"


def _answer_cells(answers: SampledAnswers) -> Sequence[str]:
    figures = concentration(answers)
    listed = ", ".join(
        f"<code>{_text(visible(each.text))}</code>\u00a0{each.count}\u00a0({each.right})"
        for each in answers.commonest
    )
    return (
        str(sum(answers.right.values())),
        _figure(figures.share if figures else math.nan),
        _figure(figures.expected if figures else math.nan),
        listed,
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], more: Sequence[str] = ()) -> str:
    """A table of cells that are already HTML, under headings that are text, then `more` HTML."""
    heading = "".join(f"<th>{cell}</th>" for cell in (*map(_text, head), *more))
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{heading}</tr></thead><tbody>{body}</tbody></table>"


def _estimate(estimate: Estimate, digits: int = 3, sign: str = "") -> str:
    return f"{_figure(estimate.mean, digits, sign)}{_interval(estimate, digits)}"


def _interval(estimate: Estimate, digits: int = 3) -> str:
    if math.isnan(estimate.low):
        return ""
    low, high = _figure(estimate.low, digits), _figure(estimate.high, digits)
    return f"<small>{low} to {high}</small>"


def _figure(value: float, digits: int = 3, sign: str = "") -> str:
    return "–" if math.isnan(value) else f"{value:{sign}.{digits}f}".replace("-", "−")


def _dropped(variants: Sequence[Variant]) -> str:
    reasons = sorted({reason for variant in variants for reason in variant.dropped})
    if not reasons:
        return "<p>Nothing was dropped.</p>"
    rows = [
        [
            _text(reason),
            *(f"{variant.dropped.get(reason, 0):,}" for variant in variants),
            _text(REASONS.get(reason, "–")),
        ]
        for reason in reasons
    ]
    head = ("reason", *(variant.name for variant in variants), "in words")
    return f'<div class="wide reasons">{_table(head, rows)}</div>'
