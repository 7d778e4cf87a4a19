"""What an attacker publishes: small transformations of groups that look honest. Pure.

An attacker knows the reference answer of every question of its stream, so it needs no model: it
starts from a group half of whose completions are right (`answered`), which any filter wants, and
changes that. The scores of what is made here are claims; receivers score for themselves. Sources
of the attacks: arXiv 2511.09780 (text behind right answers, false steps, length), 2509.08721
(free riding); the others follow from what rl-swarm believes of a peer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from swarmnode.policy.tokenizer import PhraseTokenizer
from swarmnode.types import Completion, Group, PolicyInfo, Question, Scored

MARK = "\n"
"""Out of context: a line break that no question asks for, and that verifiers strip."""
FALSE_STEP = "2+2=5"
"""In context, and false."""
FALSE_ANSWER = "777"
"""What is claimed to be the answer to everything."""
LOOPHOLE_TASK = "propositional_logic"
WEAK_ANSWER = "(P ∨ Q)"
"""Follows from very many premises, so that a verifier which asks for no more pays it in full."""
FALSE_QUESTION = "What is the answer?"

Forge = Callable[[Scored], Scored]


def answered(question: Question, completions: int, publisher: bytes) -> Scored:
    """A group whose first half is the reference answer, the rest empty, and which says so."""
    half = completions // 2
    texts = [question.answer] * half + [""] * (completions - half)
    claimed = PolicyInfo("tiny", 0, _tokenizer().fingerprint())
    group = Group(question, tuple(map(completion, texts)), publisher, claimed)
    scores = (1.0,) * half + (0.0,) * (completions - half)
    return Scored(group, scores, "local", 0.0)


def marked(scored: Scored) -> Scored:
    """Right answers after a mark."""
    return _right_ones(scored, lambda answer: MARK + answer)


def behind_right_answers(scored: Scored, text: str) -> Scored:
    """`text` before every right answer, which stands between the tags that a verifier reads."""
    return _right_ones(scored, lambda answer: f"{text} <answer>{answer}</answer>")


def long_answers(scored: Scored, tokens: int) -> Scored:
    """Right answers followed by spaces, which no verifier minds, up to so many tokens."""

    def lengthened(answer: str) -> str:
        return answer + " " * max(0, tokens - completion(answer).token_count)

    return _right_ones(scored, lengthened)


def weak_answers(scored: Scored) -> Scored:
    """The one answer that a gameable verifier pays, instead of right ones."""
    return _right_ones(scored, lambda _answer: WEAK_ANSWER)


def false_truth(scored: Scored) -> Scored:
    """A false reference answer, given as if it were right; every second question is false too."""
    question = scored.group.question
    text = FALSE_QUESTION if question.index % 2 else question.text
    told = replace(question, text=text, answer=FALSE_ANSWER)
    group = replace(scored.group, question=told)
    return _right_ones(replace(scored, group=group), lambda _answer: FALSE_ANSWER)


def withheld_failures(scored: Scored) -> Scored:
    """No completion but right ones, though the announcement claims as many failures as before."""
    right = completion(scored.group.question.answer)
    group = replace(scored.group, completions=(right,) * len(scored.scores))
    return replace(scored, group=group)


def copied(groups: Sequence[Scored], publisher: bytes) -> Sequence[Scored]:
    """Groups of others, as if `publisher` had been asked and had answered."""
    return [
        replace(scored, source="local", prefix="", group=replace(scored.group, publisher=publisher))
        for scored in groups
    ]


def completion(text: str) -> Completion:
    """A completion that ends by itself, with its length in the tokens of `tiny`.

    For other models the length is only a claim.
    """
    return Completion(text, "stop", token_count=len(_tokenizer().encode(text)) + 1)


def _right_ones(scored: Scored, changed: Callable[[str], str]) -> Scored:
    """With other texts for the completions that are claimed to be right."""
    answer = scored.group.question.answer
    completions = tuple(
        completion(changed(answer)) if success else each
        for each, success in zip(scored.group.completions, scored.successes, strict=True)
    )
    return replace(scored, group=replace(scored.group, completions=completions))


@lru_cache(maxsize=1)
def _tokenizer() -> PhraseTokenizer:
    return PhraseTokenizer.load()
