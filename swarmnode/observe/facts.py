"""What a node knows of its own health (`Facts`), and the form of a complaint about it (`Warnable`).

Plain values: the daemon fills in the facts, swarmnode.observe.health judges them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

NetworkState = Literal["off", "starting", "alone", "connected", "down"]
"""Of the network process: not wanted (`--solo`), not up yet, up without a peer, up with at least
one, or gone and being restarted."""

ExternalUse = Literal["on", "monitor", "off"]


class Severity(StrEnum):
    """How bad it is: nothing to do, something to do soon, or the node doesn't do its work."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Alarm:
    """A guard-rail that complains."""

    critical: bool
    recent: float
    """Its figure over the last few rounds."""
    start: float
    """What it was in the first rounds."""


@dataclass(frozen=True, slots=True)
class SplitFacts:
    """Of a node whose generation and training are apart."""

    generators: int = 1
    failures: Mapping[str, int] = field(default_factory=dict)
    """In a row, by generator."""
    problem: str = ""
    """One line of the last of them."""
    publish_problem: str = ""
    """Why the newest weights can't be handed over, in one line, or "" """
    held_back_seconds: Mapping[str, float] = field(default_factory=dict)
    """For how long a generator may begin nothing, by generator."""
    trainer_waits_seconds: float = 0.0
    """For how long the trainer has been waiting for groups."""
    trainer_idle_share: float = 0.0
    """Share of its time that it waited lately, in [0, 1]; 0.0 before eight rounds."""
    generators_idle_share: float = 0.0
    """The least of the generators' shares in which they might begin nothing; 0.0 before eight
    batches of each."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What warnings are made from. The defaults are those of a node that lacks nothing."""

    network_state: NetworkState = "connected"
    network_state_seconds: float = 0.0
    """How long it has been in that state."""
    network_error: str = ""
    """One line of the network process, or "" """
    next_attempt_seconds: float | None = None
    """Until bootstrap peers are dialled again, where known."""
    peers: int = 1
    """Connected now."""
    swarm_size: float = 2.0
    """Estimated nodes that publish, this one included; 0.0 before any was heard of."""
    bootstrap_tried: int = 1
    """Bootstrap peers and saved peers that were dialled."""
    bootstrap_failed: int = 0
    """Those of them that did not answer."""
    last_acknowledgement_seconds: float | None = 0.0
    """Since another peer confirmed to have stored an announcement of ours; None if never."""
    last_external_seconds: float | None = 0.0
    """Since a group of a peer entered the pool; None if never."""
    wants_external: bool = True
    """Whether rounds train on groups of peers at all (J > 0)."""
    external_use: ExternalUse = "on"
    """The setting `policy.external`."""
    external_share: float = 0.5
    """Largest share of peers in the training tokens."""
    wanted_external_share: float = 0.5
    """J over I + J."""
    fallback_evaluations_left: int = 0
    """Evaluations for which own groups alone are trained on, at most; 0 unless a fall was seen."""
    fallback_drop: float = 0.0
    """Held-out success lost, in [-1, 1]."""
    fallback_deviations: float = 0.0
    """The same in standard errors."""
    log_prob_gate_enforced: bool = False
    shares: bool = True
    """Whether own groups are published."""
    reachable: bool | None = None
    """Whether others can dial us, None while unknown."""
    relayed: bool = False
    """Whether a relay takes connections for us."""
    open_addresses: Sequence[str] = ()
    """Addresses listened on beyond loopback."""
    lan: bool = False
    """Whether others are looked for on local networks."""
    lan_error: str = ""
    """Why that can't be done, "" where it can."""
    clock_offset_seconds: float | None = None
    """Median of the peers' clocks minus ours."""
    clock_skew_seconds: float = 120.0
    """Offset from which peers drop what we publish (`selection.clock_skew_seconds`)."""
    duplicate_instance: str = ""
    """The other node that runs with our key, as hex, "" if there is none."""
    restarts_last_hour: Mapping[str, int] = field(default_factory=dict)
    """By child process: network, policy, scorer."""
    uptime_seconds: float = 3600.0
    round_seconds: float = 0.0
    """What the last round took."""
    rounds_without_live_group: int = 0
    """In a row."""
    training_failures: int = 0
    """Rounds in a row whose training step failed."""
    training_error: str = ""
    """One line of the last failure."""
    scorer_kills_last_hour: int = 0
    """Groups whose text hung or killed the scorer."""
    loopholes: Sequence[str] = ()
    """Tasks whose verifier is suspected of rewarding a few texts whatever the question."""
    failing_rewards: Mapping[str, int] = field(default_factory=dict)
    """Rounds in a row in which a reward told nothing of some completions, by its channel."""
    split: SplitFacts = SplitFacts()
    """Of a node that is none of these: as if it lacked nothing."""
    alarms: Mapping[str, Alarm] = field(default_factory=dict)
    """Guard-rails that complain, by name (`whitespace/latin`)."""
    rolled_back: int = 0
    """How often the policy was set back to a checkpoint since the start."""
    checkpoint_age_seconds: float | None = 0.0
    """Since the last checkpoint was complete; None if there is none yet."""
    checkpoint_interval_seconds: float = 600.0
    checkpoint_failures: int = 0
    """In a row."""
    checkpoint_error: str = ""
    store_problem: str = ""
    """One line when the store cannot be written, or was set aside as damaged; else ""."""
    tracker_problems: Mapping[str, str] = field(default_factory=dict)
    """Why a tracker, or rounds.jsonl, takes no rounds, in one line by its name."""
    disk_free_bytes: int = 1 << 40
    """On the file system of the home."""
    memory_available_bytes: int = 1 << 40
    memory_total_bytes: int = 1 << 40


@dataclass(frozen=True, slots=True)
class HealthWarning:
    """One complaint, in words."""

    code: str
    """Stable: programs may test for it."""
    severity: Severity
    title: str
    text: str
    """What is the case, with its figures."""
    fix: str
    """What the user should do."""


@dataclass(frozen=True, slots=True)
class Warnable:
    """Something that a node can complain of."""

    code: str
    severity: Severity
    title: str
    applies: Callable[[Facts], bool]
    text: Callable[[Facts], str]
    fix: str
    when: str
    """For the docs: the condition in words."""
    hidden_by: Sequence[str] = ()
    """Codes of its possible causes: while one of them applies, this is only its consequence."""
