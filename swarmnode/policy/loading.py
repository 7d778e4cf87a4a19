"""From settings to a policy: where each kind of model comes from. Knows no warm start."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers.modeling_utils import PreTrainedModel

from swarmnode.config.policy import PolicySettings
from swarmnode.policy.device import choose_device, choose_dtype
from swarmnode.policy.engine import choose_engine
from swarmnode.policy.hub import hub_folder, open_codec, open_model
from swarmnode.policy.lora import add_adapters
from swarmnode.policy.names import ModelKind, model_kind, policy_name
from swarmnode.policy.policy import Policy
from swarmnode.policy.smollm2 import smollm2_folder
from swarmnode.policy.text import PhraseCodec, TextCodec
from swarmnode.policy.tiny import build_tiny
from swarmnode.policy.tokenizer import PhraseTokenizer


def load_policy(settings: PolicySettings, seed: int, models: Path | None = None) -> Policy:
    """Build the policy that the settings name, on its device; ready to sample and to be trained.

    The random start of `tiny` follows from the seed alone. `models` is where converted models are
    kept. Raises UnusableModel (swarmnode.policy.names), whose text is one line for the user.
    """
    name, lora = policy_name(settings.model), settings.lora.rank > 0
    device = choose_device(settings.device)
    dtype = torch.float32
    if name != "tiny":
        dtype = choose_dtype(settings.dtype, device, frozen=lora)
    # What is trained is kept in float32, and computed with in the shorter format.
    kept = dtype if lora else torch.float32
    model, codec, origin = _opened(settings, seed, models, kept)
    model = model.to(device)
    if lora:
        add_adapters(model, settings.lora, seed)
    return Policy(
        name,
        model,
        codec,
        choose_engine(model, settings.engine),
        origin=origin if lora else "",
        autocast=None if dtype == kept else dtype,
    )


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


def model_folder(settings: PolicySettings, models: Path | None) -> Path:
    """Return the folder of a model that is none of our making, converting or downloading it."""
    match model_kind(settings.model):
        case ModelKind.SMOLLM2:
            if models is None:
                raise ValueError("a converted model needs a folder to be kept in")
            return smollm2_folder(models)
        case ModelKind.HUB:
            return hub_folder(settings.model, settings.revision)
        case _:
            return Path(settings.model).expanduser()
