"""What a round holds of the guard-rails: figures taken, judged, acted on and told.

Holds baselines, verdicts and counts. Decides what a round may train on and whether the policy ought
to go back; doing so is the daemon's. Baselines and counts go to a checkpoint as plain values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from swarmnode.config.guard_rails import GuardRails
from swarmnode.guard_rails.baselines import Baseline, Reading
from swarmnode.guard_rails.judgement import Judge, Verdict
from swarmnode.guard_rails.statistics import (
    REPEATED_TOKENS,
    SCRIPT_CHARACTERS,
    above_constants,
    compression_ratio,
    round_statistics,
    script_of,
    whitespace_shares,
)
from swarmnode.rewards.channels import repeated_share
from swarmnode.rewards.common_answers import CommonAnswers
from swarmnode.types import Completion, Scored

ROUNDS_TO_ROLL_BACK = 3
"""Rounds in a row in which something is critical, or no gradient is finite."""
TRAINED = {"kl": "kl", "clipped": "clip_ratio/region_mean"}
"""Guard-rails over figures of the training step, and the metric of each."""
NOT_FINITE = "steps/skipped_nonfinite_gradient"
NONFINITE = "nonfinite"
_ACTING = {"monitor": 0, "exclude": 1, "skip": 2, "roll_back": 3}


class Rails:
    """The guard-rails of one node, which is asked the tasks and levels of `asked`."""

    def __init__(self, settings: GuardRails, asked: Mapping[str, str]) -> None:
        self._settings = settings
        self._asked = dict(asked)
        self._judge = Judge(settings)
        self._common = CommonAnswers()
        self._baselines: dict[str, Baseline] = {}
        self._verdicts: dict[str, Verdict] = {}
        self._odd: set[str] = set()
        """Figures whose last value would warn if it stayed."""
        self._rounds = 0
        self._critical_rounds = 0
        self._nonfinite_rounds = 0
        self._rolled_back = 0

    @property
    def critical(self) -> Sequence[str]:
        """The figures that are critical now."""
        return [name for name, verdict in self._verdicts.items() if verdict is Verdict.CRITICAL]

    @property
    def wants_back(self) -> bool:
        """Whether the policy ought to go back to its last good checkpoint."""
        rounds = max(self._critical_rounds, self._nonfinite_rounds)
        return self._may("roll_back") and rounds >= ROUNDS_TO_ROLL_BACK

    @property
    def may_save(self) -> bool:
        """Whether a checkpoint of now would be one to go back to.

        Nothing is known of it in the first rounds, whose start is on disk. The last round's own
        figures must be sound as well: the recent mean takes some rounds to tell, and is new after
        going back.
        """
        if not self._may("roll_back"):
            return True
        wrong = any(self._verdicts.values()) or self._odd or self._nonfinite_rounds
        return self._rounds >= self._settings.first_rounds and not wrong

    def watch(self, groups: Sequence[Scored]) -> Mapping[str, float]:
        """Take in a round's own groups; returns metrics, for the names in docs/metrics.md."""
        self._verdicts = {n: verdict for n, verdict in self._verdicts.items() if n in TRAINED}
        self._odd &= set(TRAINED)
        self._rounds += 1
        above = above_constants(groups)
        metrics = {
            **self._common.watch(groups),
            **{f"answers/above_constant/{task}": value for task, value in above.items()},
            **self._judged(round_statistics(groups)),
        }
        self._critical_rounds = self._critical_rounds + 1 if self.critical else 0
        return metrics

    def permitted(self, groups: Sequence[Scored]) -> Sequence[Scored] | None:
        """What a round may train on of `groups`, degenerate completions marked; None: no step."""
        if self._may("skip") and self.critical:
            return None
        if not self._may("exclude"):
            return groups
        return [
            replace(
                scored,
                excluded=frozenset(
                    place
                    for place, completion in enumerate(scored.group.completions)
                    if self._degenerate(completion)
                ),
            )
            for scored in groups
        ]

    def heard(self, metrics: Mapping[str, float] | None) -> Mapping[str, float]:
        """Take in what the step said, None if none was permitted; returns metrics."""
        for name in TRAINED:
            # A policy that stands still clips nothing: its last step's verdict must not last.
            self._verdicts.pop(name, None)
            self._odd.discard(name)
        told: dict[str, float] = {"guard/skipped": float(metrics is None)}
        if metrics is not None:
            told |= self._judged(
                {name: metrics[metric] for name, metric in TRAINED.items() if metric in metrics}
            )
            broken = metrics.get(NOT_FINITE, 0.0) > 0.0
            self._nonfinite_rounds = self._nonfinite_rounds + 1 if broken else 0
        if self._nonfinite_rounds:
            told[f"guard/value/{NONFINITE}"] = float(self._nonfinite_rounds)
            told[f"guard/alarm/{NONFINITE}"] = float(
                Verdict.CRITICAL if self._nonfinite_rounds >= ROUNDS_TO_ROLL_BACK else Verdict.WARN
            )
        if self._rolled_back:
            told["guard/rolled_back"] = float(self._rolled_back)
        return told

    def went_back(self) -> None:
        """The policy is the one of its last good checkpoint again."""
        self._rolled_back += 1
        self._critical_rounds = self._nonfinite_rounds = 0
        self._verdicts.clear()
        for baseline in self._baselines.values():
            baseline.forget_recent()

    def to_values(self) -> dict[str, Any]:
        """What is kept with a checkpoint: JSON values."""
        figures = {name: baseline.to_values() for name, baseline in self._baselines.items()}
        return {"asked": self._asked, "rounds": self._rounds, "figures": figures}

    def restore(self, values: Any) -> None:
        """Go on with what `to_values` gave, if the same was asked then: other tasks have other
        answers. Anything else is passed over, and baselines begin anew."""
        self._baselines, self._rounds = {}, 0
        if not isinstance(values, dict) or values.get("asked") != self._asked:
            return
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            self._baselines = {
                str(name): Baseline.from_values(value) for name, value in values["figures"].items()
            }
            self._rounds = int(values["rounds"])

    def _may(self, action: str) -> bool:
        return _ACTING[self._settings.action] >= _ACTING[action]

    def _judged(self, figures: Mapping[str, float]) -> dict[str, float]:
        metrics: dict[str, float] = {}
        for name, value in figures.items():
            baseline = self._baselines.setdefault(name, Baseline())
            reading = baseline.observe(value, self._settings.first_rounds)
            metrics[f"guard/value/{name}"] = value
            if reading is None:
                continue
            metrics[f"guard/recent/{name}"] = reading.recent
            metrics[f"guard/start/{name}"] = reading.start
            if self._judge.odd(name, value, reading):
                self._odd.add(name)
            verdict = self._verdicts[name] = self._judge.verdict(name, reading)
            if verdict:
                metrics[f"guard/alarm/{name}"] = float(verdict)
        return metrics

    def _degenerate(self, completion: Completion) -> bool:
        """Whether a completion by itself is past a critical limit."""
        figures: dict[str, float | None] = {"compression": compression_ratio(completion.text)}
        if completion.token_ids:
            figures["repetition"] = repeated_share(completion.token_ids, REPEATED_TOKENS)
        if len(completion.text) >= SCRIPT_CHARACTERS:
            script = script_of(completion.text)
            figures[f"whitespace/{script}"] = whitespace_shares([completion.text]).get(script)
        return any(
            self._alone(name, value) is Verdict.CRITICAL
            for name, value in figures.items()
            if value is not None
        )

    def _alone(self, name: str, value: float) -> Verdict:
        """The verdict on one completion's figure, as if it were the recent mean."""
        baseline = self._baselines.get(name)
        usual = baseline.reading(self._settings.first_rounds) if baseline else None
        if usual is None:
            return Verdict.NORMAL
        return self._judge.verdict(name, Reading(value, usual.start, usual.spread))
