"""Small real sequence-classification models on disk, and what transformers itself says of texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForSequenceClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from tests.unit.model_support import CHAT, chat_tokenizer

TEXTS = (
    ("Calculate 3 + 4.", "7"),
    ("Calculate 12 + 34.", "the answer is 46, user and assistant and so on"),
    ("Why?", "because of the answer"),
    ("Calculate 3 + 4.", ""),
    ("the answer is 46, user and assistant", "12 + 34"),
)
KINDS = ("bert", "roberta", "gpt2", "llama", "llama-unpadded", "qwen2-chat")
_SIZES: dict[str, Any] = {
    "vocab_size": 304,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "initializer_range": 0.3,
}


def pair_tokenizer(*, tells_kinds: bool = True) -> PreTrainedTokenizerFast:
    """Bytes between marks, in the form of BERT, or of RoBERTa, which tells models of no kinds."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[CLS]", "[SEP]"])}
    vocabulary |= {letter: 3 + number for number, letter in enumerate(alphabet)}
    backend = Tokenizer(models.BPE(vocabulary, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["[PAD]", "[CLS]", "[SEP]"])
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_input_names=["input_ids", "attention_mask", *["token_type_ids"] * tells_kinds],
    )


def small_classifier(kind: str, labels: int = 1, **changes: Any) -> Any:
    """A random one; the norms' and biases' starts don't matter to what is tested."""
    torch.manual_seed(len(kind) + labels)
    told = {"num_labels": labels, **changes}
    match kind:
        case "bert":
            return BertForSequenceClassification(BertConfig(**_SIZES, pad_token_id=0, **told))
        case "roberta":
            return RobertaForSequenceClassification(
                RobertaConfig(**_SIZES, pad_token_id=0, type_vocab_size=1, **told)
            )
        case "gpt2":
            config = GPT2Config(
                **{"vocab_size": 304, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128},
                **{"initializer_range": 0.3, "pad_token_id": 0, "eos_token_id": 0},
                **told,
            )
            return GPT2ForSequenceClassification(config)
        case "qwen2-chat":
            return Qwen2ForSequenceClassification(
                Qwen2Config(**_SIZES, num_key_value_heads=2, pad_token_id=0, **told)
            )
        case _:
            padding = None if kind == "llama-unpadded" else 0
            return LlamaForSequenceClassification(
                LlamaConfig(**_SIZES, num_key_value_heads=2, pad_token_id=padding, **told)
            )


def write_classifier(folder: Path, kind: str, labels: int = 1, **changes: Any) -> Path:
    """A whole one on disk."""
    small_classifier(kind, labels, **changes).eval().save_pretrained(folder)
    pairs = kind in ("bert", "roberta")
    chat = CHAT if kind == "qwen2-chat" else None
    told = pair_tokenizer(tells_kinds=kind == "bert")
    (told if pairs else chat_tokenizer(chat)).save_pretrained(folder)
    return folder


@torch.no_grad()
def transformers_logits(folder: Path, texts: Sequence[tuple[str, str]] = TEXTS) -> torch.Tensor:
    """Of each text alone, by the models' own forward and the tokenizer's own call."""
    model: Any = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    rows = []
    for prompt, completion in texts:
        if tokenizer.chat_template:
            turns = [
                {"role": "user", "content": prompt},
                {"role": "assistant", "content": completion},
            ]
            ids = tokenizer(
                tokenizer.apply_chat_template(turns, tokenize=False), add_special_tokens=False
            ).input_ids
        elif tokenizer.sep_token:
            read = tokenizer([(prompt, completion)], return_tensors="pt")
            rows.append(model(**read).logits[0])
            continue
        else:
            ids = tokenizer(f"{prompt}\n{completion}").input_ids
        rows.append(model(input_ids=torch.tensor([ids])).logits[0])
    return torch.stack(rows)
