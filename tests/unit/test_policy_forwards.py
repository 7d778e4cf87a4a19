"""Packed rows give the hidden states and gradients of rows computed one by one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import Gemma2Config, Gemma2ForCausalLM
from transformers.modeling_utils import PreTrainedModel

from swarmnode.config.policy import PolicySettings
from swarmnode.policy.decoder import Decoder
from swarmnode.policy.forwards import NativeForward, TrainingForward, choose_forward
from swarmnode.policy.hf_forward import HuggingFaceForward
from swarmnode.policy.loading import load_policy
from swarmnode.policy.matrices import UnsupportedModel
from swarmnode.training.groups import RecomputingModel
from swarmnode.training.packing import PackedBatch, TreeRow, pack
from tests.unit.policy_models import NATIVE, VOCABULARY, small_model

ROWS = [
    TreeRow((5, 6, 7), ((8, 9, 1), (10, 1), (11, 12, 13, 14), (10, 1))),
    TreeRow((20,), ((0, 0, 1), (0, 1), (3,))),
    TreeRow((21, 22, 23, 24, 25), ((26,), (27,))),
]


def packed(rows: Sequence[TreeRow] = ROWS) -> PackedBatch:
    return pack(rows, torch.device("cpu"))


def logprobs(forward: TrainingForward, batch: PackedBatch, **asked: Any) -> Tensor:
    hidden = forward.tree_hidden(batch.token_ids, batch.positions, batch.segments, **asked)
    logits = forward.head(hidden.flatten(0, 1)[batch.predictors])
    return logits.log_softmax(-1)[batch.predictor_of_token, batch.targets]


def one_by_one(model: PreTrainedModel, rows: Sequence[TreeRow] = ROWS) -> Tensor:
    collected = []
    for row in rows:
        for completion in row.completions:
            logits = model(torch.tensor([[*row.prompt_ids, *completion]])).logits[0]
            distribution = logits[len(row.prompt_ids) - 1 : -1].log_softmax(-1)
            collected.append(distribution.gather(1, torch.tensor(completion).unsqueeze(1))[:, 0])
    return torch.cat(collected)


def gradient(model: PreTrainedModel, values: Tensor) -> Tensor:
    weighting = torch.linspace(-1, 1, len(values))
    gradients = torch.autograd.grad((values * weighting).sum(), list(model.parameters()))
    return torch.cat([one.flatten() for one in gradients])


def counted(work: Callable[[], Tensor]) -> tuple[Tensor, int]:
    """What `work` gives, and how many bytes autograd keeps for it."""
    sizes: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        made = work()
    return made, sum(sizes.values())


def forwards(model: PreTrainedModel, family: str) -> list[TrainingForward]:
    fallbacks: list[TrainingForward] = [
        HuggingFaceForward(model),
        HuggingFaceForward(model, length_multiple=64),
    ]
    if family == "gpt2":
        return fallbacks
    return [NativeForward(Decoder(model)), NativeForward(Decoder(model), 64), *fallbacks]


@pytest.mark.parametrize("family", [*NATIVE, "gpt2"])
@pytest.mark.parametrize("recomputed", [False, True])
def test_packed_rows_give_the_values_and_gradients_of_single_ones(
    family: str, recomputed: bool
) -> None:
    model = small_model(family)
    expected = one_by_one(model)
    expected_gradient = gradient(model, expected)
    for forward in forwards(model, family):
        values = logprobs(forward, packed(), checkpoint_activations=recomputed)
        torch.testing.assert_close(values, expected, atol=1e-4, rtol=0.0)
        difference = gradient(model, values) - expected_gradient
        assert difference.abs().max() < 1e-5 * expected_gradient.abs().max()


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_recomputed_layers_keep_less_and_leave_the_model_as_it_was(family: str) -> None:
    model = small_model(family)
    forward = choose_forward(model)
    _, much = counted(lambda: logprobs(forward, packed()))
    _, little = counted(lambda: logprobs(forward, packed(), checkpoint_activations=True))
    assert little < 0.8 * much
    assert not any("forward" in vars(module) for module in model.modules())
    assert not model.training


def test_dropout_stays_off() -> None:
    model = small_model("gpt2").train()
    forward = choose_forward(model)
    first, second = (
        logprobs(forward, packed(), checkpoint_activations=recomputed)
        for recomputed in (False, True)
    )
    torch.testing.assert_close(first, second)
    torch.testing.assert_close(first, one_by_one(small_model("gpt2")), atol=1e-4, rtol=0.0)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_fault_21_shapes_stay_few_over_many_rounds(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model(family)
    forward = forwards(model, family)[1]
    embedding = model.get_input_embeddings()
    shapes = set()
    embedding.register_forward_hook(lambda module, inputs, _: shapes.add(tuple(inputs[0].shape)))
    looked_up = torch.nn.functional.embedding

    def recorded(token_ids: Tensor, *arguments: Any, **named: Any) -> Tensor:
        shapes.add(tuple(token_ids.shape))
        return looked_up(token_ids, *arguments, **named)

    monkeypatch.setattr(torch.nn.functional, "embedding", recorded)
    generator = random.Random(0)

    def ids(most: int) -> tuple[int, ...]:
        return tuple(generator.randrange(VOCABULARY) for _ in range(generator.randint(1, most)))

    with torch.no_grad():
        for _ in range(100):
            rows = [TreeRow(ids(20), tuple(ids(12) for _ in range(4))) for _ in range(4)]
            batch = packed(rows)
            forward.tree_hidden(batch.token_ids, batch.positions, batch.segments)
    assert all(width % 64 == 0 for _, width in shapes)
    assert 0 < len(shapes) <= 5


@pytest.mark.parametrize("family", NATIVE)
def test_causal_rows_are_those_of_transformers(family: str) -> None:
    model = small_model(family)
    token_ids = torch.randint(0, VOCABULARY, (3, 11), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = model(token_ids).logits
        for forward in forwards(model, family):
            logits = forward.head(forward.causal_hidden(token_ids))
            torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0.0)


@pytest.mark.parametrize("family", NATIVE)
def test_half_precision_stays_close_to_transformers(family: str) -> None:
    model = small_model(family).bfloat16()
    with torch.no_grad():
        ours = logprobs(choose_forward(model), packed()).float()
        assert (ours - one_by_one(model).float()).abs().mean() < 0.05


def test_models_that_transform_their_logits_are_refused() -> None:
    config = Gemma2Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        initializer_range=1.0,
        final_logit_softcapping=1.0,
    )
    torch.manual_seed(0)
    with pytest.raises(UnsupportedModel, match="transforms its logits"):
        choose_forward(Gemma2ForCausalLM(config))


@pytest.mark.parametrize(
    ("family", "changes", "reason"),
    [
        ("llama", {"hidden_act": "gelu"}, "activation gelu"),
        (
            "qwen2",
            {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
            "sliding",
        ),
        (
            "llama",
            {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}},
            "dynamic",
        ),
    ],
)
def test_what_the_native_forward_does_not_cover_goes_through_transformers(
    family: str, changes: dict[str, Any], reason: str
) -> None:
    model = small_model(family, **changes)
    with pytest.raises(UnsupportedModel, match=reason):
        Decoder(model)
    forward = choose_forward(model)
    assert isinstance(forward, HuggingFaceForward)
    torch.testing.assert_close(logprobs(forward, packed()), one_by_one(model), atol=1e-4, rtol=0.0)


def test_biases_are_read_wherever_a_llama_has_them() -> None:
    model = small_model("llama", attention_bias=True, mlp_bias=True)
    values = logprobs(NativeForward(Decoder(model)), packed())
    torch.testing.assert_close(values, one_by_one(model), atol=1e-4, rtol=0.0)


def test_a_policy_recomputes_its_activations_when_training_asks() -> None:
    policy = load_policy(PolicySettings(), 0)
    assert isinstance(policy, RecomputingModel)
    batch = packed()
    places = (batch.token_ids, batch.positions, batch.segments)
    plain, much = counted(lambda: policy.tree_hidden(*places))
    with policy.recomputed_activations():
        recomputed, little = counted(lambda: policy.tree_hidden(*places))
    assert little < 0.5 * much
    # The backward pass comes after the switch is off again.
    parameters = list(policy.parameters())
    for one, other in zip(
        torch.autograd.grad(plain.square().sum(), parameters),
        torch.autograd.grad(recomputed.square().sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
