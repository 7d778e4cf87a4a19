"""Published methods as defaults of the training settings, and which settings exclude one another.

A preset is nothing but defaults: what is written beside it wins. A combination that no method
means is refused with the reason, before anything is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from swarmnode.config.training import Training

Preset = Literal[
    "default",
    "grpo",
    "dr_grpo",
    "dapo",
    "lite_ppo",
    "gdpo",
    "gspo",
    "gspo_token",
    "cispo",
    "luffy",
]

_SEQUENCE_CLIPS = {"clip_low": 3e-4, "clip_high": 4e-4, "normalization": "sequences"}

PRESETS: Mapping[object, Mapping[str, Any]] = MappingProxyType(
    {
        # arXiv 2402.03300, section 4.2: KL coefficient 0.04, equation 3.
        "grpo": {"clip_high": 0.2, "normalization": "sequences", "kl_weight": 0.04},
        # arXiv 2503.20783, section 3.2.
        "dr_grpo": {
            "clip_high": 0.2,
            "normalization": "constant",
            "advantage_scaling": "none",
        },
        # arXiv 2503.14476, section 4.1: clips 0.2 and 0.28 and the token mean are our defaults.
        "dapo": {},
        # arXiv 2508.08221: group mean, batch deviation, token-level loss.
        "lite_ppo": {"clip_high": 0.2, "advantage_scaling": "batch"},
        # arXiv 2601.05242.
        "gdpo": {"reward_aggregation": "normalise_then_sum", "advantage_scaling": "batch"},
        # arXiv 2507.18071, section 5.1.
        "gspo": {"ratio_level": "sequence", **_SEQUENCE_CLIPS},
        "gspo_token": {"ratio_level": "sequence_token", **_SEQUENCE_CLIPS},
        # arXiv 2506.13585, section 3.1; the cap is ScaleRL's (2510.13786), the paper names none.
        "cispo": {"objective": "cispo", "ratio_cap": 5.0},
        # arXiv 2504.14945, with the baseline over our own and others' completions.
        "luffy": {
            "external_advantage": "shaped",
            "external_baseline": "union",
            "advantage_scaling": "none",
        },
    }
)

BEYOND_TRAINING: Mapping[object, Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        # arXiv 2503.14476, sections 3.2 and 3.4.
        "dapo": {
            "rounds": {"dynamic_sampling": True},
            "rewards": {"channels": {"overlong": {"weight": 1.0}}},
        },
    }
)
"""What a preset changes in other sections, as a tree of settings."""

SEQUENCE_CLIP_LIMIT = 0.05
"""Sequence ratios stay within some thousandths of 1: clips from here on never act on them."""

TOKEN_CLIP_LIMIT = 0.01
"""Token ratios leave 1 by more than this at once: smaller clips take nearly every gradient."""


def contradiction(settings: Training) -> str | None:
    """Why these settings can't go together, in one line with what to do; None if they can."""
    for find in (_of_cispo, _of_ratios, _of_covariance, _of_schedule):
        reason = find(settings)
        if reason is not None:
            return reason
    return None


def _of_cispo(settings: Training) -> str | None:
    cispo = settings.objective == "cispo"
    if not cispo and settings.ratio_cap is not None:
        return "ratio_cap belongs to objective = cispo; leave it out, or set that objective"
    if not cispo:
        return None
    if settings.ratio_cap is None:
        return "objective = cispo needs ratio_cap, the largest ratio itself, such as 5"
    clips = {name: type(settings).model_fields[name].default for name in ("clip_low", "clip_high")}
    if any(getattr(settings, name) != default for name, default in clips.items()):
        return (
            "clip_low and clip_high are distances from 1, and objective = cispo has none;"
            " leave them out and set ratio_cap, which bounds the ratio itself"
        )
    if settings.ratio_level != "token":
        return "objective = cispo weighs single tokens; leave out ratio_level"
    if settings.dual_clip is not None:
        return "dual_clip belongs to objective = clipped; leave it out"
    return None


def _of_ratios(settings: Training) -> str | None:
    widest = max(settings.clip_low, settings.clip_high)
    if settings.ratio_level != "token" and widest >= SEQUENCE_CLIP_LIMIT:
        return (
            f"ratio_level = {settings.ratio_level} with a clip of {widest} never clips: a"
            " sequence's ratio is a mean and stays near 1; set preset = gspo, or clips such as"
            " clip_low = 3e-4 and clip_high = 4e-4"
        )
    if settings.ratio_level == "token" and widest < TOKEN_CLIP_LIMIT:
        return (
            f"clips of at most {widest} are for sequence ratios and would stop nearly every"
            " token; set ratio_level = sequence, or clips such as 0.2"
        )
    if settings.ratio_denominator == "sampler" and settings.local_correction:
        return (
            "ratio_denominator = sampler has the sampler's mismatch in its ratio already, and"
            " local_correction would weigh it a second time; leave one of them out"
        )
    if settings.dual_clip is not None and settings.dual_clip <= 1.0 + settings.clip_high:
        return "dual_clip must be above 1 + clip_high; 3 is usual"
    return None


def _of_covariance(settings: Training) -> str | None:
    if settings.covariance == "none":
        return None
    if settings.objective != "clipped" or settings.ratio_level != "token":
        return "covariance restrains single tokens; it needs objective clipped, ratio_level token"
    if settings.covariance == "kl" and settings.inner_steps == 1:
        return (
            "covariance = kl pulls back what moved since the round's start, which is nothing with"
            " inner_steps = 1; set inner_steps = 2 or more, or covariance = clip"
        )
    if settings.covariance_low >= settings.covariance_high:
        return "covariance_low must be below covariance_high"
    return None


def _of_schedule(settings: Training) -> str | None:
    if settings.schedule == "constant":
        if settings.schedule_steps:
            return "schedule_steps needs schedule = linear or cosine; leave it out, or set one"
    elif settings.schedule_steps <= settings.warmup_steps:
        return (
            f"schedule = {settings.schedule} needs schedule_steps above warmup_steps: the number"
            " of optimizer steps at which the learning rate has arrived"
        )
    return None
