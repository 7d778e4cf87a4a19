"""Whether a model fits, told before its weights are read: the estimate for the settings at hand.

Looks at the model's configuration and at the headers of its weights. Imports no torch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

from swarmnode.config.policy import PolicySettings, TinySettings
from swarmnode.config.rounds import Rounds
from swarmnode.config.training import Training
from swarmnode.policy.memory import (
    EXAMPLE_TOKENS,
    PROMPT_TOKENS,
    Estimate,
    ModelShape,
    Workload,
    shape_of,
)
from swarmnode.policy.names import UnusableModel

_MIB = 2**20
_LONGEST_HEADER = 100_000_000
"""Bytes, as safetensors has it."""


def workload(
    settings: PolicySettings, training: Training, rounds: Rounds, weight_bytes: int, ranks: int
) -> Workload:
    """Return what rounds ask of a policy that is spread over so many ranks."""
    return Workload(
        questions=rounds.questions,
        completions=rounds.completions_per_group,
        groups=rounds.local_groups_per_round + rounds.external_groups_per_round,
        new_tokens=settings.new_tokens,
        micro_batch_tokens=training.tokens_at_once,
        activation_bytes=training.activation_limit_mib * _MIB,
        lora_rank=settings.lora.rank,
        keeps_reference=training.kl_weight > 0.0,
        weight_bytes=weight_bytes,
        prompt_tokens=PROMPT_TOKENS + settings.shown_examples * EXAMPLE_TOKENS,
        ranks=ranks,
    )


def tiny_shape(settings: TinySettings, vocabulary: int) -> ModelShape:
    """Return the shape of `tiny`, whose head is tied."""
    width, inner = settings.width, settings.feed_forward_width
    layer = 4 * width**2 + 3 * width * inner + 2 * width
    return ModelShape(
        parameters=vocabulary * width + settings.layers * layer + width,
        vocabulary=vocabulary,
        width=width,
        layers=settings.layers,
        heads=settings.heads,
        query_width=width,
        key_value_width=width,
        feed_forward_width=inner,
    )


def folder_shape(folder: Path, name: str) -> ModelShape:
    """Return the shape of a model on disk, its parameters counted in the headers of its weights.

    Raises UnusableModel.
    """
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return shape_of(config, counted_parameters(folder))
    except (OSError, ValueError) as error:
        raise UnusableModel(f"the memory that {name} needs is unknown: {error}") from error


def counted_parameters(folder: Path) -> int:
    """Return the parameters of a model on disk by the headers of its weights.

    Raises OSError or ValueError where these are unreadable.
    """
    return sum(_numbers(path) for path in sorted(folder.glob("*.safetensors")))


def check_fits(
    wanted: Estimate, earlier: Sequence[Estimate], in_use: int, available: int, limit_mib: int
) -> None:
    """Raise UnusableModel when the process would outgrow the limit, or what is available.

    earlier: of the process's other policies, whose peaks may still come. in_use: bytes that the
    process has already. limit_mib: 0 is none.
    """
    total = wanted.total + sum(one.total - one.runtime for one in earlier)
    short, of = (
        (total > limit_mib * _MIB, f"policy.memory_limit_mib = {limit_mib}")
        if limit_mib
        else (total - in_use > available, f"{_gib(available)} that are available here")
    )
    if short:
        raise UnusableModel(
            f"the model may need {_gib(total)} at its peak, more than the {of} "
            f"({described(wanted)}); train adapters (policy.lora.rank=16), bound the activations "
            f"(training.activation_mib=512), sample less, or raise policy.memory_limit_mib if "
            "you know better"
        )


def described(wanted: Estimate) -> str:
    """The parts of an estimate in words."""
    parts = {
        "program": wanted.runtime,
        "weights": wanted.weights,
        "reference": wanted.reference,
        "optimizer": wanted.optimizer,
        "reward models": wanted.reward_models,
        "sampling": wanted.sampling,
        "or judging": wanted.judging,
        "or training": wanted.training,
        "gaps": wanted.gaps,
    }
    return ", ".join(f"{name} {_gib(size)}" for name, size in parts.items() if size)


def _gib(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"


def _numbers(path: Path) -> int:
    """Count the numbers of a safetensors file by its header: a length, then JSON.

    Raises ValueError where it is none.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(_LONGEST_HEADER, path.stat().st_size):
            raise ValueError(f"{path.name} is cut off or no safetensors file")
        header = json.loads(file.read(length))
    try:
        shapes = [each["shape"] for name, each in header.items() if name != "__metadata__"]
        return sum(math.prod(map(int, shape)) for shape in shapes)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path.name} has a header without shapes") from error
