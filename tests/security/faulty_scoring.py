"""Verifiers with the faults that other systems had, to show that the tests beside this find them.

Started like the scorer, with a verifier that has both faults:
`python -m tests.security.faulty_scoring DESCRIPTOR SWARM_ID MEMORY CPU_SECONDS`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping

from reasoning_gym.utils import extract_answer

from swarmnode.rewards import extraction, verify
from swarmnode.scoring import main


def evaluating_verify(
    task: str, answer: str, metadata: Mapping[str, object], completion: str
) -> float:
    """Evaluates the answer as code, as reasoning-gym's binary_matrix and n_queens do."""
    given = extraction.extract_answer(completion, 1 << 20) or ""
    with contextlib.suppress(Exception):
        eval(given)
    return 0.0


def quadratic_verify(
    task: str, answer: str, metadata: Mapping[str, object], completion: str
) -> float:
    """Looks for the answer as reasoning-gym does, in time quadratic in unclosed tags."""
    return verify(task, answer, metadata, extract_answer(completion) or "")


def faulty_verify(task: str, answer: str, metadata: Mapping[str, object], completion: str) -> float:
    """Both faults; a right answer is right."""
    quadratic_verify(task, answer, metadata, completion)
    evaluating_verify(task, answer, metadata, completion)
    return verify(task, answer, metadata, completion)


if __name__ == "__main__":
    main(sys.argv[1:], faulty_verify)
