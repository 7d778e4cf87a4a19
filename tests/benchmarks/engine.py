"""`make bench NAME=engine`: our generation and training step against transformers' own.

Two sections: `smollm2-135m` at 8 x 8, and `tiny` at the demo's shapes; ARGUMENTS=tiny or
ARGUMENTS=smollm2 takes one, ARGUMENTS=peers a whole round against TRL and genrl instead
(engine_peers.py). All in one process and one thread, both sides interleaved, CPU
seconds; what we reach is also told as a share of the machine's own rates, measured in the same run.
Exits with 1 when a target is missed. Takes about ten minutes of an idle core.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from swarmnode.policy.names import UnusableModel
from tests.benchmarks import (
    engine_generation,
    engine_machine,
    engine_peers,
    engine_step,
    engine_subject,
)
from tests.benchmarks.engine_generation import Generation
from tests.benchmarks.engine_machine import Machine
from tests.benchmarks.engine_step import Step

LOGPROB_TARGET = 1e-4
GRADIENT_TARGET = 1e-5


@dataclass(frozen=True, slots=True)
class Row:
    """A figure beside its bound."""

    name: str
    figure: float
    bound: float
    at_least: bool

    @property
    def met(self) -> bool:
        """Whether the figure keeps its bound."""
        return self.figure >= self.bound if self.at_least else self.figure <= self.bound


def generation_rows(name: str, found: Generation, target: float, machine: Machine) -> list[Row]:
    """The checked figures of a comparison; prints the rest."""
    print(
        f"{name}: ours {found.ours_seconds:.3g} s, transformers {found.theirs_seconds:.3g} s; "
        f"{found.tokens / found.ours_seconds:.0f} tokens/s; "
        f"{_share(found.operations, found.ours_seconds, machine)}"
    )
    return [
        Row(f"{name}: speed-up", found.speedup, target, True),
        Row(f"{name}: log-prob difference", found.logprob_difference, LOGPROB_TARGET, False),
    ]


def step_rows(name: str, found: Step, target: float, machine: Machine) -> list[Row]:
    """The checked figures of a comparison; prints the rest."""
    print(
        f"{name}: ours {found.ours_seconds:.3g} s, padded {found.theirs_seconds:.3g} s; "
        f"{_share(found.operations, found.ours_seconds, machine)}"
    )
    return [
        Row(f"{name}: speed-up", found.speedup, target, True),
        Row(f"{name}: log-prob difference", found.agreement.logprobs, LOGPROB_TARGET, False),
        Row(f"{name}: gradient difference", found.agreement.gradient, GRADIENT_TARGET, False),
    ]


def tiny_section(generation_pairs: int = 15, step_pairs: int = 30) -> list[Row]:
    """The built-in model at the demo's shapes."""
    machine = _machine()
    subject = engine_subject.tiny()
    generation = engine_generation.measure(subject, 13, generation_pairs, ends=True)
    groups = engine_step.tiny_groups(subject.policy.codec.vocabulary_size)
    step = engine_step.measure(subject, groups, step_pairs, groups_at_once=len(groups))
    return [
        *generation_rows("tiny, generation up to 13", generation, 2.0, machine),
        *step_rows("tiny, step", step, 2.0, machine),
    ]


def smollm2_section() -> list[Row]:
    """The model that fits a laptop, at the lengths of the targets."""
    machine = _machine()
    subject = engine_subject.smollm2()
    lengths = [len(prompt) for prompt in subject.prompts]
    print(f"prompts of {lengths} tokens, 8 completions each")
    rows = []
    for new_tokens, pairs, ends, target in ((24, 5, False, 2.3), (128, 3, True, 1.6)):
        found = engine_generation.measure(subject, new_tokens, pairs, ends=ends, warm=False)
        kind = "up to" if ends else "forced"
        rows += generation_rows(f"smollm2, generation {kind} {new_tokens}", found, target, machine)
        _print_reading(subject, found, new_tokens, machine)
    # The step's cost is that of its groups added up: two of them give the ratio of eight.
    groups = engine_step.mixed_groups(subject.policy.head_weight.shape[0], lengths[3:5])
    step = engine_step.measure(subject, groups, 3, groups_at_once=1, warm_steps=0)
    return [*rows, *step_rows("smollm2, step of 2 groups", step, 2.0, machine)]


def _print_reading(
    subject: engine_subject.Subject, found: Generation, new_tokens: int, machine: Machine
) -> None:
    """What reading the weights once a step would take, and how much of our time that is."""
    size = sum(one.numel() * one.element_size() for one in subject.policy.parameters())
    share = new_tokens * size * 1e-9 / machine.gigabytes / found.ours_seconds
    print(f"  reading the weights once for each of {new_tokens} steps: {share:.0%} of the time")


def _machine() -> Machine:
    machine = engine_machine.measure()
    print(f"machine: sgemm {machine.gflops:.0f} GFLOP/s, reading {machine.gigabytes:.1f} GB/s")
    return machine


def _share(operations: float, used_seconds: float, machine: Machine) -> str:
    rate = operations * 1e-9 / used_seconds
    return f"{rate:.0f} GFLOP/s, {rate / machine.gflops:.0%} of sgemm"


def main(arguments: Sequence[str]) -> int:
    """Measure the sections asked for and print what was found beside its bounds."""
    if arguments[:1] == ["peers"]:
        return engine_peers.main(arguments[1:])
    started = time.perf_counter()
    torch.set_num_threads(1)
    sections = {"smollm2": smollm2_section, "tiny": tiny_section}
    try:
        rows = [row for name in arguments or sections for row in sections[name]()]
    except UnusableModel as error:
        print(error, file=sys.stderr)
        return 2
    for row in rows:
        bound = f"{'at least' if row.at_least else 'at most'} {row.bound:g}"
        print(f"{row.name:52} {row.figure:9.3g}   {bound}: {'met' if row.met else 'MISSED'}")
    print(f"took {time.perf_counter() - started:.0f} s")
    return int(not all(row.met for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
