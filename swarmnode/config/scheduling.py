"""Settings of who decides what is learned next: the scheduler of tasks, or of corpora."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field, model_validator

from swarmnode.config.base import Section

Kind = Literal[
    "uniform",
    "static",
    "random",
    "odm",
    "sec",
    "dump",
    "doge",
    "reward-softmax",
    "ac-odm",
    "hds",
]

VARIANTS: Mapping[object, Mapping[str, Any]] = MappingProxyType(
    {
        "paper": {
            "alignment": "raw",
            "diversity": "paper",
            "stability": "paper",
            "diversity_weight": 10.0,
            "stability_weight": 10.0,
            "learnability_weight": 0.0,
            "diversity_limit": 1024.0,
            "reward_normalisation": False,
            "gradient_memory": 0.0,
            "absolute_state": False,
            "start_at_static": False,
            "target_entropy": "dimension",
            "target_rate": 0.001,
            "learning_rate": 1e-4,
            "temperature_learning_rate": 1e-4,
            "initial_temperature": 1.0,
            "batch": 32,
            "warmup_batches": 0.0,
        },
    }
)
"""What a variant of HDS changes in the defaults, which are those of `corrected`."""


class Hds(Section):
    """The Holistic Data Scheduler (arXiv 2606.24133)."""

    variant: Literal["corrected", "paper"] = "corrected"
    """`paper`: the article to the letter where it says how, and the published constants where it
    doesn't. `corrected`: what makes it work (docs/scheduling.md). A variant changes the defaults
    of the settings below; settings given beside it win."""

    alignment: Literal["cosine", "norm", "raw", "zscore"] = "cosine"
    """Form of the alignment ⟨g_i, Σ_j≠i g_j⟩ of a domain's gradient with those of the others.
    `cosine`: divided by both norms. `norm`: by the mean norm (AC-ODM). `raw`: as it is (paper).
    `zscore`: standardised over the domains (the published code)."""

    diversity: Literal["curriculum", "paper"] = "curriculum"
    """Form of the diversity reward, of relative MTLD m and progress t'. `curriculum`:
    (1 - t')(1 - m) + t'm, simple texts first and rich ones later. `paper`: t' / (m + ε), which
    prefers simple texts, and the more the later."""

    stability: Literal["relative", "paper"] = "relative"
    """Form of the stability reward, of the change of the layers' norm. `relative`: exp(-change /
    usual change). `paper`: 1 / (change + ε), at most `stability_cap`, which nearly always is the
    cap."""

    scalarisation: Literal["action_weighted", "mean"] = "action_weighted"
    """How the domains' rewards become one: weighted by the shares that were drawn with, or with
    equal weights, under which the shares hardly matter."""

    alignment_weight: float = Field(default=1.0, ge=0.0)
    """Weight of the alignment reward."""

    diversity_weight: float = Field(default=0.1, ge=0.0)
    """Weight of the diversity reward; 10 in the paper, whose terms have other scales."""

    stability_weight: float = Field(default=0.1, ge=0.0)
    """Weight of the stability reward; 10 in the paper, whose terms have other scales."""

    learnability_weight: float = Field(default=1.0, ge=0.0)
    """Weight, in a node, of what a task's completions still teach: the mean size of their
    advantages. The article, which is about pre-training, has none."""

    stability_cap: float = Field(default=5.0, gt=0.0)
    """Most that the paper's stability reward can be."""

    diversity_limit: float = Field(default=150.0, gt=2.0)
    """MTLD that counts as m = 1; 2, a single repeated word, counts as 0. In the paper it is the
    length of a sequence, 1024, so that prose of 50 to 100 has an m below 0.1."""

    gradient_memory: float = Field(default=0.5, ge=0.0, lt=1.0)
    """Share of the old value in the running averages of the gradients' products; 0 in the
    paper."""

    reward_normalisation: bool = True
    """Whether the scalar reward is standardised by its running mean and deviation."""

    absolute_state: bool = True
    """Whether the agent also sees the level of the losses over training, beside how the domains
    differ at the moment, which is all that the published code shows it."""

    start_at_static: bool = True
    """Whether the agent's first mean weights are the static ones; else they are nearly equal."""

    target_entropy: Literal["feasible", "dimension"] = "feasible"
    """Entropy, in nats, that the temperature steers to. `feasible`: -ln((K - 1)!), the highest
    there is over K shares, minus `entropy_per_dimension` for each of K - 1. `dimension`: -K, which
    no density over the shares reaches from K = 9 on."""

    entropy_per_dimension: float = Field(default=1.0, gt=0.0)
    """Nats below the highest entropy for each of the K - 1 free shares."""

    discount: float = Field(default=0.95, ge=0.0, lt=1.0)
    """What a reward one step later counts (gamma)."""

    target_rate: float = Field(default=0.01, gt=0.0, le=1.0)
    """How far the target critics move towards the critics in an update; 0.001 in the paper, with
    which they would be nearly the first ones for a thousand updates."""

    learning_rate: float = Field(default=1e-3, gt=0.0)
    """Adam's step size of actor and critics; 1e-4 in the published code."""

    temperature_learning_rate: float = Field(default=3e-3, gt=0.0)
    """Adam's step size of the logarithm of the temperature; 1e-4 in the published code."""

    initial_temperature: float = Field(default=0.1, gt=0.0)
    """Weight of the entropy at the start; 1 in the paper."""

    batch: int | None = Field(default=None, ge=1)
    """Transitions in an update. Unset is 16 in a node, whose steps are rounds: it decides from
    round 33 on, and half the time goes into the agent. In pre-training, and in the paper, it is
    32."""

    replay: int = Field(default=10_000, ge=1)
    """Transitions kept; the oldest leave first."""

    updates_per_step: int = Field(default=2, ge=0)
    """Updates of the agent after each step (N_ac); 0 freezes it, as a control."""

    warmup_share: float = Field(default=0.02, ge=0.0, le=1.0)
    """Share of all steps that have the static weights with noise, from which the agent only
    remembers."""

    warmup_batches: float = Field(default=2.0, ge=0.0)
    """The warm-up has at least this many times `batch` steps; 0 in the paper."""

    warmup_noise: float = Field(default=0.02, ge=0.0)
    """Standard deviation of the noise on each static share during the warm-up."""

    size: Literal["share", "paper"] = "share"
    """`share`: actor and critics of about `size_share` of the language model's parameters each.
    `paper`: 8 layers of width 256 and about 5.3 million parameters each."""

    size_share: float = Field(default=0.005, gt=0.0, le=0.1)
    """Parameters of one network of the agent over those of the language model."""

    @model_validator(mode="before")
    @classmethod
    def _with_variant(cls, values: Any) -> Any:
        variant = values.get("variant") if isinstance(values, Mapping) else None
        return {**VARIANTS[variant], **values} if variant in VARIANTS else values


class AcOdmSettings(Section):
    """AC-ODM (arXiv 2505.23878)."""

    width: int = Field(default=64, ge=1)
    """Channels of the five hidden layers of actor and critic; 1024 in the paper."""

    exploration: float = Field(default=0.3, ge=0.0)
    """Most that is taken from a share before the shares are normalised anew; 0.001 in the paper,
    with which a run of hundreds of steps sees one mixture only."""

    warmup_share: float = Field(default=0.1, ge=0.0, le=1.0)
    """Share of all steps that `odm` decides and the actor learns to do the same; 0.02 in the
    paper."""

    discount: float = Field(default=0.95, ge=0.0, lt=1.0)
    """What a reward one step later counts."""

    target_rate: float = Field(default=0.01, gt=0.0, le=1.0)
    """How far the targets move in an update; 0.001 in the paper."""

    learning_rate: float = Field(default=3e-4, gt=0.0)
    """Adam's step size; 1e-4 in the published code. Higher ones drive the softmax to one domain
    before the critic knows anything."""

    batch: int = Field(default=32, ge=1)
    """Transitions in an update."""

    replay: int = Field(default=10_000, ge=1)
    """Transitions kept; the oldest leave first."""

    gradient_memory: float = Field(default=0.5, ge=0.0, lt=1.0)
    """Share of the old value in the running averages of the gradients' products."""


class Scheduling(Section):
    """Who decides what is learned next."""

    kind: Kind = "uniform"
    """The scheduler. `uniform`: every task equally likely. `static`: by `static_weights`. `random`:
    other shares each step, a control. `sec`, `dump`, `odm`: bandits that seek tasks with much to
    learn. `doge`, `reward-softmax`, `ac-odm` and `hds` look at gradients by domain.
    docs/scheduling.md tells them apart."""

    minimum_share: float = Field(default=0.02, ge=0.0, le=1.0)
    """Least share of each domain, whatever the scheduler says; 1 / K or more makes all equal."""

    steer_external: bool = False
    """Whether the shares of a node's questions also decide of which tasks the groups of peers are
    that it trains on: for each place a task is drawn by them, and `selection.filter` picks one of
    its groups in the pool. Of a task that the pool has nothing of, the place goes to the others. Of
    what a peer announces the rather what is wanted is fetched, though not more of anybody."""

    static_weights: tuple[float, ...] = ()
    """Shares of the domains in their order, of any sum. Empty: equal ones in a node, in proportion
    to the bytes of text in pre-training. Where other schedulers start from."""

    odm_form: Literal["paper", "code"] = "paper"
    """`paper`: EXP3 with importance weights. `code`: what its authors' code does: shares in
    proportion to smoothed perplexities."""

    odm_smoothing: float = Field(default=0.5, ge=0.0, lt=1.0)
    """Share of the old reward in a new one."""

    odm_warmup_steps: int = Field(default=0, ge=0)
    """Steps with the static weights first; 2000 in its authors' code."""

    sec_rate: float = Field(default=0.5, gt=0.0, le=1.0)
    """How far a task's value moves to what it last paid."""

    sec_temperature: float = Field(default=0.4, gt=0.0)
    """Temperature of the softmax over values; 1, 0.4 or 0.2 in its paper, by experiment."""

    dump_window: int = Field(default=300, ge=1)
    """Last completions of a task that its mean is taken over."""

    dump_temperature: float = Field(default=0.1, gt=0.0)
    """Temperature of the softmax over upper confidence bounds."""

    doge_step_size: float = Field(default=0.05, gt=0.0)
    """Step up the domains' alignments, which are divided by the mean gradient norm and cut to
    [0, 5]."""

    doge_memory: float = Field(default=0.5, ge=0.0, lt=1.0)
    """Share of the old value in the running averages of the gradients' products."""

    softmax_temperature: float = Field(default=1.0, gt=0.0)
    """Temperature of `reward-softmax`, over rewards in deviations between the domains. Its rewards
    are those of the settings of `hds`."""

    softmax_memory: float = Field(default=0.9, ge=0.0, lt=1.0)
    """Share of the old reward in a new one, in `reward-softmax`."""

    ac_odm: AcOdmSettings = AcOdmSettings()
    """The settings of `ac-odm`."""

    hds: Hds = Hds()
    """The Holistic Data Scheduler's own settings."""

    @model_validator(mode="after")
    def _has_weights(self) -> Scheduling:
        weights = self.static_weights
        if weights and (min(weights) < 0.0 or max(weights) <= 0.0):
            raise ValueError("static_weights must not be negative, and one of them above 0")
        return self
