"""Whether this machine can train: a model is loaded, answers a question, and takes one step.

Runs in a policy host, as a node's does, so that torch, the device and the memory are tried and not
asked about. Nothing is written.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

from swarmnode.config.policy import PolicySettings, WarmStartSettings
from swarmnode.config.settings import Settings
from swarmnode.doctor.checks import Check, Result
from swarmnode.policies import hosted
from swarmnode.policy.client import RemotePolicy
from swarmnode.policy.names import UnknownModel
from swarmnode.policy.order import PolicyOrder
from swarmnode.process import ChildError, Host
from swarmnode.types import Question, Scored

COMPLETIONS = 4
QUESTION = Question("basic_arithmetic", "easy", 0, "2 + 2 =", "4")
_LOAD = "docs/models.md says which models can be had and what memory they take."
_STEP = (
    "See its message above. On a GPU try policy.device=cpu; with too little memory lower "
    "training.micro_batch_tokens."
)


def small(settings: Settings) -> Settings:
    """The same with the smallest model: what it can't do, no model can."""
    policy = settings.policy
    tiny = PolicySettings(
        model="tiny", device=policy.device, dtype=policy.dtype, max_new_tokens=8,
        warm_start=WarmStartSettings(base_steps=0, steps=0),
    )  # fmt: skip
    return Settings(policy=tiny)


async def training_checks(settings: Settings, host: Host) -> list[Check]:
    """What came of loading the settings' model in `host` and of a step with it."""
    began = time.monotonic()
    policy = hosted(host)
    name = settings.policy.model
    try:
        figures = await policy.create(_order(settings))
    except (ChildError, UnknownModel) as error:
        return [Check("model-load", Result.FAILED, f"{name}: {_line(error)}", _LOAD)]
    seconds = time.monotonic() - began
    loaded = (
        f"{name} with {figures['parameters']:,.0f} parameters on {policy.device} in "
        f"{policy.dtype}, after {seconds:.1f} s"
    )
    return [Check("model-load", Result.OK, loaded), await _step(policy)]


async def _step(policy: RemotePolicy) -> Check:
    began = time.monotonic()
    try:
        (group,) = await policy.generate([QUESTION], COMPLETIONS)
        # What was cut off would count as wrong, and a group without a success teaches nothing.
        whole = tuple(replace(each, finish_reason="stop") for each in group.completions)
        scores = tuple(float(at % 2) for at in range(COMPLETIONS))
        live = Scored(replace(group, completions=whole), scores, "local", 0.0)
        trained = await policy.train([live])
    except ChildError as error:
        return Check("training-step", Result.FAILED, _line(error), _STEP)
    figures = trained.metrics
    taken, norm = figures.get("steps/taken", 0.0), figures.get("grad_norm", math.nan)
    seconds = f"{time.monotonic() - began:.1f} s for {COMPLETIONS} answers and a step"
    if taken < 1 or not math.isfinite(norm) or norm <= 0:
        found = f"no step was taken: gradient norm {norm:g}"
        return Check("training-step", Result.FAILED, found, _STEP)
    return Check("training-step", Result.OK, f"{seconds}; gradient norm {norm:.3g}")


def _order(settings: Settings) -> PolicyOrder:
    return PolicyOrder(
        policy=settings.policy.model_dump() | {"mode": "sync"},
        training=settings.training.model_dump(),
        channels=settings.rewards.channels.model_dump(),
        log_prob_gate=settings.selection.log_prob_gate.model_dump(),
        seed=0,
        sampling_seed=0,
        shared_seed=0,
        base_pairs=(),
        skill_pairs=(),
        cache_folder=None,
        examples={},
        rounds=settings.rounds.model_dump(),
    )


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0]
