"""What a study leaves for people and for programs: summary.json, curves.png, report.html.

The only effect is writing these three files, each in one step. Equal studies give equal files.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from swarmnode import __version__
from swarmnode.config.settings import Settings
from swarmnode.files import write_atomically
from swarmnode.rewards.common_answers import concentration
from swarmnode.sim.attacks.seen import Seen
from swarmnode.sim.comparison import difference
from swarmnode.sim.intervals import Estimate
from swarmnode.sim.summary import REWARDS, Curve, Run, Variant, summarize
from swarmnode.types import Evaluation, SampledAnswers


def write_report(
    out: Path,
    runs: Sequence[Run],
    settings: Settings,
    *,
    compared: str = "mix",
    complete: bool,
    command: str,
    baselines: Mapping[str, float | None],
) -> Path:
    """Write the three files into `out`; returns the path of report.html. Raises OSError.

    `baselines` has the success of the best constant or heuristic answer for every enabled task at
    its level, None where it was not measured. `compared` is what the variants differ in: the mix,
    or the name of a setting. `complete` is False for a study that was stopped.
    """
    # matplotlib takes half a second to load, which only those pay who write a report.
    from swarmnode.sim.curves import curves_png, curves_svg
    from swarmnode.sim.page import page
    from swarmnode.sim.words import Study

    variants = summarize(runs)
    summary = summary_as_json(
        variants,
        runs,
        settings,
        compared=compared,
        complete=complete,
        command=command,
        baselines=baselines,
    )
    write_atomically(out / "summary.json", compact(summary))
    write_atomically(out / "curves.png", curves_png(variants, baselines))
    study = Study(variants, settings, complete, command, baselines, compared)
    write_atomically(out / "report.html", page(study, curves_svg(variants, baselines)))
    return out / "report.html"


def summary_as_json(
    variants: Sequence[Variant],
    runs: Sequence[Run],
    settings: Settings,
    *,
    compared: str = "mix",
    complete: bool,
    command: str,
    baselines: Mapping[str, float | None],
) -> dict[str, Any]:
    """The study as plain values; what was not observed is None, never NaN.

    An estimate is `{mean, low, high, over}`: a 95 % interval over "seeds" by Student's t, or by a
    bootstrap over the "nodes" of a single seed; low and high are None where neither is possible.
    The rewards are `local`, `training_set`, `held_out` and `held_out_greedy`, success in [0, 1].

    - `version`: of swarmnode. `command`: that made the study. `complete`: False if it was stopped.
    - `compared`: what the variants differ in: "mix", their I and J, or the name of a setting.
    - `settings`: all settings of the study, resolved; a variant has its own of what is compared, a
      run its own seed.
    - `nodes`, `rounds`: of every run, as asked for.
    - `tasks`: by name, `{level, baseline}`; the latter is the success of the best
      constant or heuristic answer.
    - `variants`: a list, each with
        - `name`: "I/J", or the setting's value; `seeds`; `rounds`: what all its runs have reached.
        - `start`, `end`: by reward, an estimate. For held-out success the first and the last
          evaluation, for the others the first and the last tenth of the rounds.
        - `by_task`: by task, `{start, end}` as above.
        - `held_out_gain`: estimate, last minus first evaluation.
        - `against_first`: estimate, held-out success of the last evaluation less that of the first
          variant, paired by seed, or by node of a single seed; None for the first itself.
        - `selection_effect`: estimate, training_set minus local at the end.
        - `cumulative_local`: estimate, local reward summed over rounds, per node.
        - `curves`: by reward, `{rounds, mean, low, high}`: lists of equal length, one entry a
          round (one an evaluation for held-out success); low and high are those of the lowest
          and highest seed, or node of a single seed.
        - `held_out_curves`: the same by task.
        - `live_groups_trained`: mean per node and round.
        - `dropped`: count by reason.
        - `answers`: by task, `{start, end}`: what the sampled answers to unseen questions were in
          the first and the last evaluation, over all nodes and seeds, each
          `{right, share, expected, excess, suspicious, commonest}` or None where none were kept.
          `right` counts the right ones; `share` of them are one of the four commonest right texts,
          while `expected` of their questions have one of the four commonest reference answers;
          `excess` is the difference, `suspicious` whether it looks like a verifier's loophole.
          These four are None below 24 right answers. `commonest` lists at most ten answers as
          `[text, count, right]`; one that a node gave rarely may be counted without that node.
        - `loophole_seen`: by task, the first round in which a node's own answers looked like a
          loophole; tasks without such a round lack.
        - `alarms_seen`: by guard-rail, the first round in which it complained at some node; others
          lack.
        - `attacked`: None without an attack, else of the honest nodes: `said`, by what attacks want
          said, the shares of held-out answers that say it in the first and the last evaluation;
          `answer_tokens`, how long these answers are in both; `groups` of attackers and
          `external_groups` of all others in a round's training set, and `tokens`, the attackers'
          share of the tokens of all training sets together.
    - `evaluations`: a list of `{variant, seed, node, round, held_out, held_out_greedy}` with the
      first and the last evaluation of every node within the variant's rounds; by task a text with
      "1" or "0" for each question, the same questions in the same order for all.
    """
    levels = dict(settings.tasks.pairs)
    return {
        "version": __version__,
        "command": command,
        "complete": complete,
        "compared": compared,
        "settings": settings.model_dump(mode="json"),
        "nodes": settings.simulation.nodes,
        "rounds": settings.simulation.rounds,
        "tasks": {
            task: {"level": level, "baseline": baselines.get(task)}
            for task, level in levels.items()
        },
        "variants": [_variant(variant, variants[0]) for variant in variants],
        "evaluations": list(_evaluations(variants, runs)),
    }


def _variant(variant: Variant, first: Variant) -> dict[str, Any]:
    return {
        "name": variant.name,
        "seeds": list(variant.seeds),
        "rounds": variant.rounds,
        "start": {reward: _estimate(variant.start[reward]) for reward in REWARDS},
        "end": {reward: _estimate(variant.end[reward]) for reward in REWARDS},
        "by_task": {
            task: {
                "start": {r: _estimate(variant.start_by_task[task][r]) for r in REWARDS},
                "end": {r: _estimate(variant.end_by_task[task][r]) for r in REWARDS},
            }
            for task in variant.end_by_task
        },
        "held_out_gain": _estimate(variant.held_out_gain),
        "against_first": (None if variant is first else _estimate(difference(variant, first))),
        "selection_effect": _estimate(variant.selection_effect),
        "cumulative_local": _estimate(variant.cumulative_local),
        "curves": {reward: _curve(variant.curves[reward]) for reward in REWARDS},
        "held_out_curves": {task: _curve(c) for task, c in variant.held_out_curves.items()},
        "live_groups_trained": _number(variant.live_groups_trained),
        "dropped": dict(variant.dropped),
        "answers": {
            task: {
                "start": _answers(variant.start_answers.get(task)),
                "end": _answers(variant.end_answers.get(task)),
            }
            for task in sorted({*variant.start_answers, *variant.end_answers})
        },
        "loophole_seen": dict(variant.loophole_seen),
        "alarms_seen": dict(variant.alarms_seen),
        "attacked": variant.attacked and _attacked(variant.attacked),
    }


def _attacked(seen: Seen) -> dict[str, Any]:
    return {
        "said": {name: [_number(share) for share in both] for name, both in seen.said.items()},
        "answer_tokens": [_number(length) for length in seen.answer_tokens],
        "groups": _number(seen.groups),
        "external_groups": _number(seen.external_groups),
        "tokens": _number(seen.tokens),
    }


def _answers(answers: SampledAnswers | None) -> dict[str, Any] | None:
    if answers is None:
        return None
    figures = concentration(answers)
    return {
        "right": sum(answers.right.values()),
        "share": figures and _number(figures.share),
        "expected": figures and _number(figures.expected),
        "excess": figures and _number(figures.excess),
        "suspicious": figures and figures.seen,
        "commonest": [[each.text, each.count, each.right] for each in answers.commonest],
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "mean": _number(estimate.mean),
        "low": _number(estimate.low),
        "high": _number(estimate.high),
        "over": estimate.over,
    }


def _curve(curve: Curve) -> dict[str, Any]:
    return {
        "rounds": list(curve.rounds),
        "mean": [_number(value) for value in curve.mean],
        "low": [_number(value) for value in curve.low],
        "high": [_number(value) for value in curve.high],
    }


def _number(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _evaluations(variants: Sequence[Variant], runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    rounds = {variant.name: variant.rounds for variant in variants}
    for run in runs:
        by_node: defaultdict[int, dict[int, Evaluation]] = defaultdict(dict)
        for report in run.reports:
            if report.evaluation is not None and report.round <= rounds.get(run.variant, -1):
                by_node[report.node][report.round] = report.evaluation
        for node, evaluations in sorted(by_node.items()):
            for number in sorted({min(evaluations), max(evaluations)}):
                yield {
                    "variant": run.variant,
                    "seed": run.seed,
                    "node": node,
                    "round": number,
                    "held_out": dict(evaluations[number].sampled),
                    "held_out_greedy": dict(evaluations[number].greedy),
                }


def compact(summary: Mapping[str, Any]) -> str:
    """JSON with an item a line, except lists of plain values, which take one line each."""
    text = json.dumps(summary, indent=1, allow_nan=False, ensure_ascii=False)
    # No text within JSON holds a raw line end, so that only the layout is touched.
    return re.sub(r"\[[^\[\]{}]*\]", lambda found: re.sub(r"\n *", " ", found[0]), text) + "\n"
