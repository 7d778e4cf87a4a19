"""Settings of the policy: which model, how it samples, how `tiny` is warm-started."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarmnode.config.base import Section

PositiveInt = Annotated[int, Field(ge=1)]


class TinySettings(Section):
    """The shape of the built-in model `tiny`."""

    width: Annotated[int, Field(ge=16, le=512, multiple_of=2)] = 64
    """Width of the hidden states; a multiple of twice the number of heads."""
    layers: Annotated[int, Field(ge=1, le=16)] = 2
    """Number of decoder layers."""
    heads: Annotated[int, Field(ge=1, le=16)] = 4
    """Number of attention heads in a layer."""
    feed_forward_width: Annotated[int, Field(ge=16, le=2048)] = 192
    """Inner width of a layer's feed-forward part."""
    initial_deviation: Annotated[float, Field(gt=0, le=1)] = 0.05
    """Standard deviation of the random starting weights."""


class WarmStartSettings(Section):
    """The supervised warm start of `tiny` on questions and answers of easy levels.

    A base is trained on every task, shared by all nodes; a specialist goes on from it with the
    tasks of its node.
    """

    base_steps: Annotated[int, Field(ge=0)] = 950
    """Steps of the shared base; 0 leaves it out."""
    base_pairs_per_task: PositiveInt = 1000
    """Questions and answers of each task that the base learns from."""
    steps: Annotated[int, Field(ge=0)] = 30
    """Steps of a specialist after the base; 0 leaves it out."""
    pairs_per_task: PositiveInt = 250
    """Questions and answers of each of its tasks that a specialist learns from."""
    batch_size: PositiveInt = 16
    """Questions and answers in a step."""
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 7e-3
    """Highest learning rate of the base, of Muon for the layers' matrices and of AdamW for the
    rest, reached after the first tenth of the steps."""
    skill_learning_rate: Annotated[float, Field(gt=0, le=1)] = 3e-3
    """The same for a specialist; lower, so that it keeps what the base knows."""
    weight_decay: Annotated[float, Field(ge=0, le=1)] = 0.01
    """Weight decay, per unit of learning rate."""


class PolicySettings(Section):
    """The node's language model and how it samples."""

    model: str = "tiny"
    """The model's name: `tiny`, the built-in one."""
    temperature: Annotated[float, Field(gt=0, le=10)] = 1.0
    """Sampling temperature; log-probs are those of the distribution at this temperature."""
    max_new_tokens: Annotated[int, Field(ge=1, le=4096)] = 20
    """Longest completion in tokens, the end token included; a longer one is cut off."""
    skills: tuple[str, ...] = ()
    """Tasks that the own warm start of `tiny` teaches on a real network; empty takes two that
    follow from the node's key. A simulation has its own setting for all its nodes."""
    tiny: TinySettings = TinySettings()
    """The shape of `tiny`."""
    warm_start: WarmStartSettings = WarmStartSettings()
    """The supervised warm start of `tiny`."""
