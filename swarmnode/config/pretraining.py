"""Settings of pre-training: the text domains, the model, the run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from swarmnode.config.base import Section

PositiveInt = Annotated[int, Field(ge=1)]


class TextDomain(Section):
    """One kind of text."""

    name: Annotated[str, Field(pattern=r"^\w[\w-]{0,39}$")]
    """What it is called in the report, and its folder in the cache: letters, digits, `_`, `-`."""
    path: Annotated[str, Field(min_length=1)]
    """A folder, all of whose files are read; a file of JSON lines (`.jsonl`); or a text file.
    Relative ones are taken from the folder of the TOML file."""
    field: str = "text"
    """The key of the text in JSON lines."""


class DecoderShape(Section):
    """The shape of the decoder that is trained; its tokens are bytes."""

    width: Annotated[int, Field(ge=16, le=4096)] = 128
    """Width of the hidden states; a multiple of twice the number of heads."""
    layers: Annotated[int, Field(ge=1, le=64)] = 4
    """Number of decoder layers."""
    heads: Annotated[int, Field(ge=1, le=64)] = 4
    """Number of attention heads in a layer."""
    feed_forward_width: Annotated[int, Field(ge=16, le=16_384)] = 368
    """Inner width of a layer's feed-forward part."""
    initial_deviation: Annotated[float, Field(gt=0, le=1)] = 0.02
    """Standard deviation of the random starting weights."""


class Pretraining(Section):
    """Language modelling over text domains (docs/pretraining.md)."""

    domains: tuple[TextDomain, ...] = ()
    """The domains, in the order of all shares; in a TOML file each is a table
    `[[pretraining.domains]]` with `name`, `path` and, for JSON lines, `field`."""
    model: DecoderShape = DecoderShape()
    """The decoder."""
    context: Annotated[int, Field(ge=8, le=8192)] = 128
    """Tokens of a sequence."""
    steps: PositiveInt = 500
    """Optimizer steps."""
    sequences_per_step: PositiveInt = 32
    """Sequences of a step, over all domains."""
    floor_sequences: Annotated[int, Field(ge=0)] = 1
    """Sequences of each domain that every step has, whatever the scheduler says; the rest is drawn
    by its shares. At 0, what a step didn't show has no gradient and no loss."""
    sequences_at_once: PositiveInt = 16
    """Most sequences of a domain in one forward pass, which bounds memory."""
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 2e-3
    """Highest learning rate of AdamW."""
    learning_rate_schedule: Literal["constant", "cosine"] = "constant"
    """After the rise: `constant`, or `cosine`, which falls to a tenth. A falling rate favours
    whatever has had it fall furthest, so that steps to reach a loss are compared at a constant
    one."""
    rise_steps: Annotated[int, Field(ge=0)] = 20
    """First steps, over which the learning rate rises in a line."""
    weight_decay: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Weight decay of matrices, per unit of learning rate."""
    clip_norm: Annotated[float, Field(gt=0)] = 1.0
    """Longer gradients are scaled down to this."""
    alignment_layers: tuple[int, ...] = ()
    """Layers, counted from 0, whose last feed-forward matrix stands for the gradient of a domain;
    empty takes the last, third and fifth from the end."""
    state_losses: Literal["training", "validation"] = "training"
    """What a scheduler is told of the domains' losses: those of the step's own sequences, or those
    of the last validation, which costs one at every step that has it."""
    loss_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Share of the old loss in a new one of the scheduler's state; training losses of single steps
    are noisy."""
    validate_every: PositiveInt = 25
    """Steps between validations; there is one before the first step and one at the end, too."""
    validation_sequences: PositiveInt = 32
    """Sequences of each domain that are validated on: the same ones every time."""
    most_bytes_per_domain: Annotated[int, Field(ge=0)] = 0
    """Bytes of text of a domain that are trained on at most, the first ones; 0 takes all."""
    checkpoint_every: PositiveInt = 50
    """Steps between checkpoints."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Random seed of the weights, the order of texts, the draws and the agent."""

    @model_validator(mode="after")
    def _fits(self) -> Pretraining:
        names = [domain.name for domain in self.domains]
        if len(set(names)) < len(names):
            raise ValueError("two domains have the same name; give each one of its own")
        if self.floor_sequences * len(names) > self.sequences_per_step:
            raise ValueError(
                f"floor_sequences of {self.floor_sequences} for {len(names)} domains are more than"
                f" the {self.sequences_per_step} sequences of a step; raise sequences_per_step"
            )
        if self.model.width % (2 * self.model.heads):
            raise ValueError(
                f"model.width = {self.model.width} is no multiple of twice the {self.model.heads}"
                " heads"
            )
        if any(not 0 <= layer < self.model.layers for layer in self.alignment_layers):
            raise ValueError(f"alignment_layers are counted from 0 to {self.model.layers - 1}")
        return self
