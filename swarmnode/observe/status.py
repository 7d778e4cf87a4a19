"""The status document: what a node tells of itself at one moment, and the sentence that sums it up.

Frozen; the daemon builds one whenever it is asked, `swarmnode status` and other programs read it
as JSON. Readers ignore fields that they don't know, so fields are only ever added. It holds no
secret and no path; texts of peers are in it as they came and are made safe where they are shown,
the sentence excepted, which is safe.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, computed_field

from swarmnode.observe.facts import HealthWarning
from swarmnode.observe.machine import MachineStatus, ProcessStatus
from swarmnode.observe.network_status import NetworkStatus
from swarmnode.observe.part import Part
from swarmnode.observe.split_status import SplitStatus
from swarmnode.observe.words import counted, lasting, plain, trying_again

Phase = Literal["starting", "running", "stopping"]
Role = Literal["node", "bootstrap"]

_FAILING = "training-keeps-failing"


class StatusError(Exception):
    """What was read is no status document; the text is one line."""


class NodeStatus(Part):
    """Who this node is."""

    peer_id: str = ""
    """Its name on the network; empty until the network is up."""
    public_key: str = ""
    """As hex."""
    instance: str = ""
    """The home's own random number, as hex."""
    model: str = ""


class SwarmStatus(Part):
    """The swarm that it is in."""

    id: str
    """As hex."""
    name: str = ""
    private: bool = False
    size: int = 1
    """Estimated number of nodes, this one included."""


class RoundStatus(Part):
    """Where the rounds are."""

    number: int
    """Of the round that is going on."""
    ended: float | None = None
    """When the last round ended, in seconds since 1970."""
    seconds: float | None = None
    """What the last round took."""


class Reward(Part):
    """A reward in [0, 1]: the mean over tasks with equal weights, and by task."""

    mean: float | None = None
    by_task: Mapping[str, float] = Field(default_factory=dict)


class Rewards(Part):
    """The three rewards, which are never to be confused (docs/metrics.md)."""

    local: Reward = Reward()
    """Own fresh answers, before any filter; of the last round."""
    held_out: Reward = Reward()
    """Unseen questions; of the last evaluation."""
    training_set: Reward = Reward()
    """What the last round trained on."""


class Mix(Part):
    """What the last round trained on, and what it would have liked to."""

    local_groups: int = 0
    external_groups: int = 0
    wanted_local_groups: int
    """The setting: I."""
    wanted_external_groups: int
    """The setting: J."""
    external_peers: int = 0
    external_token_share: float = 0.0
    """Of peers in the training tokens, over about the last 64 rounds, in [0, 1]."""
    peers_are: str = "on"
    """What becomes of peers' groups: on, monitor or off as set, or fallback."""


class PoolStatus(Part):
    """Groups of peers that wait to be trained on."""

    groups: int = 0
    capacity: int
    admitted: int = 0
    """Since the start."""
    last_admitted_seconds: float | None = None
    """Since the last one entered; None if none did."""


class CheckpointStatus(Part):
    """The newest complete checkpoint."""

    policy_version: int
    written: float
    """Seconds since 1970."""
    bytes: int


class StatusDocument(Part):
    """What a node tells of itself at one moment."""

    role: Role = "node"
    phase: Phase = "running"
    starting: str = ""
    """How far the start is, in a few words; empty where nothing is told of it."""
    version: str
    """Of the program."""
    started: float
    """Seconds since 1970."""
    now: float
    """When the document was made, in seconds since 1970."""
    node: NodeStatus
    swarm: SwarmStatus | None = None
    """None for a node on its own (`--solo`)."""
    round: RoundStatus | None = None
    """None before the first round, and for a bootstrap peer."""
    policy_version: int | None = None
    """Optimizer steps taken."""
    rewards: Rewards = Rewards()
    mix: Mix | None = None
    pool: PoolStatus | None = None
    split: SplitStatus | None = None
    """Of a node whose generation and training are apart; None of any other."""
    network: NetworkStatus
    dropped: Mapping[str, int] = Field(default_factory=dict)
    """What was dropped of peers' since the start, by reason."""
    processes: tuple[ProcessStatus, ...] = ()
    machine: MachineStatus | None = None
    home_bytes: int = 0
    """That the home has on disk."""
    dashboard: str = ""
    """Where the page is served, without the secret that opens it; empty where none is."""
    checkpoint: CheckpointStatus | None = None
    warnings: tuple[HealthWarning, ...] = ()

    @computed_field  # type: ignore[prop-decorator]  # pydantic asks for exactly this order
    @property
    def uptime_seconds(self) -> float:
        """Since the start."""
        return max(0.0, self.now - self.started)

    @computed_field  # type: ignore[prop-decorator]  # likewise
    @property
    def summary(self) -> str:
        """What the node is doing, in one sentence that is safe to show."""
        return plain(_summary(self))

    def as_json(self) -> dict[str, Any]:
        """The document as plain JSON values."""
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, document: object) -> Self:
        """Read what `as_json` made, of this version or another. Raises StatusError."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise StatusError(f"no status document: {place}: {first['msg']}") from error


def _summary(status: StatusDocument) -> str:
    match status.phase:
        case "starting":
            return f"starting: {status.starting}" if status.starting else "starting"
        case "stopping":
            return f"stopping{_round(status)}: finishing, and writing a checkpoint"
    if status.role == "bootstrap":
        return f"serving as a bootstrap peer, {counted(status.network.peers, 'peer')} connected"
    if failing := next((each for each in status.warnings if each.code == _FAILING), None):
        return f"not training{_round(status)}: {failing.text}"
    if why := _alone(status):
        return f"training alone{_round(status)}: {why}"
    size = status.swarm.size if status.swarm else 1
    if size < 2:
        peers = counted(status.network.peers, "peer")
        return f"training alone{_round(status)}: {peers} connected, no other node heard of yet"
    return f"training in a swarm of {size}{_round(status)}"


def _alone(status: StatusDocument) -> str:
    """Why the node trains alone; empty if it doesn't."""
    network = status.network
    if any(warning.code == "duplicate-instance" for warning in status.warnings):
        return "another node uses this key"
    match network.state:
        case "off":
            return "no swarm is wanted (--solo)"
        case "starting":
            return f"the network is starting ({lasting(network.state_seconds)})"
        case "down":
            return f"network process restarting{_because(network.error)}"
        case "alone":
            return _unanswered(network)
    return ""


def _unanswered(network: NetworkStatus) -> str:
    if not network.bootstrap and network.lan:
        return network.lan.error or "nobody else was found on the local network yet"
    if not network.bootstrap:
        return "no bootstrap peer is known"
    if any(peer.connected for peer in network.bootstrap):
        return "nobody else is in the swarm"
    trying = trying_again(network.next_attempt_seconds)
    return f"no bootstrap peer answers ({len(network.bootstrap)} tried){trying and ', ' + trying}"


def _round(status: StatusDocument) -> str:
    return f", round {status.round.number}" if status.round else ""


def _because(error: str) -> str:
    return f" ({error})" if error else ""
