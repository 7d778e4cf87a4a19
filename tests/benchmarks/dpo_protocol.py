"""The protocol of "GRPO against DPO": what is run, under which seeds, judged by what.

Fixed before any result was made; docs/results/dpo.md tells it in words. All arms of a seed start
from the same weights and see the first questions of the same stream.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from swarmnode.config.settings import Settings, load_settings

Stage = Literal["try", "development", "main"]
Method = Literal["grpo", "dpo"]

DEVELOPMENT_SEEDS = (0, 1)
MAIN_SEEDS = (100, 101, 102, 103, 104)
TASKS = ("basic_arithmetic", "fraction_simplification")
ROUNDS = 300
TRY_ROUNDS = 8
GROUPS = 8
"""Questions of a round, and groups of a step."""
COMPLETIONS = 8
"""Answers to a question."""
PAIRS_PER_STEP = GROUPS * COMPLETIONS // 2
"""So that a step of DPO trains on as many answers as a step of GRPO does at most."""
PAIRS_PER_GROUP = 4
"""So that all steps together could see every pair once, if every group gave as many."""
WARMUP_STEPS = 10
BETA = 0.1
"""TRL's default."""
RATES: Mapping[Method, Sequence[float]] = {
    "grpo": (2e-5, 6e-5, 2e-4, 6e-4),
    "dpo": (2e-6, 6e-6, 2e-5, 6e-5),
}
"""Learning rates tried on the development seeds, equally many of each method."""
CHOICES = Path(__file__).with_name("dpo_choices.json")
"""What development found of each rate, and which of each method it chose."""
JUDGE = "preferences"
"""The channel of the reward model that is trained on DPO's pairs."""

QUESTIONS = 100
"""Held-out questions of each task that judge."""
SAMPLES = 8

SETTINGS = (
    "policy.examples=0",
    "policy.max_new_tokens=20",
    f"rounds.local_groups_per_round={GROUPS}",
    f"rounds.completions_per_group={COMPLETIONS}",
    f"training.warmup_steps={WARMUP_STEPS}",
    # `compare` judges: a few questions at the start and the end are enough for the log.
    "evaluation.every_rounds=1000000",
    "evaluation.questions_per_task=10",
    "daemon.sample_seconds=0",
)


@dataclass(frozen=True, slots=True)
class SeedRun:
    """The arms of a seed at every rate of a stage."""

    stage: Stage
    seed: int
    rates: Mapping[Method, Sequence[float]]

    @property
    def rounds(self) -> int:
        """Rounds of GRPO."""
        return TRY_ROUNDS if self.stage == "try" else ROUNDS

    @property
    def questions(self) -> int:
        """Questions of each task that DPO's pairs are made from: as many as GRPO asks in all."""
        return self.rounds * GROUPS // len(TASKS)

    @property
    def judged(self) -> int:
        """Held-out questions of each task."""
        return 20 if self.stage == "try" else QUESTIONS


def runs_of(stage: Stage) -> list[SeedRun]:
    """What a stage makes. Raises FileNotFoundError where the main part lacks the choices."""
    match stage:
        case "try":
            return [SeedRun(stage, DEVELOPMENT_SEEDS[0], {m: r[1:2] for m, r in RATES.items()})]
        case "development":
            return [SeedRun(stage, seed, RATES) for seed in DEVELOPMENT_SEEDS]
    chosen: Mapping[Method, float] = json.loads(CHOICES.read_text("utf-8"))["chosen"]
    return [SeedRun(stage, seed, {m: [r] for m, r in chosen.items()}) for seed in MAIN_SEEDS]


def settings_for(model: str) -> Settings:
    """The settings that both arms share, for a model."""
    return load_settings(
        assignments=SETTINGS, flags={"tasks.names": list(TASKS), "policy.model": model}
    )


def judge_command(pairs: Path, run: SeedRun, out: Path) -> Sequence[str]:
    """A reward model out of the same pairs, by the recipe's own defaults."""
    return ["reward-model", "train", str(pairs), str(out), "--json", "--seed", str(run.seed)]


def grpo_command(
    start: Path, run: SeedRun, rate: float, out: Path, judge: Path | None = None
) -> Sequence[str]:
    """What a user would type after `swarmnode`; with a `judge` it alone pays, not the verifier."""
    words = ["run", "--solo", "--model", str(start.absolute()), "--out", str(out)]
    words += ["--rounds", str(run.rounds), "--seed", str(run.seed)]
    for task in TASKS:
        words += ["--task", task]
    paid = [] if judge is None else paid_by(judge)
    for setting in (*SETTINGS, f"training.learning_rate={rate}", *paid):
        words += ["--set", setting]
    return words


def paid_by(judge: Path) -> Sequence[str]:
    """Settings under which a reward model pays for everything that is trained on."""
    model = f'{{ name = "{JUDGE}", model = {json.dumps(str(judge.absolute()))} }}'
    return (
        f"rewards.channels.models=[{model}]",
        "rewards.channels.accuracy_weight=0",
        "training.trained_groups=any_channel",
    )


def compare_command(a: Path, b: Path, run: SeedRun) -> Sequence[str]:
    """The same for the judgement."""
    words = ["compare", str(a.absolute()), str(b.absolute()), "--json", "--examples", "0"]
    words += ["--questions", str(run.judged), "--samples", str(SAMPLES)]
    for task in TASKS:
        words += ["--task", task]
    # Two folders without a run would take the defaults of such models.
    for setting in SETTINGS[:2]:
        words += ["--set", setting]
    return words
