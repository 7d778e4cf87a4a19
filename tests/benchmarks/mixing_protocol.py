"""The protocol of the study "Does mixing help?": what is run, under which seeds, judged by what.

Fixed before the results were made; docs/results/data-mixing.md tells it in words. An arm is a list
of settings over the defaults of `swarmnode pretrain`. Everything that an arm doesn't name is the
same in all arms of a seed: first weights, order of each domain's texts, the chance of the draws.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

from swarmnode.config.settings import Settings, load_settings
from tests.benchmarks.mixing_corpora import DOMAINS
from tests.benchmarks.study_arms import StudyArm

Stage = Literal["development", "main", "controls", "ablations", "probes", "headroom", "cost", "try"]

STEPS = 500
DEVELOPMENT_STEPS = 250
COST_STEPS = 200
DEVELOPMENT_SEED = 0
MAIN_SEEDS = (100, 101, 102, 103, 104)
ABLATION_SEEDS = (200, 201, 202)
HEADROOM_SEEDS = (203, 204, 205)
MEGABYTES = 3.0
"""Of text, of each domain at most."""

STATIC = (0.24, 0.28, 0.18, 0.03, 0.02, 0.08, 0.12, 0.05)
"""Static shares in the order of DOMAINS. Skewed as large corpora are, whose small domains are read
seldom."""

LEARNING_RATES = (5e-4, 1e-3, 2e-3, 4e-3)
"""Of the language model; tried with `uniform`, and then the same for all arms."""
CHOICES = Path(__file__).with_name("mixing_choices.json")
"""What development chose: the learning rate, and the option of each arm."""
SLOPES = Path(__file__).with_name("mixing_slopes.json")
"""By domain, what twice its share changed of the macro loss in the probes."""

REFERENCES = ("uniform", "static")
"""What every arm is held against; the two primary comparisons are PRIMARY with these."""
PRIMARY = "hds corrected"

COSTED = ("uniform", "hds paper", "hds corrected")
"""What a step costs is measured of these by themselves, while nothing else runs."""

SMALL = (
    "pretraining.model.width=64",
    "pretraining.model.layers=4",
    "pretraining.model.heads=4",
    "pretraining.model.feed_forward_width=160",
)
"""The model of the ablations, of 0.2 million parameters."""


ARMS = (
    StudyArm("static", "the skewed shares", ("kind=static",)),
    StudyArm("uniform", "equal shares", ("kind=uniform",)),
    StudyArm(
        "odm",
        "a bandit that seeks high loss",
        ("kind=odm",),
        ("odm_form=paper", "odm_form=code", "odm_form=code;odm_smoothing=0.9"),
    ),
    StudyArm(
        "doge",
        "alignment by mirror descent",
        ("kind=doge",),
        ("doge_step_size=0.0125", "doge_step_size=0.05", "doge_step_size=0.2"),
    ),
    StudyArm(
        "ac-odm",
        "alignment by a deterministic actor-critic",
        ("kind=ac-odm",),
        (
            "ac_odm.learning_rate=0.0001",
            "ac_odm.learning_rate=0.0003",
            "ac_odm.learning_rate=0.001",
        ),
    ),
    StudyArm(
        "reward softmax",
        "the three rewards of hds corrected, without an agent",
        ("kind=reward-softmax",),
        ("softmax_temperature=0.5", "softmax_temperature=1", "softmax_temperature=2"),
    ),
    StudyArm(
        "hds paper",
        "the article wherever it says how",
        ("kind=hds", "hds.variant=paper"),
        ("hds.learning_rate=0.0001", "hds.learning_rate=0.0003", "hds.learning_rate=0.001"),
    ),
    StudyArm(
        PRIMARY,
        "the default",
        ("kind=hds",),
        ("hds.learning_rate=0.0003", "hds.learning_rate=0.001", "hds.learning_rate=0.003"),
    ),
)
CONTROLS = (
    StudyArm("random", "other shares each step", ("kind=random",)),
    StudyArm(
        "hds frozen",
        "the agent of hds corrected, which never learns",
        ("kind=hds", "hds.updates_per_step=0"),
        like=PRIMARY,
    ),
)


def _ablation(name: str, description: str, *more: str) -> StudyArm:
    return StudyArm(name, description, ("kind=hds", *more), like=PRIMARY)


ABLATIONS = (
    StudyArm("static", "as in the main part", ("kind=static",)),
    StudyArm("uniform", "as in the main part", ("kind=uniform",)),
    _ablation(PRIMARY, "as in the main part"),
    _ablation("no alignment", "without that reward", "hds.alignment_weight=0"),
    _ablation("no diversity", "without that reward", "hds.diversity_weight=0"),
    _ablation("no stability", "without that reward", "hds.stability_weight=0"),
    _ablation("raw alignment", "as in the article", "hds.alignment=raw"),
    _ablation(
        "z-scored, mean",
        "the published code's scalar reward",
        "hds.alignment=zscore",
        "hds.scalarisation=mean",
        "hds.diversity_weight=0",
        "hds.stability_weight=0",
    ),
    _ablation("early layers", "gradients of layer 0", "pretraining.alignment_layers=[0]"),
    _ablation("larger agent", "10 % of the model, not 2.5 %", "hds.size_share=0.1"),
    _ablation("target entropy -K", "as in the published code", "hds.target_entropy=dimension"),
    _ablation("discount 0", "no looking ahead", "hds.discount=0"),
    _ablation(
        "validation losses",
        "the state has them, as in the article",
        "pretraining.state_losses=validation",
        "pretraining.loss_smoothing=0",
        "pretraining.validate_every=5",
    ),
)


def _fixed(name: str, description: str, shares: Sequence[float]) -> StudyArm:
    return StudyArm(name, description, ("kind=static", f"static_weights={list(shares)}"))


def _doubled(domain: int) -> Sequence[float]:
    count = len(DOMAINS)
    return [round((1 + (each == domain)) / (count + 1), 6) for each in range(count)]


PROBES = tuple(
    _fixed(f"more {name}", f"equal shares but for {name}, which has two of them", _doubled(at))
    for at, name in enumerate(DOMAINS)
)
RATIOS = (4.0, 16.0)
"""Of the largest to the smallest share that slopes are followed to."""


def followed(slopes: Sequence[float], ratio: float) -> list[float]:
    """Shares on the way down the slopes: exp(-c slope), c such that they differ by `ratio`."""
    spread = max(slopes) - min(slopes)
    powers = [ratio ** ((max(slopes) - slope) / spread) for slope in slopes]
    return [power / math.fsum(powers) for power in powers]


def headroom_arms(slopes: Sequence[float]) -> tuple[StudyArm, ...]:
    """What static shares can win once it is known what each domain is worth, and what hds does."""
    return (
        StudyArm("uniform", "as in the main part", ("kind=uniform",)),
        *(
            _fixed(f"slopes, 1 to {ratio:g}", "fixed by the probes", followed(slopes, ratio))
            for ratio in RATIOS
        ),
        StudyArm(PRIMARY, "as in the main part", ("kind=hds",), like=PRIMARY),
    )


BY_STAGE: Mapping[str, Mapping[str, StudyArm]] = {
    "main": {arm.name: arm for arm in ARMS},
    "controls": {arm.name: arm for arm in CONTROLS},
    "ablations": {arm.name: arm for arm in ABLATIONS},
    "probes": {arm.name: arm for arm in PROBES},
}


@dataclass(frozen=True, slots=True)
class Choices:
    """What development came to."""

    learning_rate: float
    options: Mapping[str, str]
    """By arm."""

    def option(self, arm: StudyArm) -> str:
        """The option of an arm; empty where it has none."""
        return self.options.get(arm.like or arm.name, "")


@dataclass(frozen=True, slots=True)
class StudyRun:
    """One run of the study."""

    stage: Stage
    arm: StudyArm
    seed: int
    learning_rate: float
    option: str = ""
    """Assignments of the arm's option, joined by ";"."""
    steps: int = STEPS
    more: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of its folder."""
        parts = (self.stage, self.arm.name, self.option, f"{self.learning_rate:g}", str(self.seed))
        text = "_".join(part for part in parts if part)
        return "".join(letter if letter.isalnum() or letter in ".-_" else "-" for letter in text)

    def settings(self, texts: Path) -> Settings:
        """Defaults, then the protocol, then the arm; `texts` names the corpus."""
        own = (*self.arm.assignments, *filter(None, self.option.split(";")))
        named = (each if each.startswith("pretraining.") else f"scheduling.{each}" for each in own)
        return load_settings(
            file=texts,
            assignments=[
                f"pretraining.seed={self.seed}",
                f"pretraining.steps={self.steps}",
                f"pretraining.learning_rate={self.learning_rate}",
                f"scheduling.static_weights={list(STATIC)}",
                "policy.device=cpu",
                *self.more,
                *named,
            ],
        )


def frozen_choices() -> Choices:
    """What development chose. Raises OSError where it was not run."""
    return Choices(**json.loads(CHOICES.read_text("utf-8")))


def rate_runs() -> Iterator[StudyRun]:
    """`uniform` at every learning rate."""
    uniform = BY_STAGE["main"]["uniform"]
    for rate in LEARNING_RATES:
        yield StudyRun("development", uniform, DEVELOPMENT_SEED, rate, "", DEVELOPMENT_STEPS)


def option_runs(learning_rate: float) -> Iterator[StudyRun]:
    """Every arm with each of its options."""
    for arm in ARMS:
        for option in arm.options:
            yield StudyRun(
                "development", arm, DEVELOPMENT_SEED, learning_rate, option, DEVELOPMENT_STEPS
            )


def frozen_slopes() -> Sequence[float]:
    """In the order of DOMAINS. Raises OSError where the probes were not run."""
    found: Mapping[str, float] = json.loads(SLOPES.read_text("utf-8"))
    return [found[name] for name in DOMAINS]


def runs_of(stage: Stage, choices: Choices) -> Iterator[StudyRun]:
    """Every run of the main part, the controls, the ablations or the probes."""
    small = stage in ("ablations", "probes")
    seeds: Sequence[int] = ABLATION_SEEDS if small else MAIN_SEEDS
    yield from _runs(stage, BY_STAGE[stage].values(), seeds, choices, SMALL if small else ())


def cost_runs(choices: Choices) -> Iterator[StudyRun]:
    """Long enough that the agents learn in more than half of the steps."""
    for name in COSTED:
        arm = BY_STAGE["main"][name]
        option = choices.option(arm)
        yield StudyRun("cost", arm, DEVELOPMENT_SEED, choices.learning_rate, option, COST_STEPS)


def headroom_runs(slopes: Sequence[float], choices: Choices) -> Iterator[StudyRun]:
    """On seeds that the slopes don't know."""
    yield from _runs("headroom", headroom_arms(slopes), HEADROOM_SEEDS, choices, SMALL)


def _runs(
    stage: Stage,
    arms: Iterable[StudyArm],
    seeds: Sequence[int],
    choices: Choices,
    more: tuple[str, ...],
) -> Iterator[StudyRun]:
    for seed, arm in product(seeds, tuple(arms)):
        option = choices.option(arm)
        yield StudyRun(stage, arm, seed, choices.learning_rate, option, STEPS, more)


def trial_runs(steps: int) -> Iterator[StudyRun]:
    """A few steps of every arm of the main part and the controls, to see that they run."""
    quick = ("pretraining.validate_every=5", "scheduling.hds.batch=4", "scheduling.ac_odm.batch=4")
    for arm in (*ARMS, *CONTROLS):
        option = arm.options[1] if arm.options else ""
        yield StudyRun("try", arm, DEVELOPMENT_SEED, 2e-3, option, steps, (*SMALL, *quick))
