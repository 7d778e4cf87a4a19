"""A policy as a folder of transformers: config.json, safetensors and tokenizer.json.

What is written loads with AutoModelForCausalLM.from_pretrained and AutoTokenizer.from_pretrained in
a program that knows nothing of this one, and gives the same ids and the same answers. Knows no
checkpoints and no model cards.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from transformers import GenerationConfig
from transformers.utils import logging

from swarmnode.policy.fast_phrases import fast_tokenizer
from swarmnode.policy.policy import Policy
from swarmnode.policy.text import PhraseCodec
from swarmnode.policy.tokenizer import END_ID, PAD_ID, PhraseTokenizer

ExportForm = Literal["merged", "adapter"]
"""The whole model, an adapter's part of it included; or the adapter alone."""


class CannotExport(Exception):
    """The policy has no such form; one line for the user."""


def export_policy(policy: Policy, folder: Path, form: ExportForm) -> None:
    """Write the policy into an empty folder. Raises CannotExport, and OSError."""
    if form == "adapter":
        raise CannotExport(
            f"{policy.name} was trained as a whole and has no adapter; leave that out"
        )
    if not isinstance(policy.codec, PhraseCodec):
        raise CannotExport(f"{policy.name} cannot be exported by this version")
    policy.model.generation_config = GenerationConfig(
        do_sample=False, eos_token_id=END_ID, pad_token_id=PAD_ID
    )
    logging.disable_progress_bar()
    policy.model.save_pretrained(folder)
    fast_tokenizer(PhraseTokenizer.load()).save_pretrained(folder)
