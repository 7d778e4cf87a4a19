"""Low-rank adapters by peft: put into a model, switched off for the reference, taken out again.

The model stays the transformers module that it was; its adapted layers are peft's, which the native
forward reads as they are. Adapters are float32 whatever the weights below them are. peft is an
extra and imported only when an adapter is asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_utils import PreTrainedModel

from swarmnode.config.policy import LoraSettings
from swarmnode.policy.names import UnusableModel

ADAPTER = "default"


def add_adapters(model: PreTrainedModel, settings: LoraSettings, seed: int) -> None:
    """Freeze the model and give its layers adapters that change nothing yet.

    A is drawn with the seed, B is zero (arXiv 2106.09685, section 4.1). Raises UnusableModel.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise UnusableModel(
            "policy.lora.rank needs the package peft: pip install 'swarmnode-rl[lora]'"
        ) from error
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules=list(settings.targets) or _linear_layers(model),
        lora_dropout=0.0,
        bias="none",
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            inject_adapter_in_model(config, model, adapter_name=ADAPTER)
        except ValueError as error:
            raise UnusableModel(f"policy.lora.targets: {str(error).splitlines()[0]}") from error
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()


def has_adapters(model: nn.Module) -> bool:
    """Whether the model is trained by adapters."""
    return next(_adapted(model), None) is not None


@contextlib.contextmanager
def disabled_adapters(model: nn.Module) -> Iterator[None]:
    """Make the model what it was before training while entered."""
    for _, layer in _adapted(model):
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for _, layer in _adapted(model):
            layer.enable_adapters(True)


@torch.no_grad()
def merged_weights(model: PreTrainedModel) -> dict[str, Tensor]:
    """Return the state of the plain model, what adapters add included."""
    layers = dict(_adapted(model))
    state = {}
    for name, tensor in model.state_dict().items():
        if ".lora_" in name:
            continue
        owner, _, last = name.rpartition(".")
        layer = layers.get(owner.removesuffix(".base_layer"))
        if layer is not None and last == "weight":
            added = layer.get_delta_weight(ADAPTER).float()
            tensor = (tensor.float() + added).to(tensor.dtype)
        state[name.replace(".base_layer.", ".")] = tensor
    return state


def adapter_weights(model: PreTrainedModel) -> dict[str, Tensor]:
    """Return the adapters' tensors under the names that peft gives them in files."""
    return {
        f"base_model.model.{name.replace(f'.{ADAPTER}.', '.')}": tensor.contiguous()
        for name, tensor in model.state_dict().items()
        if ".lora_" in name
    }


def adapter_config(model: PreTrainedModel) -> Any:
    """Return peft's configuration of the adapters."""
    return model.peft_config[ADAPTER]


def _adapted(model: nn.Module) -> Iterator[tuple[str, Any]]:
    for name, module in model.named_modules():
        if hasattr(module, "base_layer") and hasattr(module, "lora_A"):
            yield name, module


def _linear_layers(model: PreTrainedModel) -> list[str]:
    """The names of all linear layers but the head, each once."""
    head = model.get_output_embeddings()
    names = {
        name.rpartition(".")[2]
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and module is not head
    }
    if not names:
        raise UnusableModel(
            f"{type(model).__name__} has no linear layers; name what is to get adapters with "
            "policy.lora.targets"
        )
    return sorted(names)
