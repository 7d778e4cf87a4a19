"""Values for tests of the rooms around the round."""

from __future__ import annotations

from collections.abc import Sequence

from swarmnode.types import Completion, Group, PolicyInfo, Question, Scored, Source

POLICY = PolicyInfo("tiny", 3, bytes(32))


def group(
    *,
    task: str = "basic_arithmetic",
    index: int = 0,
    publisher: bytes = b"p" * 32,
    texts: Sequence[str] = ("5", "6"),
) -> Group:
    """A group of finished completions with log-probs."""
    return Group(
        question=Question(task, "easy", index, f"2 + {index} =", str(2 + index)),
        completions=tuple(
            Completion(text, "stop", 2, token_ids=(1, 2), logprobs=(-0.5, -0.25)) for text in texts
        ),
        publisher=publisher,
        policy=POLICY,
    )


def scored(
    scores: Sequence[float] = (1.0, 0.0),
    *,
    task: str = "basic_arithmetic",
    index: int = 0,
    publisher: bytes = b"p" * 32,
    source: Source = "external",
    received: float = 0.0,
) -> Scored:
    """A scored group with as many completions as scores."""
    texts = [str(number) for number in range(len(scores))]
    return Scored(
        group(task=task, index=index, publisher=publisher, texts=texts),
        tuple(scores),
        source,
        received,
    )
