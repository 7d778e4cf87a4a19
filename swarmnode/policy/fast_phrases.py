"""The phrase tokenizer in the form of the `tokenizers` library, which everybody can load.

The same ids for every text. Greedy longest match is an alternation, longest first, that cuts a
text into known phrases and the rest; each piece is then looked up whole, and what is no phrase goes
byte by byte, which is BPE without merges. A byte that is a phrase of its own as well has a name
that no text can give, since the phrase is what texts encode to. The chat template is the form that
`tiny` is asked in.
"""

from __future__ import annotations

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from swarmnode.policy.tokenizer import ANSWER_ID, END_ID, PAD_ID, PhraseTokenizer

SPECIAL = {PAD_ID: "<|pad|>", END_ID: "<|end|>", ANSWER_ID: "<|answer|>"}
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}<|end|>{% else %}<|answer|>{% endif %}"
    "{% endfor %}"
)
"""A question ends with the answer token whether or not a prompt for generation is asked for."""
_HIDDEN = "\ue000"
"""Not among the characters that stand for bytes, so that no piece of a text holds it."""


def fast_tokenizer(tokenizer: PhraseTokenizer) -> PreTrainedTokenizerFast:
    """Return the tokenizer with the ids of `tokenizer`, special tokens and template included."""
    pieces = tokenizer.pieces()
    names = {piece: _byte_text(piece) for piece in pieces}
    phrases = {names[piece] for piece in pieces[256:]}
    vocabulary = {text: identifier for identifier, text in SPECIAL.items()}
    for number, piece in enumerate(pieces, start=len(SPECIAL)):
        name = names[piece]
        is_byte = number < len(SPECIAL) + 256
        vocabulary[_HIDDEN + name if is_byte and name in phrases else name] = number
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    longest_first = sorted((piece.decode() for piece in pieces[256:]), key=len, reverse=True)
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex("|".join(map(_escaped, longest_first))), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.Sequence([decoders.Replace(_HIDDEN, ""), decoders.ByteLevel()])
    backend.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL.values()])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=SPECIAL[PAD_ID],
        eos_token=SPECIAL[END_ID],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )


def _byte_text(piece: bytes) -> str:
    """The bytes in the alphabet of ByteLevel (GPT-2): one printable character for each."""
    return "".join(_ALPHABET[value] for value in piece)


def _alphabet() -> dict[int, str]:
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [value for value in range(256) if value not in plain]
    return {value: chr(value) for value in plain} | {
        value: chr(256 + place) for place, value in enumerate(others)
    }


_ALPHABET = _alphabet()


def _escaped(text: str) -> str:
    """A text as a pattern of Oniguruma that matches it alone."""
    return "".join(
        character if character.isalnum() else f"\\x{{{ord(character):x}}}" for character in text
    )
