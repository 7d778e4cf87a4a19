"""What strangers answer in the hope of a reward: nonsense, disguises, lists, copies, and tags.

Pure functions of a question and its reference answer. Knows no verifier. `means_the_same` is the
tests' own idea of a right answer, written apart from the verifiers' on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

NONSENSE = (
    "", " ", "\n", ".", ",", "-", "+", "/", "e", "1e", "$", "$$", "()", "[]", "[[]]", "[[", "{}",
    "NaN", "nan", "sNaN", "-nan", "inf", "-inf", "Infinity", "∞", "1e999999", "-1e999999", "1e99",
    "1e-99", "0/0", "1/0", "0x10", "1_0", "٣", "９", "²", "½", "None", "null", "True and False",
    "I don't know", "answer", "the answer is right", "<answer>", "</answer>", "x", "?", "∨", "¬",
    "P ∨ ¬P", "(P → P)", "P ↔ P", "¬(P ∧ ¬P)", "\\frac{}{}", "\\frac", "\\dfrac{0}{0}",
    "\x00", "\ud800", "😀", "\u202e1", "\x1b[2J", "9" * 400, "-" * 400, "0" * 1000, "1" * 20000,
    "(" * 1000, "(" * 500 + "P" + ")" * 500, "¬" * 3000, "¬" * 3000 + "P", "[" * 4000, "{" * 4000,
    "P ∧ " * 250 + "P", "1/" * 500, "<answer>" * 2000, "<answer>" * 2000 + "</answer>", "A=1,A=2",
    '["fill A"]', "[true]", "[[true]]", "0 1\n1 0", "Yes No", "Yes, No", "×", "1×1", "(0, 0)", "°",
    "Move disk 1 from Peg 1 to Peg 1", "up down left right", "infeasible?", "0 days", "00:00", "aa",
    "a is a knight", "None of the above", "any", "all of them", "1 or 2", "0 1 2 3 4 5 6 7 8 9",
)  # fmt: skip
"""Texts that answer nothing."""

LOOKALIKES = (
    str.maketrans("0123456789", "０１２３４５６７８９"),
    str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩"),
    str.maketrans("0123456789", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗"),
    str.maketrans("0123", "⁰¹²³"),
    str.maketrans("01", "Ol"),
    str.maketrans("aceopxyiPABCEHKMOTX", "асеорхуіРАВСЕНКМОТХ"),
    str.maketrans("kKsSiI", "\u212a\u212aſſİı"),
    str.maketrans("-./,:", "−․∕‚∶"),
    str.maketrans(" \n", "\u2003\u2028"),
    str.maketrans("[]()<>", "［］（）＜＞"),
)
"""Other characters that look like those of an answer."""

GLUE = ("\u200b", "\u00ad", "\ufeff", "\u202e", "\u0301", "\x00", "\x08", "_", "\ud800", "\u2060")
"""Characters that are hardly seen."""


def disguises(answer: str) -> Iterator[str]:
    """The right answer in characters of other scripts, or with unseen ones between."""
    yield from (answer.translate(table) for table in LOOKALIKES)
    middle = max(1, len(answer) // 2)
    for glue in GLUE:
        yield from (glue + answer, answer + glue, answer[:middle] + glue + answer[middle:])


def near_misses(answer: str) -> Iterator[str]:
    """Parts of the right answer, more than it, and changes of it."""
    lines = answer.split("\n")
    yield from (answer[:-1], answer[1:], answer[: len(answer) // 2], answer[::-1], f"-{answer}")
    yield from (f"{answer}1", f"1{answer}", f"{answer}?", f"{answer} {answer}", f"{answer}\n0")
    yield from (f"{answer}, {answer}", f"{answer}\n{answer}", f"not {answer}", f"{answer} or not")
    yield from (
        f"The answer is {answer}.",
        f"0 or {answer}",
        f"{answer}; {answer}x",
        f"¬({answer})",
    )
    yield from (f"${answer}$ or 1", f"[{answer}]", f"({answer})", f"'{answer}'", f"{answer}e0e0")
    yield from (f"{answer}\x1b[8m 7", f"{answer} # 7", f"{answer}//7", f"{answer}=7", f"{answer}|7")
    yield from ("\n".join(lines[:-1]), "\n".join([*lines, lines[-1]]), "\n".join(reversed(lines)))
    yield from (f"{line} 0" for line in lines[:1])
    yield answer.replace("]]", ",0]]").replace("))", ",0))")
    yield answer.replace("]]", "],[0]]")
    yield answer.replace("0", "false").replace("1", "true")
    for place, character in enumerate(answer[:12]):
        if character.isdigit():
            yield answer[:place] + str((int(character) + 1) % 10) + answer[place + 1 :]
        elif character.isalpha():
            yield answer[:place] + ("a" if character != "a" else "b") + answer[place + 1 :]


def many_in_one(answer: str, others: list[str]) -> Iterator[str]:
    """The right answer somewhere in a list."""
    some = [*others[:6], answer, *others[6:9]]
    yield from (separator.join(some) for separator in ("\n", " ", ",", ", ", ";", " or ", "|"))
    yield str(some)
    yield "".join(f"<answer>{one}</answer>" for one in some)
    yield "<answer>" + "</answer>\n<answer>".join(some) + "</answer>"
    yield f"<answer>{answer}"
    yield f"{answer}</answer>"
    yield f"</answer>{answer}<answer>"
    yield f"<answer>{answer}</answer></answer>"
    yield f"<answer>{answer}</answer> no: <answer></answer>"
    yield f"<answer>{answer}<answer></answer>"
    yield f"<ANSWER>{answer}</ANSWER>"
    yield f"< answer>{answer}</ answer>"
    yield f"<answer >{answer}</answer >"
    yield f"<think><answer>{answer}</answer></think><answer>{others[0]}</answer>"
    yield f"<answer>{answer}</answer><answer>{answer}{others[0]}</answer>"


def restatements(question: str) -> Iterator[str]:
    """The question itself, and what stands in it."""
    lines = question.strip().splitlines()
    yield from (question, lines[0], lines[-1], "\n".join(lines[-2:]), question[::-1])
    yield from re.findall(r"[0-9.]+", question)[:6]
    yield from question.split()[-4:]
    yield " ".join(re.findall(r"[0-9.]+", question))[:4000]


def means_the_same(text: str, answer: str, tolerance: str = "0") -> bool:
    """Whether a text is the answer but for spaces, ASCII case, a full stop, or a number's form."""
    if _bare(text) == _bare(answer):
        return True
    given, right = _decimal(text), _decimal(answer)
    return given is not None and right is not None and abs(given - right) <= Decimal(tolerance)


def _bare(text: str) -> str:
    """In spaces and case of ASCII alone; cells and rows of a grid stay apart."""
    rows = (" ".join(re.findall(r"[^ \t\r]+", row)) for row in text.split("\n"))
    joined = "\n".join(filter(None, rows))
    joined = re.sub(r"\s?([\[\](),:;=×])\s?", r"\1", joined, flags=re.ASCII)
    lower = "".join(one.lower() if one.isascii() else one for one in joined)
    return lower[:-1] if lower.endswith(".") else lower


def _decimal(text: str) -> Decimal | None:
    if not re.fullmatch(r"[-+0-9.,eE]{1,60}", text.strip(" \n"), re.ASCII):
        return None
    try:
        value = Decimal(text.strip(" \n").replace(",", ""))
    except InvalidOperation:
        return None
    return value if value.is_finite() else None
