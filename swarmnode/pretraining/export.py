"""The model that a run leaves: a folder that transformers loads, tokenizer included.

Bytes are tokens: a byte-level BPE without merges, whose 256 characters stand for the bytes in
order, and an end token. transformers and every tool that reads its folders then encode a text as
training did.
"""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from swarmnode.files import write_atomically
from swarmnode.policy.weights import distinct_tensors, save_weights
from swarmnode.pretraining.corpus import END_ID
from swarmnode.pretraining.model import ByteModel

END = "<|end|>"


def save_model(model: ByteModel, folder: Path) -> None:
    """Write model and tokenizer. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    save_weights(distinct_tensors(model.module), folder / "model.safetensors")
    model.module.config.save_pretrained(folder)
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    described = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END}
    write_atomically(folder / "tokenizer_config.json", json.dumps(described, indent=1) + "\n")


def byte_tokenizer() -> Tokenizer:
    """Token i is byte i; the end token is END_ID."""
    vocabulary = {character: number for number, character in enumerate(byte_characters())}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END])
    assert tokenizer.token_to_id(END) == END_ID
    return tokenizer


def byte_characters() -> list[str]:
    """The printable characters that stand for bytes in byte-level tokenizers, by byte.

    As GPT-2 has it: printable Latin-1 characters stand for themselves, the others for those from
    256 on, in order.
    """
    own = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1)}
    own |= set(range(ord("®"), ord("ÿ") + 1))
    others = iter(range(256, 512))
    return [chr(byte if byte in own else next(others)) for byte in range(256)]
