"""From settings to a policy: where each kind of model comes from. Knows no warm start."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers.modeling_utils import PreTrainedModel

from swarmnode.config.policy import PolicySettings
from swarmnode.config.rounds import Rounds
from swarmnode.config.training import Training
from swarmnode.policy.device import choose_device, choose_dtype
from swarmnode.policy.engine import check_engine, choose_engine
from swarmnode.policy.hub import check_folder, hub_folder, open_codec, open_model
from swarmnode.policy.lora import add_adapters
from swarmnode.policy.memory import Estimate, estimate
from swarmnode.policy.names import ModelKind, UnusableModel, model_kind, policy_name
from swarmnode.policy.policy import Policy
from swarmnode.policy.preflight import folder_shape, tiny_shape, workload
from swarmnode.policy.smollm2 import smollm2_folder
from swarmnode.policy.text import PhraseCodec, TextCodec
from swarmnode.policy.tiny import build_tiny
from swarmnode.policy.tokenizer import PhraseTokenizer


def load_policy(settings: PolicySettings, seed: int, models: Path | None = None) -> Policy:
    """Build the policy that the settings name, on its device; ready to sample and to be trained.

    The random start of `tiny` follows from the seed alone. `models` is where converted models are
    kept. Raises UnusableModel (swarmnode.policy.names), whose text is one line for the user.
    """
    _check_adapters(settings)
    name, lora = policy_name(settings.model), settings.lora.rank > 0
    device = choose_device(settings.device)
    check_engine(settings.engine, device)
    dtype, kept = _formats(settings, device)
    model, codec, origin = _opened(settings, seed, models, kept)
    model = model.to(device)
    if lora:
        add_adapters(model, settings.lora, seed)
    return Policy(
        name,
        model,
        codec,
        choose_engine(model, settings.engine, release=settings.release_memory),
        origin=origin if lora else "",
        autocast=None if dtype == kept else dtype,
    )


def estimated_memory(
    settings: PolicySettings,
    training: Training,
    rounds: Rounds,
    models: Path | None,
    ranks: int = 1,
) -> Estimate:
    """Estimate what the policy will need, reading no weights; of several ranks that train it, the
    first. Raises UnusableModel."""
    _check_adapters(settings)
    device = choose_device(settings.device)
    check_engine(settings.engine, device)
    if model_kind(settings.model) is ModelKind.TINY:
        shape = tiny_shape(settings.tiny, len(PhraseTokenizer.load()))
    else:
        folder = model_folder(settings, models, to_load=False)
        check_folder(folder, settings.model)
        shape = folder_shape(folder, settings.model)
    _, kept = _formats(settings, device)
    adapters = settings.lora.rank > 0
    training = training.for_model(settings.model, adapters=adapters, device=device.type)
    return estimate(shape, workload(settings, training, rounds, kept.itemsize, ranks))


def _check_adapters(settings: PolicySettings) -> None:
    if settings.lora.rank > 0 and model_kind(settings.model) is ModelKind.TINY:
        raise UnusableModel(
            "policy.lora.rank is for models that know something already: tiny learns all of it here"
            " and is trained as a whole; set policy.lora.rank=0, or policy.model to another one"
        )


def _formats(settings: PolicySettings, device: torch.device) -> tuple[torch.dtype, torch.dtype]:
    """What products are computed in, and what weights are kept in: float32 if they are trained."""
    if settings.model == "tiny":
        return torch.float32, torch.float32
    frozen = settings.lora.rank > 0
    dtype = choose_dtype(settings.dtype, device, frozen=frozen)
    return dtype, dtype if frozen else torch.float32


def _opened(
    settings: PolicySettings, seed: int, models: Path | None, dtype: torch.dtype
) -> tuple[PreTrainedModel, TextCodec, str]:
    """The model, its codec, and which files they are from."""
    if model_kind(settings.model) is ModelKind.TINY:
        phrases = PhraseCodec(PhraseTokenizer.load())
        model = build_tiny(settings.tiny, phrases.vocabulary_size, seed)
        return model, phrases, f"seed {seed}"
    folder = model_folder(settings, models)
    model = open_model(folder, settings.model, dtype)
    codec = open_codec(
        folder,
        settings.model,
        model,
        thinking=settings.thinking,
        instruction=settings.instruction,
    )
    return model, codec, folder.name


def model_folder(settings: PolicySettings, models: Path | None, *, to_load: bool = True) -> Path:
    """Return the folder of a model that is none of our making, converting or downloading it.

    to_load: whether a converted one is checked byte by byte.
    """
    match model_kind(settings.model):
        case ModelKind.SMOLLM2:
            if models is None:
                raise ValueError("a converted model needs a folder to be kept in")
            return smollm2_folder(models, to_load=to_load)
        case ModelKind.HUB:
            return hub_folder(settings.model, settings.revision)
        case _:
            return Path(settings.model).expanduser()
