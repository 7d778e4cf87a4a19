"""The daemon's side of a policy host: one policy there, as an asyncio object here.

Imports no torch. A call costs the declared duration of the node's clock; in real time it is as
long as the host takes. Errors of the host are the supervisor's (swarmnode.process.ChildError).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from swarmnode.clock import Clock
from swarmnode.policy.checkpoint import Rejected
from swarmnode.policy.messages import asked, completion_of, described
from swarmnode.policy.needs import Needs
from swarmnode.policy.order import PolicyOrder
from swarmnode.policy.patience import CALL_SECONDS, Patience, creating
from swarmnode.process import Host
from swarmnode.types import (
    Completion,
    Group,
    PolicyInfo,
    Question,
    Scored,
    Trained,
    TrainedGroup,
)


@dataclass(frozen=True, slots=True)
class Durations:
    """Declared seconds of the node's clock, asked anew for each call."""

    generate: Callable[[], float]
    train: Callable[[], float]


REAL_TIME = Durations(generate=lambda: 0.0, train=lambda: 0.0)
"""Nothing is declared: a call costs what the host takes."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that was written."""

    path: Path
    size: int
    """Bytes of its files."""
    seconds: float
    rejected: Sequence[Rejected]
    """Older checkpoints that turned out to be damaged meanwhile."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A checkpoint that a policy goes on from."""

    path: Path
    version: int
    extra: Any
    """The JSON value that was saved with it."""


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What a policy goes on from, if there was a sound checkpoint, and what was passed over."""

    restored: Restored | None
    rejected: Sequence[Rejected]


class RemotePolicy:
    """One policy of a host.

    Groups come back under `publisher`, the node's own key; `rewards` gives the accuracy
    channel, one reward per completion; the host adds what it is paid beside it.
    """

    def __init__(
        self,
        host: Host,
        number: int,
        *,
        publisher: bytes,
        clock: Clock,
        durations: Durations,
        rewards: Callable[[Scored], Sequence[float]],
    ) -> None:
        self._host = host
        self._number = number
        self._publisher = publisher
        self._clock = clock
        self._durations = durations
        self._rewards = rewards
        self._lengths: dict[int, tuple[Scored, Sequence[int]]] = {}
        self._patience = Patience()
        self.info = PolicyInfo("", 0, b"")
        self.dtype = ""
        """What the host computes in, by the setting's name for it."""
        self.device = ""
        """Where, as torch names it."""

    @property
    def lost(self) -> bool:
        """Whether the host is gone."""
        return self._host.process_id is None

    async def create(self, order: PolicyOrder) -> Mapping[str, float]:
        """Make the policy, warm start included; returns its figures (parameters, seconds)."""
        made = await self._host.call(
            "create", order.payload(self._number), creating(order.policy, order.channels)
        )
        self.info = PolicyInfo(made["name"], 0, made["tokenizer_fingerprint"])
        self.dtype, self.device = made["dtype"], made["device"]
        figures: Mapping[str, float] = made["figures"]
        self._patience = Patience.of(
            figures["parameters"],
            order.policy,
            order.training,
            order.examples,
            order.channels,
            made["judging_parameters"],
        )
        return figures

    async def preflight(self, order: PolicyOrder) -> Needs:
        """What memory the policy would need at its peak.

        Raises ChildRefused, with one line for the user, where it doesn't fit or can't be had.
        """
        payload = {
            "policy": order.policy,
            "training": order.training,
            "channels": order.channels,
            "rounds": order.rounds,
        }
        found = await self._host.call("preflight", payload, creating(order.policy, order.channels))
        return Needs(**found)

    async def generate(self, questions: Sequence[Question], completions: int) -> Sequence[Group]:
        """`completions` sampled answers to each question, in the order of the questions."""
        payload = {
            "number": self._number,
            **asked(questions),
            "completions": completions,
        }
        seconds = self._patience.sampling(questions, completions)
        answers = await self._clock.work(
            self._durations.generate(), self._host.call("generate", payload, seconds)
        )
        return [
            Group(question, tuple(map(completion_of, group)), self._publisher, self.info)
            for question, group in zip(questions, answers, strict=True)
        ]

    async def answer(
        self, questions: Sequence[Question], decoding: Literal["sampled", "greedy"], seed: int
    ) -> Sequence[Completion]:
        """One answer to each question; does not touch the generator that rounds sample with."""
        payload = {
            "number": self._number,
            **asked(questions),
            "greedy": decoding == "greedy",
            "seed": seed,
        }
        seconds = self._patience.sampling(questions, 1)
        answers = await self._clock.work(
            self._durations.generate(), self._host.call("answer", payload, seconds)
        )
        return [completion_of(answer) for answer in answers]

    async def samples(
        self, questions: Sequence[Question], completions: int, seed: int
    ) -> Sequence[Sequence[Completion]]:
        """`completions` sampled answers to each question, with a generator of their own."""
        payload = {
            "number": self._number,
            **asked(questions),
            "completions": completions,
            "seed": seed,
        }
        seconds = self._patience.sampling(questions, completions)
        answers = await self._clock.work(
            self._durations.generate(), self._host.call("samples", payload, seconds)
        )
        return [list(map(completion_of, group)) for group in answers]

    async def lengths(self, groups: Sequence[Scored]) -> Sequence[Sequence[int]]:
        """Tokens of each completion in the policy's own tokenizer, the end token included.

        Whatever a peer claims. What was counted for the call before isn't counted again.
        """
        known = {id(each): self._lengths[id(each)] for each in groups if id(each) in self._lengths}
        if new := [each for each in groups if id(each) not in known]:
            texts = [[[c.text, c.finish_reason] for c in each.group.completions] for each in new]
            payload = {"number": self._number, "groups": texts}
            found = await self._clock.work(0.0, self._host.call("lengths", payload, CALL_SECONDS))
            known |= {id(each): (each, of) for each, of in zip(new, found, strict=True)}
        # With the groups themselves, so that no other object takes the id of one.
        self._lengths = known
        return [known[id(each)][1] for each in groups]

    async def train(self, groups: Sequence[Scored], watched: Sequence[Scored] = ()) -> Trained:
        """One step on these groups; `watched` are peers' groups that the policy only looks at."""
        payload = {
            "number": self._number,
            "groups": [self._told(each) for each in groups],
            "watched": [self._told(each) for each in watched],
        }
        seconds = self._patience.training((*groups, *watched))
        result = await self._clock.work(
            self._durations.train(), self._host.call("train", payload, seconds)
        )
        self.info = PolicyInfo(self.info.name, result["version"], self.info.tokenizer_fingerprint)
        treatments = zip(groups, result["treatments"], strict=True)
        trained = [self._trained(*each) for each in treatments]
        return Trained(result["metrics"], trained, result["advantages"])

    async def publish_weights(
        self, version: int, generators: Sequence[int] = ()
    ) -> Mapping[str, Any]:
        """Hand the weights as they are to those who sample with them, under a number.

        `generators` are the numbers of those that a broadcast goes to; nobody else is waited for.
        Returns `bytes`, `seconds` and `checksum`. Raises ChildFailed where they can't be handed
        over; what was there before stays.
        """
        payload = {"number": self._number, "version": version, "generators": list(generators)}
        out: Mapping[str, Any] = await self._host.call("publish_weights", payload, CALL_SECONDS)
        return out

    async def weights(self) -> Sequence[float]:
        """The shares of the tasks in the next round, by the host's scheduler."""
        payload = {"number": self._number}
        found: Sequence[float] = await self._clock.work(
            0.0, self._host.call("weights", payload, CALL_SECONDS)
        )
        return found

    async def schedule(self, outcome: Mapping[str, Any]) -> Mapping[str, float]:
        """Tell the host's scheduler what a round's own groups gave; returns its metrics."""
        payload = {"number": self._number, "outcome": outcome}
        told: Mapping[str, float] = await self._clock.work(
            0.0, self._host.call("schedule", payload, CALL_SECONDS)
        )
        return told

    def _told(self, scored: Scored) -> dict[str, Any]:
        return described(scored, self._rewards(scored), self.info.tokenizer_fingerprint)

    def _trained(self, scored: Scored, treatment: Sequence[str]) -> TrainedGroup:
        level, why = treatment
        group = scored.group
        if group.policy.tokenizer_fingerprint != self.info.tokenizer_fingerprint:
            why += ", another tokenizer"
        publisher = "own" if scored.source == "local" else group.publisher[:8].hex()
        return TrainedGroup(publisher, group.question.task, level, why)

    async def save(self, folder: Path, extra: Any) -> Checkpoint:
        """Write a checkpoint of the policy into `folder`, with a JSON value that comes back.

        Raises ChildFailed, with one line for the user, where none could be written (disk full,
        `extra` no JSON value); the policy and the earlier checkpoints are untouched then.
        """
        payload = {"number": self._number, "folder": str(folder), "extra": extra}
        saved = await self._host.call("save", payload, CALL_SECONDS)
        rejected = [Rejected(*each) for each in saved["rejected"]]
        return Checkpoint(Path(saved["path"]), saved["bytes"], saved["seconds"], rejected)

    async def restore(self, folder: Path) -> RestoreReport:
        """Go on from the newest sound checkpoint of `folder`: after `create`, or to go back.

        Raises ChildFailed, with one line for the user, when that checkpoint is of another model or
        of other settings, or when checkpoints are there and none can be read.
        """
        payload = {"number": self._number, "folder": str(folder)}
        report = await self._host.call("restore", payload, CALL_SECONDS)
        rejected = [Rejected(*each) for each in report["rejected"]]
        found = report["restored"]
        if found is None:
            return RestoreReport(None, rejected)
        self.info = PolicyInfo(self.info.name, found["version"], self.info.tokenizer_fingerprint)
        return RestoreReport(
            Restored(Path(found["path"]), found["version"], found["extra"]), rejected
        )

    async def open(self, checkpoint: Path) -> None:
        """Become the policy of a checkpoint, to be examined or exported; not to go on training.

        Raises ChildFailed, with one line for the user, when it is of another model.
        """
        payload = {"number": self._number, "path": str(checkpoint)}
        version = await self._host.call("open", payload, CALL_SECONDS)
        self.info = PolicyInfo(self.info.name, version, self.info.tokenizer_fingerprint)

    async def export(self, folder: Path, form: str) -> None:
        """Let the host write the policy into an empty folder (swarmnode.policy.exporting).

        Raises ChildFailed, with one line for the user, where it cannot be written in that form.
        """
        payload = {"number": self._number, "folder": str(folder), "form": form}
        await self._host.call("export", payload, CALL_SECONDS)
