"""What the doctor says of the memory that a model takes: of one process, or of a split node."""

from __future__ import annotations

from swarmnode.doctor.checks import Check, Result
from swarmnode.observe.words import counted, size_of
from swarmnode.policy.needs import Needs


def model_check(name: str, needs: Needs) -> Check:
    """A warning where a split node's processes, which fit one by one, don't fit together."""
    if not needs.generators:
        found = f"{name} needs {size_of(needs.bytes)} at its peak ({needs.parts})"
        return Check("model", Result.OK, found)
    trainer = "the trainer" if needs.trainers == 1 else f"{needs.trainers} trainers of"
    found = (
        f"{name} needs {size_of(needs.total_bytes)} at its peaks, where "
        f"{size_of(needs.available_bytes)} are available: {trainer} {size_of(needs.bytes)} "
        f"({needs.parts}), {counted(needs.generators, 'generator')} of "
        f"{size_of(needs.generator_bytes)} ({needs.generator_parts})"
    )
    if needs.shared_bytes:
        found += (
            f", shared memory for two copies of what is sent {size_of(needs.shared_bytes)} of "
            f"{size_of(needs.shared_available_bytes)}"
        )
    if needs.fits:
        return Check("model", Result.OK, found)
    fix = (
        "Each process is held against what is available when it starts, by itself: the system may "
        "end one later. Take fewer generators (policy.generators), policy.mode=sync, or adapters "
        "(policy.lora.rank=16)"
    )
    if needs.shared_bytes > needs.shared_available_bytes:
        fix += "; or policy.weights.channel=folder where shared memory is small"
    return Check("model", Result.WARNING, found, f"{fix}.")
