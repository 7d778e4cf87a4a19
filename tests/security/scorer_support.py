"""Children, groups and the corpus of hostile texts that the scorer's security tests share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from swarmnode.config.rewards import Rewards
from swarmnode.process import Child
from swarmnode.rewards.client import Scorer
from swarmnode.types import Completion, Group, PolicyInfo, Question

PUBLIC_KEY = bytes(range(32))
SWARM_ID = bytes(32)
NINE = (
    "arc_1d",
    "base_conversion",
    "basic_arithmetic",
    "bf",
    "binary_matrix",
    "calendar_arithmetic",
    "decimal_arithmetic",
    "fraction_simplification",
    "propositional_logic",
)
LEVELS = ("easy", "paper")


@contextmanager
def scorer_child(
    module: str = "swarmnode.scoring",
    *,
    cpu_seconds: float = Rewards().completion_cpu_seconds,
    levels: Sequence[str] = (),
) -> Iterator[Child]:
    """A scorer process, ended afterwards; `levels` are those beside the nine tasks' own."""
    arguments = [SWARM_ID.hex(), str(Rewards().memory_mib), str(cpu_seconds), *levels]
    child = Child(module, name="scorer", arguments=arguments)
    child.start()
    try:
        yield child
    finally:
        child.close_now()


def scorer_of(child: Child) -> Scorer:
    """A client with the default limits."""
    return Scorer(child, Rewards())


def group_of(question: Question, texts: Sequence[str], publisher: bytes = PUBLIC_KEY) -> Group:
    """A group of complete answers."""
    completions = tuple(Completion(text, "stop", 1) for text in texts)
    return Group(question, completions, publisher, PolicyInfo("tiny", 0, b""))


async def one_question(scorer: Scorer, task: str, level: str) -> Question:
    """The first question of PUBLIC_KEY's stream."""
    questions, _ = await scorer.draw(PUBLIC_KEY, task, level, 0, 1)
    return questions[0]


@asynccontextmanager
async def loop_lag() -> AsyncIterator[list[float]]:
    """Measures, while it is open, by how many seconds the event loop is late each 2 ms."""
    lags: list[float] = []

    async def probe() -> None:
        while True:
            due = time.perf_counter() + 0.002
            try:
                await asyncio.sleep(0.002)
            finally:
                lags.append(max(0.0, time.perf_counter() - due))

    task = asyncio.create_task(probe())
    try:
        yield lags
    finally:
        task.cancel()
        await asyncio.wait([task])


def percentile_99(values: Sequence[float]) -> float:
    """The value that a hundredth of the values exceeds."""
    return sorted(values)[int(len(values) * 0.99)]


def code_texts(marker: Path) -> list[str]:
    """Texts that make `marker` where they are evaluated."""
    return [
        f"open({str(marker)!r}, 'w')",
        f"__import__('os').system('touch {marker}')",
        f"[[__import__('pathlib').Path({str(marker)!r}).touch()]]",
        f"().__class__.__base__.__subclasses__() or open({str(marker)!r}, 'w')",
        f"(lambda: open({str(marker)!r}, 'w'))()",
        f"Symbol(open({str(marker)!r}, 'w'))",
        f"$(touch {marker})",
        f"`touch {marker}`",
        f"1; touch {marker}",
        f"{{{{open({str(marker)!r}, 'w')}}}}",
        f"cos\nsystem\n(S'touch {marker}'\ntR.",
    ]


BOMBS = (
    "9**9**9", "9**9**9/1", "factorial(10**7)", "1e999999999", "-1e-999999999", "1E+99999999",
    "[0]*10**9", "[[0]*10**5]*10**5", "'x'*10**10", "exit(3)", "quit()", "raise SystemExit(3)",
    "__import__('os')._exit(3)", "__import__('os').kill(0, 9)", "exec('while True: pass')",
    "7" * 400, "-" + "7" * 400, "7" * 400 + "/" + "7" * 400, "0." + "7" * 400, "7" * 5000,
    "\\frac{" + "7" * 400 + "}{1}", "1" + "0" * 15000, "NaN", "sNaN", "Infinity", "1e400",
    "¬" * 3000, "¬" * 250 + "P", "¬" * 3000 + "P", "¬" * 40 + "x" * 2000, "(" * 3000,
    "(" * 120 + "P" + ")" * 120, "P ∧ " * 60 + "P", "(P ↔ " * 40 + "P" + ")" * 40, "[" * 4000,
    "[" * 2000 + "]" * 2000, "{" * 4000, "-" * 1000 + "1", "1/" * 500 + "1", " " * 16000 + "x",
    "<answer>" * 2000, "<answer>" * 1800 + "</answer>", "</answer>" * 1800, "<answer" * 2300,
    "<answer>" + "\n" * 16000, "0 " * 2000, "0\n" * 2000, "a" * 20000, "٣" * 500, "\x00" * 1000,
    "\x1b]0;x\x07\x1b[2J", "\u202e" * 300, "${jndi:ldap://127.0.0.1/x}", "%n%n%n%s%s%s",
)  # fmt: skip
"""Texts that hang, or eat memory, where they are evaluated, parsed or searched badly."""


def hostile_texts(marker: Path) -> list[str]:
    """All of these, bare and as marked answers."""
    texts = (*code_texts(marker), *BOMBS)
    return [*texts, *(f"<answer>{text}</answer>" for text in texts)]
