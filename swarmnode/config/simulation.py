"""Settings of a simulated swarm: its size, its people, its declared durations and its network."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from swarmnode.config.base import Section

AttackName = Literal[
    "none",
    "out-of-context",
    "false-steps",
    "long-answers",
    "loophole",
    "false-truth",
    "withheld-failures",
    "copying",
    "free-riding",
    "sybil",
    "slow",
    "eclipse",
]


def cluster_text(text: str) -> str:
    """The way to write a cluster. Raises ValueError with one line for the user."""
    if not re.fullmatch(r"(ray(:[^\s:/]+:\d{1,5})?)?", text):
        raise ValueError("write it as ray, or as ray:HOST:PORT")
    return text


class Simulation(Section):
    """A swarm on one machine, in virtual time."""

    nodes: int = Field(default=8, ge=1, le=4096)
    """Nodes in the swarm."""

    rounds: int = Field(default=900, ge=1)
    """Rounds that every node goes through."""

    seed: int = Field(default=0, ge=0, lt=2**32)
    """Random seed of everything: keys, questions, weights, sampling, network, durations."""

    hosts: int | None = Field(default=None, ge=1)
    """Processes that the policies are shared out to; unset means one per core, of all machines
    together where there is a cluster."""

    cluster: Annotated[str, AfterValidator(cluster_text)] = ""
    """Where the policies compute: on this machine if it is empty; `ray` begins Ray here, for this
    run alone; `ray:HOST:PORT` spreads them over the machines of a running Ray cluster, of which
    this one must be one (docs/scaling.md). It needs the extra `cluster`, and changes no result."""

    models: tuple[str, ...] = ("tiny",)
    """Models, given to the nodes in turn."""

    skills: tuple[str, ...] = ()
    """What the warm start of each node teaches, given to the nodes in turn: task names joined by
    "+", or "all"; empty gives every node two neighbouring tasks of the enabled ones."""

    generate_seconds: float = Field(default=1.0, gt=0)
    """Virtual seconds that generating a round's groups takes on average."""

    train_seconds: float = Field(default=1.0, gt=0)
    """Virtual seconds that a training step takes on average."""

    score_seconds: float = Field(default=0.05, gt=0)
    """Virtual seconds that scoring takes on average."""

    duration_spread: float = Field(default=0.2, ge=0, lt=1)
    """Spread of every duration around its average: uniform in 1 ± this."""

    latency_seconds: float = Field(default=0.1, gt=0)
    """Average one-way delay of the in-memory network; uniform in 0.5 to 1.5 times this."""

    loss: float = Field(default=0.0, ge=0, lt=1)
    """Probability that an announcement, or a fetch, is lost."""

    attack: AttackName = "none"
    """What attacking nodes do beside the honest ones: docs/attacks.md tells each. They know every
    right answer and have no model; all rewards and figures are those of the honest nodes alone."""

    attackers: int = Field(default=1, ge=0, le=256)
    """Attacking nodes, in addition to `nodes`, where there is an attack; with 0 only its measures
    are taken. Each has an address prefix of its own, but under `sybil` all are behind one."""
