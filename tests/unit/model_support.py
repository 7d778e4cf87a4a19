"""Small real models of transformers on disk, for the tests of loading and of codecs."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, PreTrainedTokenizerFast
from transformers.models.gpt2.configuration_gpt2 import GPT2Config
from transformers.models.gpt2.modeling_gpt2 import GPT2LMHeadModel
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaForCausalLM

from swarmnode.policy.policy import Policy

END_OF_TEXT, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' "
    "+ message['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% if enable_thinking is defined and not enable_thinking %}{{ '-' }}{% endif %}{% endif %}"
)
WORDS = ["Calculate 12 + 34.", "the answer is 46, user and assistant", "im_start im_end | < >"]


def chat_tokenizer(template: str | None = CHAT) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer with chat tokens, whose padding token is its end token."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = [AddedToken(one, special=True) for one in (END_OF_TEXT, START, END)]
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(WORDS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=END_OF_TEXT,
        pad_token=END_OF_TEXT,
        additional_special_tokens=[START, END],
        chat_template=template,
    )


def small_llama(seed: int = 0, vocabulary_size: int = 304) -> LlamaForCausalLM:
    """A random Llama of two layers."""
    config = LlamaConfig(
        vocab_size=vocabulary_size,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        initializer_range=0.3,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=[0, 2],
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(eos_token_id=[0, 2], pad_token_id=0)
    return model.eval()


def small_gpt2() -> GPT2LMHeadModel:
    """A random GPT-2, which has absolute positions, dropout and no native forward."""
    config = GPT2Config(
        vocab_size=304, n_embd=32, n_layer=2, n_head=4, n_positions=256, eos_token_id=0
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return GPT2LMHeadModel(config).eval()


def write_model(folder: Path, template: str | None = CHAT) -> Path:
    """A whole model on disk."""
    small_llama().save_pretrained(folder)
    chat_tokenizer(template).save_pretrained(folder)
    return folder


def packed() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Ids, positions and segments of one row: a prompt and two completions of it."""
    ids = torch.arange(3, 11)[None]
    return ids, torch.tensor([[0, 1, 2, 3, 3, 4, 3, 4]]), torch.tensor([[0, 0, 0, 0, 1, 1, 2, 2]])


def logits(policy: Policy) -> torch.Tensor:
    """Of that row, (1, 8, vocabulary)."""
    return policy.head(policy.tree_hidden(*packed())).detach()


def disturb(policy: Policy) -> None:
    """Move everything that is trained."""
    with torch.no_grad():
        for parameter in policy.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.full_like(parameter, 0.05))
