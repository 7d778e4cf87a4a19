"""What the policy's process needs at its peak, from a model's shape and what a round asks of it.

Pure arithmetic on sizes that are known before anything is loaded; imports no torch. Each term is
what the code holds at that moment; tests hold the activations' against what autograd really keeps
and docs/models.md holds the whole against measured peaks. Bytes everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PROMPT_TOKENS = 80
"""Tokens of a prompt: a question of the easy levels in its chat template."""
EXAMPLE_TOKENS = 50
"""Of a solved question that is shown before it."""
RUNTIME_BYTES = 400 * 2**20
"""A process with torch and transformers imported and no model, as measured on Linux."""
CHUNK_BYTES = 4 * 2**26
"""The head's chunk of logits (training/logprobs.py) with its softmax and both gradients."""
GAPS_SHARE = 0.1
"""Of what a phase holds: what an allocator keeps free between blocks that another size left."""
_FLOAT = 4


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What the estimate must know of a model."""

    parameters: int
    """Distinct ones: a tied head counts once."""
    vocabulary: int
    width: int
    layers: int
    heads: int
    query_width: int
    key_value_width: int
    feed_forward_width: int


@dataclass(frozen=True, slots=True)
class Workload:
    """What a round asks of the policy."""

    questions: int
    completions: int
    groups: int
    """That a round may train on, own and external."""
    new_tokens: int
    micro_batch_tokens: int
    activation_bytes: int
    """Limit of a micro-batch's activations; 0 is none."""
    lora_rank: int
    """0 trains all weights."""
    keeps_reference: bool
    """Whether a copy of the starting weights is kept."""
    weight_bytes: int
    """Of one number of the weights: 4, or 2 where they are frozen in half precision."""
    prompt_tokens: int
    ranks: int = 1
    """Processes that train together, over which the policy is spread."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes at the peak, by what they are for; over several ranks those of the first one."""

    runtime: int
    weights: int
    reference: int
    optimizer: int
    """Both moments of what is trained."""
    sampling: int
    """A gathered copy of the weights, keys and values, logits."""
    training: int
    """Gradients, activations of the largest micro-batch, a chunk of logits."""
    reward_models: int = 0
    """Their weights."""
    judging: int = 0
    """What the largest of them needs while it judges."""

    @property
    def gaps(self) -> int:
        """What is free at the peak and can't be used."""
        return int(GAPS_SHARE * max(self.sampling, self.judging, self.training))

    @property
    def trained(self) -> int:
        """What is trained, once, of one rank: what a trainer sends to those who sample."""
        return self.optimizer // 2

    @property
    def total(self) -> int:
        """The peak: sampling, judging and training follow each other."""
        lasting = self.runtime + self.weights + self.reference + self.optimizer
        lasting += self.reward_models + self.gaps
        return lasting + max(self.sampling, self.judging, self.training)


def estimate(shape: ModelShape, work: Workload) -> Estimate:
    """Return what a policy of this shape needs at its peak.

    Spread over ranks, weights, moments and gradients are shared out; the first rank gathers all
    weights to sample, and each gathers a layer at a time to train.
    """
    trained = _adapter_parameters(shape, work.lora_rank) if work.lora_rank else shape.parameters
    weights = shape.parameters * work.weight_bytes
    adapters = trained * _FLOAT if work.lora_rank else 0
    gathered = weights if work.ranks > 1 else 0
    units = _gathered_bytes(shape) if work.ranks > 1 else 0
    return Estimate(
        runtime=RUNTIME_BYTES,
        weights=(weights + adapters) // work.ranks,
        reference=weights // work.ranks if work.keeps_reference and not work.lora_rank else 0,
        optimizer=2 * trained * _FLOAT // work.ranks,
        sampling=gathered + weights + _sampling_bytes(shape, work),
        training=trained * _FLOAT // work.ranks + units + _training_bytes(shape, work),
    )


def activation_bytes(shape: ModelShape, positions: int) -> int:
    """Return what the native forward keeps of so many positions for the backward pass.

    In a layer: its input and the normed one, twice; queries and keys as rotated, values, the
    attended values, and their normalisation; gate, up and their product. After the last layer the
    hidden states and the normed ones.
    """
    return positions * _FLOAT * (shape.layers * _layer_floats(shape) + 2 * shape.width)


def shape_of(config: Mapping[str, Any], parameters: int) -> ModelShape:
    """Return the shape of a model of transformers from its config.json.

    Names are those of the Llama family, then GPT-2's; ValueError when it has neither.
    """
    text = {**config, **config.get("text_config", {})}

    def value(*names: str) -> int:
        found = next((text[name] for name in names if text.get(name)), None)
        if not isinstance(found, int):
            raise ValueError(f"its config.json has no {names[0]}")
        return found

    width, heads = value("hidden_size", "n_embd"), value("num_attention_heads", "n_head")
    head_width = text.get("head_dim") or width // heads
    return ModelShape(
        parameters=parameters,
        vocabulary=value("vocab_size"),
        width=width,
        layers=value("num_hidden_layers", "n_layer"),
        heads=heads,
        query_width=heads * head_width,
        key_value_width=(text.get("num_key_value_heads") or heads) * head_width,
        feed_forward_width=text.get("intermediate_size") or text.get("n_inner") or 4 * width,
    )


def _layer_floats(shape: ModelShape) -> int:
    attention = 2 * (shape.query_width + shape.key_value_width) + shape.heads
    return 4 * shape.width + attention + 3 * shape.feed_forward_width + 2


def _sampling_bytes(shape: ModelShape, work: Workload) -> int:
    rows = work.questions * work.completions
    cached = work.questions * work.prompt_tokens + rows * work.new_tokens
    keys_and_values = cached * shape.layers * 2 * shape.key_value_width * work.weight_bytes
    # Logits, scaled ones, log-probs, probabilities and their running sum.
    logits = 5 * rows * shape.vocabulary * _FLOAT
    return keys_and_values + logits


def _training_bytes(shape: ModelShape, work: Workload) -> int:
    """Of the largest micro-batch, all rows being as long as can be."""
    length = work.prompt_tokens + work.completions * (work.new_tokens - 1)
    together = max(1, work.micro_batch_tokens // length)
    positions = min(-(-work.groups // work.ranks), together) * length
    kept = activation_bytes(shape, positions)
    one_layer = positions * _FLOAT * _layer_floats(shape)
    if work.activation_bytes and kept > work.activation_bytes:
        # Of a single group that is over the limit only the layers' inputs are kept.
        recomputed = length * _FLOAT * (shape.layers * shape.width + _layer_floats(shape))
        kept = max(work.activation_bytes, recomputed)
        one_layer = min(one_layer, length * _FLOAT * _layer_floats(shape))
    logits = min(CHUNK_BYTES, 4 * positions * shape.vocabulary * _FLOAT)
    return kept + one_layer + logits


def _gathered_bytes(shape: ModelShape) -> int:
    """What is whole at once in a backward pass over ranks: all that is outside of layers, two
    layers, since one is fetched ahead, and the gradients of the first two of these."""
    attention = 2 * shape.width * (shape.query_width + shape.key_value_width)
    layer = attention + 3 * shape.width * shape.feed_forward_width
    outside = shape.parameters - shape.layers * layer
    return (2 * outside + 3 * layer) * _FLOAT


def _adapter_parameters(shape: ModelShape, rank: int) -> int:
    """With adapters in every matrix of the layers."""
    inputs_and_outputs = (
        (shape.width, shape.query_width),
        (shape.width, shape.key_value_width),
        (shape.width, shape.key_value_width),
        (shape.query_width, shape.width),
        (shape.width, shape.feed_forward_width),
        (shape.width, shape.feed_forward_width),
        (shape.feed_forward_width, shape.width),
    )
    return shape.layers * rank * sum(one + other for one, other in inputs_and_outputs)
