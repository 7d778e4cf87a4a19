"""The codec of models with a Hugging Face fast tokenizer: their chat template, or a plain form.

A prompt is the model's own chat template up to where the assistant begins to write: the
instruction as the system's turn, examples as turns of user and assistant, and the question as the
last user turn. A base model without a template is asked in the form of PLAIN_PROMPT.
Whether a row is padded with an end token plays no part: lengths say where a completion ends.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from swarmnode.policy.text import Examples
from swarmnode.types import FinishReason

PLAIN_PROMPT = "Question: {question}\nAnswer:\n"
"""How a model without a chat template is asked. It ends with a line break, so that an answer needs
no space before it to be tokenized as the model would have written it."""


class ChatCodec:
    """A tokenizer as a policy uses it."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        end_ids: Sequence[int],
        vocabulary_size: int,
        *,
        thinking: bool = False,
        instruction: str = "",
    ) -> None:
        """Take the ids that end a completion, in any order, and the rows of the model's head.

        thinking: what a template that knows `enable_thinking` is told. instruction: the system's
        turn, which comes first; none where it is empty.
        """
        self._tokenizer = tokenizer
        self._backend = tokenizer.backend_tokenizer
        self._backend.no_truncation()
        self._backend.no_padding()
        self._thinking = thinking
        self._instruction = instruction
        self._vocabulary_size = vocabulary_size
        self._special_texts = [text for text in tokenizer.all_special_tokens if text]
        self._special_ids = {*tokenizer.all_special_ids, *end_ids}
        self._end_ids = self._ordered(end_ids)
        self._fingerprint = self._digest()

    @property
    def end_ids(self) -> tuple[int, ...]:
        """The end tokens; first the one that ends the assistant's turn in the chat template."""
        return self._end_ids

    @property
    def vocabulary_size(self) -> int:
        """Rows of the model's head, which may be more than the tokenizer has ids."""
        return self._vocabulary_size

    def encode_prompt(self, text: str, examples: Examples = ()) -> list[int]:
        """Return the ids of the chat up to the assistant's turn; the question stays plain text.

        Examples are trusted: they come before it as turns of their own.
        """
        if not any(special in text for special in self._special_texts):
            return self._prompt(text, examples)
        # A question that spells a special token: what is around it is encoded apart from it.
        mark = "\ue000"
        before, after = self._rendered(mark, examples).split(mark, 1)
        return [
            *self._encode(before, special=True, whole=self._tokenizer.chat_template is None),
            *self._plain(text),
            *self._encode(after, special=True),
        ]

    def encode_completion(self, text: str, finish_reason: FinishReason) -> list[int]:
        """Return the ids of an answer, with the end token if it stopped by itself.

        A text that spells a special token gets the ids of its characters, never that token's.
        """
        ids = self._plain(text)
        return [*ids, self._end_ids[0]] if finish_reason == "stop" else ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text; special tokens are left out, invalid UTF-8 becomes U+FFFD."""
        text: str = self._backend.decode(
            [one for one in ids if one not in self._special_ids], skip_special_tokens=True
        )
        return text

    def fingerprint(self) -> bytes:
        """Return 32 bytes that change with the tokenizer or the end token; not with the template.

        Where two policies agree on it, a completion of one is the same ids to the other.
        """
        return self._fingerprint

    def save(self, folder: Path) -> None:
        """Write the tokenizer with its template as AutoTokenizer reads it."""
        self._backend.encode_special_tokens = False
        self._tokenizer.save_pretrained(folder)

    def _rendered(self, question: str, examples: Examples) -> str:
        if self._tokenizer.chat_template is None:
            shown = [f"{PLAIN_PROMPT.format(question=one)}{answer}\n\n" for one, answer in examples]
            before = f"{self._instruction}\n\n" if self._instruction else ""
            return before + "".join(shown) + PLAIN_PROMPT.format(question=question)
        text: str = self._tokenizer.apply_chat_template(
            _turns(self._instruction, examples, question),
            add_generation_prompt=True,
            tokenize=False,
            enable_thinking=self._thinking,
        )
        return text

    def _prompt(self, question: str, examples: Examples) -> list[int]:
        # Templates write the start token themselves.
        whole = self._tokenizer.chat_template is None
        ids = self._encode(self._rendered(question, examples), special=True, whole=whole)
        return ids[:-1] if whole and ids[-1] in self._special_ids else ids

    def _plain(self, text: str) -> list[int]:
        ids = self._encode(text, special=False)
        if self._special_ids.isdisjoint(ids):
            return ids
        # Some vocabularies spell a special token like any other word.
        spelled = [one for character in text for one in self._encode(character, special=False)]
        return [one for one in spelled if one not in self._special_ids]

    def _encode(self, text: str, *, special: bool, whole: bool = False) -> list[int]:
        """Encode; `special` reads special tokens in the text, `whole` adds a start token."""
        self._backend.encode_special_tokens = not special
        valid = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        ids: list[int] = self._backend.encode(valid, add_special_tokens=whole).ids
        return ids

    def _ordered(self, end_ids: Sequence[int]) -> tuple[int, ...]:
        distinct = list(dict.fromkeys(end_ids))
        if not distinct:
            raise ValueError("a model needs at least one end token")
        first = self._turn_end(distinct)
        return (first, *(one for one in distinct if one != first))

    def _turn_end(self, end_ids: Sequence[int]) -> int:
        """The end token that the template writes after an answer, else the tokenizer's own."""
        if self._tokenizer.chat_template is not None:
            chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
            text = self._tokenizer.apply_chat_template(chat, tokenize=False)
            for one in reversed(self._encode(text, special=True)):
                if one in end_ids:
                    return one
        own = self._tokenizer.eos_token_id
        return own if own in end_ids else end_ids[0]

    def _digest(self) -> bytes:
        state = json.loads(self._backend.to_str())
        # What a caller may set on a tokenizer that is otherwise the same.
        del state["truncation"], state["padding"]
        described = json.dumps([state, self._end_ids[0]], sort_keys=True)
        return hashlib.sha256(described.encode()).digest()


def _turns(instruction: str, examples: Examples, question: str) -> list[dict[str, str]]:
    turns = [{"role": "system", "content": instruction}] if instruction else []
    for one, answer in examples:
        turns += [{"role": "user", "content": one}, {"role": "assistant", "content": answer}]
    return [*turns, {"role": "user", "content": question}]
