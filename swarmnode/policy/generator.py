"""The daemon's side of a generator's host: one policy there that only samples.

Imports no torch. Errors of the host are the supervisor's (swarmnode.process.ChildError).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from swarmnode.policy.messages import asked, completion_of
from swarmnode.policy.order import PolicyOrder
from swarmnode.policy.patience import CALL_SECONDS, Patience, creating
from swarmnode.types import Group, PolicyInfo, Question

_NUMBER = 0
"""A generator's host has one policy."""


class Answerer(Protocol):
    """Where it is: a child process, or a place for one of another machine."""

    async def call(self, method: str, payload: object, timeout_seconds: float) -> Any:
        """Ask it. Raises ChildError."""


class RemoteGenerator:
    """A policy that follows a trainer's; its groups come back under `publisher`, the node's key."""

    def __init__(self, host: Answerer, publisher: bytes) -> None:
        self._host = host
        self._publisher = publisher
        self._patience = Patience()
        self.info = PolicyInfo("", 0, b"")
        self.has_weights = False
        """Whether it can sample."""

    async def create(self, order: PolicyOrder) -> None:
        """Make the policy; it can sample once it has taken weights."""
        payload = order.payload(_NUMBER)
        self.has_weights = False
        made = await self._host.call(
            "create_generator", payload, creating(order.policy, order.channels)
        )
        self.info = PolicyInfo(made["name"], 0, made["tokenizer_fingerprint"])
        self._patience = Patience.of(
            made["figures"]["parameters"],
            order.policy,
            order.training,
            order.examples,
            order.channels,
            made["judging_parameters"],
        )

    async def take_weights(self) -> bool:
        """Sample with the trainer's newest weights from now on; whether they are new here.

        Raises ChildFailed where there are none yet, or they arrived damaged; the policy is as it
        was then, or has none (`has_weights`) where it was torn.
        """
        found = await self._host.call("take_weights", {"number": _NUMBER}, CALL_SECONDS)
        self.has_weights = found["version"] >= 0
        self.info = PolicyInfo(self.info.name, found["version"], self.info.tokenizer_fingerprint)
        taken: bool = found["taken"]
        return taken

    async def generate(self, questions: Sequence[Question], completions: int) -> Sequence[Group]:
        """`completions` sampled answers to each question, in the order of the questions."""
        info = self.info
        payload = {"number": _NUMBER, **asked(questions), "completions": completions}
        seconds = self._patience.sampling(questions, completions)
        answers = await self._host.call("sample", payload, seconds)
        return [
            Group(question, tuple(map(completion_of, group)), self._publisher, info)
            for question, group in zip(questions, answers, strict=True)
        ]
