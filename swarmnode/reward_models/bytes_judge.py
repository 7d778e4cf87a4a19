"""The built-in reward model: a small Llama over bytes with one output, started at random.

Its tokenizer marks pairs, so that it reads question and answer apart. For toys and first tries;
judging language takes a model that has read some.
"""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaForSequenceClassification

_SPECIAL = ("<pad>", "<answer>", "<end>")
_WIDTH, _LAYERS, _HEADS, _INNER = 64, 2, 4, 192
_DEVIATION = 0.05


def bytes_tokenizer(limit: int) -> PreTrainedTokenizerFast:
    """Bytes, `<answer>` before the answer and `<end>` behind it."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {word: number for number, word in enumerate((*_SPECIAL, *letters))}
    backend = Tokenizer(models.BPE(vocabulary, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(list(_SPECIAL))
    backend.post_processor = processors.TemplateProcessing(
        single="$A <end>",
        pair="$A <answer> $B <end>",
        special_tokens=[(word, vocabulary[word]) for word in _SPECIAL[1:]],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=_SPECIAL[0],
        sep_token=_SPECIAL[1],
        eos_token=_SPECIAL[2],
        model_max_length=limit,
        model_input_names=["input_ids", "attention_mask"],
    )


def bytes_model(limit: int) -> LlamaForSequenceClassification:
    """A random start, from torch's generator as it stands."""
    return LlamaForSequenceClassification(
        LlamaConfig(
            vocab_size=len(_SPECIAL) + 256,
            hidden_size=_WIDTH,
            intermediate_size=_INNER,
            num_hidden_layers=_LAYERS,
            num_attention_heads=_HEADS,
            num_key_value_heads=_HEADS,
            max_position_embeddings=limit,
            rms_norm_eps=1e-5,
            initializer_range=_DEVIATION,
            pad_token_id=0,
            bos_token_id=None,
            eos_token_id=2,
            num_labels=1,
        )
    )
