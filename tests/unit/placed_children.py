"""A host for the tests of placing: it counts, and may die: `python -m tests.unit.placed_children`.

Its state follows from what it was asked, as a policy's does, unless it is asked for chance.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from swarmnode.process import Handlers, Refusal, inherited_socket, serve


def _refuse(text: str) -> None:
    raise Refusal(text)


def handlers() -> Handlers:
    """One counter."""
    numbers: list[int] = []

    def add(number: int) -> int:
        numbers.append(number)
        return sum(numbers)

    def die_once(marker: str) -> str:
        path = Path(marker)
        if not path.exists():
            path.touch()
            os._exit(1)
        return "alive"

    def generate(order: dict[str, str]) -> None:
        if order["key"] == "a machine that dies":
            os._exit(1)
        raise Refusal(order["key"])

    return {
        "add": add,
        "chance": lambda _nothing: os.urandom(8),
        "die": lambda _nothing: os._exit(1),
        "die_once": die_once,
        "generate": generate,
        "likeness": lambda _nothing: {"the code": os.environ.get("LIKENESS", "the same")},
        "pid": lambda _nothing: os.getpid(),
        "refuse": _refuse,
    }


if __name__ == "__main__":
    serve(handlers(), inherited_socket(sys.argv[1:]))
