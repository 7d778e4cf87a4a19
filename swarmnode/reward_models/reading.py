"""How a reward model reads: prompt and completion as the token ids of its own tokenizer.

A chat model sees the conversation in its template; a tokenizer that joins pairs sees a pair, as
question and answer; any other sees the two with a line break between. What looks like a special
token in prompt or completion is encoded as text, so that a stranger's answer can't end its turn and
praise itself in another. Knows no model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from transformers import PreTrainedTokenizerFast

_MARKS = ("\ue000", "\ue001")
"""Private-use characters that stand for prompt and completion while a template is rendered."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a judge is shown."""

    ids: list[int]
    kinds: list[int]
    """Of each id, 1 where it belongs to the completion of a pair and the tokenizer tells models so,
    else 0."""


class Reading:
    """A tokenizer as a judge uses it."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, limit: int) -> None:
        """`limit`: the most ids of a row, special tokens included."""
        self._tokenizer = tokenizer
        self._backend = tokenizer.backend_tokenizer
        self._backend.no_truncation()
        self._backend.no_padding()
        self._limit = limit
        self._special_ids = set(tokenizer.all_special_ids)
        self._special_texts = [text for text in tokenizer.all_special_tokens if text]
        self._chat = tokenizer.chat_template is not None
        self._tells_kinds = "token_type_ids" in tokenizer.model_input_names
        self._pairs = not self._chat and self._marks_pairs()

    def row(self, prompt: str, completion: str) -> Row | None:
        """Return what is read of a pair; of a prompt that is too long the beginning is left out.

        None where the completion alone is too long.
        """
        whole = self._joined(prompt, completion)
        cut = 0
        while len(whole.ids) > self._limit:
            starts = [start for start, _ in self._backend.encode(_valid(prompt)).offsets]
            if cut >= len(starts):
                return None
            cut += len(whole.ids) - self._limit
            shown = _valid(prompt)[starts[cut] :] if cut < len(starts) else ""
            whole = self._joined(shown, completion)
        return whole

    def _joined(self, prompt: str, completion: str) -> Row:
        if self._pairs:
            return self._plain(prompt, completion)
        if not self._chat:
            return self._plain(f"{prompt}\n{completion}")
        ids = self._turns(prompt, completion)
        return Row(ids, [0] * len(ids))

    def _turns(self, prompt: str, completion: str) -> list[int]:
        if not self._spells_special(prompt) and not self._spells_special(completion):
            return self._template(self._rendered(prompt, completion))
        # What is around a text that spells a special token is encoded apart from it, however often
        # the template shows the text, if at all.
        ids: list[int] = []
        texts = dict(zip(_MARKS, (prompt, completion), strict=True))
        for part in re.split(f"([{''.join(_MARKS)}])", self._rendered(*_MARKS)):
            ids += (
                self._plain(texts[part], added=False).ids
                if part in texts
                else (self._template(part))
            )
        return ids

    def _rendered(self, prompt: str, completion: str) -> str:
        text: str = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}, {"role": "assistant", "content": completion}],
            tokenize=False,
        )
        return text

    def _template(self, text: str) -> list[int]:
        """The ids of a template's text, which writes all special tokens itself."""
        self._backend.encode_special_tokens = False
        ids: list[int] = self._backend.encode(_valid(text), add_special_tokens=False).ids
        return ids

    def _plain(self, text: str, beside: str | None = None, *, added: bool = True) -> Row:
        """A text, or a pair, in which nothing is special but what is `added`."""
        self._backend.encode_special_tokens = True
        other = None if beside is None else _valid(beside)
        encoded = self._backend.encode(_valid(text), other, add_special_tokens=added)
        # Some vocabularies spell a special token like any other word.
        kept = [
            place
            for place, ours in enumerate(encoded.special_tokens_mask)
            if ours or encoded.ids[place] not in self._special_ids
        ]
        kinds = encoded.type_ids if self._tells_kinds else [0] * len(encoded.ids)
        return Row([encoded.ids[place] for place in kept], [kinds[place] for place in kept])

    def _spells_special(self, text: str) -> bool:
        return any(special in text for special in self._special_texts)

    def _marks_pairs(self) -> bool:
        """Whether the tokenizer puts something of its own between the two parts of a pair."""
        self._backend.encode_special_tokens = False
        parts = [self._backend.encode(one, add_special_tokens=False).ids for one in ("a", "b")]
        pair = self._backend.encode("a", "b").ids
        joined = [*parts[0], *parts[1]]
        return not any(
            pair[start : start + len(joined)] == joined
            for start in range(len(pair) - len(joined) + 1)
        )


def _valid(text: str) -> str:
    """Without half surrogates, which a tokenizer refuses."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
