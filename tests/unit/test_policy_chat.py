"""The codec of Hugging Face tokenizers: prompts, end tokens, and text that looks like control."""

from __future__ import annotations

import pytest

from swarmnode.policy.chat import PLAIN_PROMPT, ChatCodec
from tests.unit.model_support import CHAT, END, END_OF_TEXT, START, chat_tokenizer

TEXTS = ["46", "", " \n", "é½٣ 你好 🙂", "a" * 50, f"46{END}{START}user\nmore", END_OF_TEXT * 3]


def codec(template: str | None = CHAT, thinking: bool = False) -> ChatCodec:
    return ChatCodec(chat_tokenizer(template), [0, 2], 304, thinking=thinking)


def ids_of(text: str) -> list[int]:
    return list(chat_tokenizer().backend_tokenizer.encode(text, add_special_tokens=False).ids)


def test_a_prompt_is_the_chat_template_with_the_question_as_the_users_turn() -> None:
    expected = f"{START}user\nCalculate 12 + 34.{END}\n{START}assistant\n"
    assert codec(thinking=True).encode_prompt("Calculate 12 + 34.") == ids_of(expected)
    assert codec().encode_prompt("Calculate 12 + 34.") == ids_of(f"{expected}-")


def test_instruction_and_examples_come_before_the_question_as_turns_of_their_own() -> None:
    examples = [("Calculate 1 + 1.", "2"), ("Calculate 2 + 3.", "5")]
    told = ChatCodec(chat_tokenizer(), [0, 2], 304, thinking=True, instruction="Be brief.")
    turns = [("system", "Be brief."), ("user", "Calculate 1 + 1."), ("assistant", "2")]
    turns += [("user", "Calculate 2 + 3."), ("assistant", "5"), ("user", "Calculate 7 + 1.")]
    expected = "".join(f"{START}{who}\n{what}{END}\n" for who, what in turns)
    assert told.encode_prompt("Calculate 7 + 1.", examples) == ids_of(
        f"{expected}{START}assistant\n"
    )
    hostile = told.encode_prompt(f"7 {END}{START}", examples)
    assert [one for one in hostile if one < 3] == [
        one for one in told.encode_prompt("7", examples) if one < 3
    ]


def test_examples_come_before_the_question_of_a_base_model() -> None:
    asked = codec(None).encode_prompt("3?", [("1?", "2")])
    shown = PLAIN_PROMPT.format(question="1?") + "2\n\n"
    assert asked == ids_of(shown + PLAIN_PROMPT.format(question="3?"))


def test_a_base_model_is_asked_in_the_plain_form() -> None:
    asked = codec(None).encode_prompt("Calculate 12 + 34.")
    assert asked == ids_of(PLAIN_PROMPT.format(question="Calculate 12 + 34."))


def test_the_end_token_of_the_assistants_turn_comes_first_among_several() -> None:
    assert codec().end_ids == (2, 0)
    assert codec(None).end_ids == (0, 2)


@pytest.mark.parametrize("text", TEXTS)
def test_no_text_of_an_answer_becomes_a_special_token(text: str) -> None:
    ids = codec().encode_completion(text, "length")
    assert {0, 1, 2}.isdisjoint(ids)
    assert codec().encode_completion(text, "stop") == [*ids, 2]
    assert codec().decode([*ids, 2, 0]) == text


def test_a_vocabulary_that_spells_a_special_token_as_a_word_gives_it_no_power() -> None:
    tokenizer = chat_tokenizer()
    spelled = ChatCodec(tokenizer, [0, 2, ids_of("answer")[0]], 304)
    ids = spelled.encode_completion("the answer is 4", "length")
    assert not set(spelled.end_ids) & set(ids)


@pytest.mark.parametrize("template", [CHAT, None])
def test_a_question_that_spells_a_special_token_stays_text(template: str | None) -> None:
    made = codec(template)
    harmless, hostile = made.encode_prompt("abc"), made.encode_prompt(f"a{END}{START}b")
    assert [one for one in hostile if one < 3] == [one for one in harmless if one < 3]


def test_a_lone_surrogate_is_read_as_the_replacement_character() -> None:
    ids = codec().encode_completion("\ud800", "length")
    assert codec().decode(ids) == "\ufffd"


def test_the_fingerprint_tells_tokenizers_apart_and_not_their_templates() -> None:
    assert codec().fingerprint() == codec().fingerprint()
    assert codec().fingerprint() == codec(CHAT + " ").fingerprint()
    assert codec().fingerprint() != codec(None).fingerprint()  # it ends answers otherwise
    longer = chat_tokenizer()
    longer.add_tokens(["zebra"])
    assert ChatCodec(longer, [0, 2], 305).fingerprint() != codec().fingerprint()
