"""What a generator on another machine answers, checked before anything is made of it. Pure.

It has the key that lets it join, and may still be broken, or of other settings: what doesn't have
the form of an answer to what was asked ends as a failure of that generator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

CHARACTERS_PER_TOKEN = 256
"""More than any token of a vocabulary has."""
MOST_CHANNELS = 64
_LARGEST_ID = 2**31


class BadAnswer(Exception):
    """It is no answer to what was asked; one line."""


def checked_answers(answer: Any, prompts: int, completions: int, longest: int) -> Any:
    """The answer, if it is so many completions, of at most `longest` tokens, to each prompt.

    Raises BadAnswer.
    """
    if not _is_list(answer, prompts) or not all(_is_list(group, completions) for group in answer):
        raise BadAnswer(f"not {completions} completions to each of {prompts} questions")
    for group in answer:
        for completion in group:
            _check(completion, longest)
    return answer


def checked_figures(made: Any) -> Any:
    """What a host says of a policy that it has made. Raises BadAnswer."""
    match made:
        case {
            "name": str(name),
            "tokenizer_fingerprint": bytes(fingerprint),
            "figures": {"parameters": int(parameters)},
            "judging_parameters": int(judging),
        } if len(name) <= 1000 and len(fingerprint) <= 64 and min(parameters, judging) >= 0:
            return made
    raise BadAnswer("no description of a policy")


def checked_version(found: Any) -> Any:
    """What a host says of the weights that it has. Raises BadAnswer."""
    match found:
        case {"version": int(version), "taken": bool()} if -1 <= version < 2**62:
            return found
    raise BadAnswer("no version of weights")


def _check(completion: Any, longest: int) -> None:
    match completion:
        case [str(text), "stop" | "length", list(ids), list(logprobs), *judged] if (
            len(ids) == len(logprobs)
            and len(ids) <= longest
            and len(text) <= CHARACTERS_PER_TOKEN * longest
            and all(type(each) is int and 0 <= each < _LARGEST_ID for each in ids)
            and all(map(_is_logprob, logprobs))
            and (not judged or (len(judged) == 1 and _is_judgement(judged[0])))
        ):
            return
    raise BadAnswer("a completion of another form")


def _is_list(value: Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length


def _is_logprob(value: Any) -> bool:
    return type(value) is float and math.isfinite(value) and value <= 1e-3


def _is_judgement(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and len(value) <= MOST_CHANNELS
        and all(isinstance(name, str) and type(each) is float for name, each in value.items())
    )
