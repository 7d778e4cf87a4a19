"""What a running node knows of itself: filled by the daemon as things happen, read as documents.

Gathers nothing itself and judges nothing: swarmnode.observe says what is worth a warning.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swarmnode import __version__
from swarmnode.config.settings import Settings
from swarmnode.keeper import PolicyKeeper
from swarmnode.node import Node
from swarmnode.observe import status as shown
from swarmnode.observe.disk import occupied
from swarmnode.observe.facts import Facts, SplitFacts
from swarmnode.observe.guard_warnings import alarms_of
from swarmnode.observe.health import warnings
from swarmnode.observe.history import History
from swarmnode.observe.machine import MachineStatus, ProcessStatus, children_of
from swarmnode.observe.network_status import NetworkStatus
from swarmnode.observe.shown_groups import ShownGroup, shown_groups
from swarmnode.observe.tracking import FailingRewards, LastHour, Lasting
from swarmnode.process import Child
from swarmnode.publish import Identity
from swarmnode.rewards.common_answers import EXCESS_SEEN
from swarmnode.split.loops import Split
from swarmnode.split.status import split_facts, split_status
from swarmnode.store.store import Store
from swarmnode.trackers.following import Following
from swarmnode.types import Evaluation, RoundReport, Scored, TaskRewards, Trained

_EXCESS = "answers/common_excess/"


@dataclass(frozen=True, slots=True)
class Around:
    """What does not change while the node runs."""

    settings: Settings
    home: Path
    identity: Identity
    swarm_id: bytes
    swarm_name: str | None
    """None for a node on its own."""
    private: bool
    """Whether the swarm is private."""
    started: float
    store: Store
    children: Mapping[str, Child]
    """By what they do: policy, scorer."""
    network_process: Callable[[], int | None]
    """The process id of the network process, while there is one."""


@dataclass(slots=True)
class Vitals:
    """The changing rest."""

    around: Around
    phase: shown.Phase = "starting"
    node: Node | None = None
    keeper: PolicyKeeper | None = None
    split: Split | None = None
    """Both loops, where generation and training are apart."""
    following: Following | None = None
    """Who is given every round."""
    health: Mapping[str, Any] = field(default_factory=lambda: {"state": "starting"})
    """What the transport said last."""
    report: RoundReport | None = None
    evaluation: Evaluation | None = None
    round_number: int = 0
    round_seconds: float = 0.0
    round_ended: float | None = None
    rounds_without_live_group: int = 0
    training_failures: int = 0
    """Rounds in a row that failed."""
    training_error: str = ""
    duplicate_instance: str = ""
    """Of a node that was there before us and publishes with our key, as hex."""
    dropped: Counter[str] = field(default_factory=Counter)
    history: History = field(default_factory=History)
    groups: Sequence[ShownGroup] = ()
    """Some of those that the last step was given."""
    dashboard: str = ""
    """Where the page is served; empty where none is."""
    _state: Lasting = field(default_factory=Lasting)
    _admitted: Lasting = field(default_factory=Lasting)
    _restarts: dict[str, LastHour] = field(default_factory=dict)
    _kills: LastHour = field(default_factory=LastHour)
    _failing: FailingRewards = field(default_factory=FailingRewards)

    def heard(self, health: Mapping[str, Any], now: float) -> None:
        """The transport has told of itself."""
        self.health = health
        self._state.seconds(health["state"], now)

    def ended(self, report: RoundReport, seconds: float, now: float) -> None:
        """A round has ended well."""
        self.report, self.round_seconds, self.round_ended = report, seconds, now
        self.evaluation = report.evaluation or self.evaluation
        self.training_failures, self.training_error = 0, ""
        self.dropped.update(report.dropped)
        self._failing.heard(report.metrics)
        live = report.metrics["mix/local_live_groups"] + report.metrics["mix/external_live_groups"]
        self.rounds_without_live_group = 0 if live else self.rounds_without_live_group + 1

    def learned(self, groups: Sequence[Scored], trained: Trained) -> None:
        """A step has been taken."""
        self.groups = shown_groups(self.round_number, groups, trained)

    def failed(self, why: str) -> None:
        """A round has failed."""
        self.training_failures += 1
        self.training_error = why

    def facts(self, now: float) -> Facts:
        """What warnings are made from."""
        settings = self.around.settings
        machine = MachineStatus.of(self.around.home)
        keeper = self.keeper
        saved = self._checkpoint()
        kills = self.dropped["scorer_killed"] + self._metric("unscored/scorer_killed")
        told = Facts(
            last_external_seconds=self._last_admitted(now),
            wants_external=settings.rounds.external_groups_per_round > 0
            and settings.policy.external != "off",
            external_use=settings.policy.external,
            external_share=settings.selection.external_share(settings.rounds),
            wanted_external_share=settings.rounds.external_share,
            fallback_evaluations_left=int(self._metric("fallback/evaluations_left"))
            if self._metric("fallback/active")
            else 0,
            fallback_drop=self._metric("fallback/drop"),
            fallback_deviations=self._metric("fallback/deviations"),
            log_prob_gate_enforced=settings.selection.log_prob_gate.action == "enforce",
            shares=settings.rounds.share != "none",
            open_addresses=self._open_addresses,
            clock_skew_seconds=settings.selection.clock_skew_seconds,
            duplicate_instance=self.duplicate_instance,
            restarts_last_hour={
                name: self._restarts.setdefault(name, LastHour()).growth(count, now)
                for name, count in self._starts().items()
            },
            uptime_seconds=now - self.around.started,
            round_seconds=self.round_seconds,
            rounds_without_live_group=self.rounds_without_live_group,
            training_failures=self.training_failures,
            training_error=self.training_error,
            scorer_kills_last_hour=self._kills.growth(int(kills), now),
            loopholes=self._loopholes(),
            failing_rewards=self._failing.rounds,
            split=split_facts(self.split, now) if self.split else SplitFacts(),
            alarms=alarms_of(self.report.metrics) if self.report else {},
            rolled_back=int(self._metric("guard/rolled_back")),
            # One that an earlier life wrote is as old as this life at most.
            checkpoint_age_seconds=now - max(self.around.started, saved.written if saved else 0.0),
            checkpoint_interval_seconds=settings.daemon.checkpoint_seconds,
            checkpoint_failures=keeper.failures if keeper else 0,
            checkpoint_error=keeper.problem if keeper else "",
            store_problem=self.around.store.problem,
            tracker_problems=self.following.problems if self.following else {},
            disk_free_bytes=machine.disk_free_bytes,
            memory_available_bytes=machine.memory_available_bytes,
            memory_total_bytes=machine.memory_total_bytes,
        )
        return self._network(now).told_in(told)

    @property
    def _open_addresses(self) -> tuple[str, ...]:
        settings = self.around.settings
        open_to_peers = settings.network.open_addresses if self.around.swarm_name else ()
        return open_to_peers + settings.dashboard.open_addresses + settings.metrics.open_addresses

    def document(self, now: float) -> shown.StatusDocument:
        """The status document."""
        around, settings = self.around, self.around.settings
        network = self._network(now)
        node, report = self.node, self.report
        return shown.StatusDocument(
            phase=self.phase,
            starting=self._starting(),
            version=__version__,
            started=around.started,
            now=now,
            node=shown.NodeStatus(
                peer_id=self.health.get("peer_id") or "",
                public_key=around.identity.public_key.hex(),
                instance=around.identity.instance.hex(),
                model=settings.policy.model,
            ),
            swarm=self._swarm(),
            round=shown.RoundStatus(
                number=self.round_number, ended=self.round_ended, seconds=self.round_seconds
            )
            if self.round_number
            else None,
            policy_version=node.policy.info.version if node else None,
            rewards=self._rewards(),
            mix=_mix(settings, report) if report else None,
            pool=shown.PoolStatus(
                groups=len(node.parts.pool),
                capacity=settings.selection.pool_groups,
                admitted=node.incoming.counts["admitted"],
                last_admitted_seconds=self._last_admitted(now),
            )
            if node
            else None,
            network=network,
            dropped=dict(self.dropped),
            split=split_status(self.split, now) if self.split else None,
            processes=self._processes(),
            machine=MachineStatus.of(around.home),
            home_bytes=occupied(around.home),
            dashboard=self.dashboard,
            checkpoint=self._checkpoint(),
            warnings=tuple(warnings(self.facts(now))),
        )

    def _network(self, now: float) -> NetworkStatus:
        seconds = self._state.seconds(self.health["state"], now)
        return NetworkStatus.of(self.health, seconds)

    def _swarm(self) -> shown.SwarmStatus | None:
        name = self.around.swarm_name
        if name is None:
            return None
        size = self.health.get("swarm_size") or 1
        around = self.around
        return shown.SwarmStatus(
            id=around.swarm_id.hex(), name=name, private=around.private, size=round(size)
        )

    def _rewards(self) -> shown.Rewards:
        report, evaluation = self.report, self.evaluation
        return shown.Rewards(
            local=_reward(report.local if report else None),
            training_set=_reward(report.training_set if report else None),
            held_out=_reward(evaluation.held_out if evaluation else None),
        )

    def _starting(self) -> str:
        host = self.around.children.get("policy")
        step = host.step if host and self.phase == "starting" else None
        return step.in_words if step else ""

    def _checkpoint(self) -> shown.CheckpointStatus | None:
        keeper = self.keeper
        newest = keeper.newest if keeper else None
        if keeper is None or newest is None or not newest.path.exists():
            return None
        return shown.CheckpointStatus(
            policy_version=keeper.newest_version,
            written=newest.path.stat().st_mtime,
            bytes=newest.size,
        )

    def _processes(self) -> tuple[ProcessStatus, ...]:
        known: list[tuple[str, int | None, int]] = [("daemon", os.getpid(), 0)]
        known += [
            (name, child.process_id, max(0, child.starts - 1))
            for name, child in self.around.children.items()
        ]
        if self.following is not None:
            known += self.following.processes
        if (network := self.around.network_process()) is not None:
            known.append(("network", network, self.health.get("restarts", 0)))
            known += [("p2pd", child, 0) for child in children_of(network)]
        return tuple(ProcessStatus.of(*each) for each in known)

    def _starts(self) -> dict[str, int]:
        starts = {name: child.starts for name, child in self.around.children.items()}
        return {**starts, "network": self.health.get("restarts", 0)}

    def _last_admitted(self, now: float) -> float | None:
        admitted = self.node.incoming.counts["admitted"] if self.node else 0
        seconds = self._admitted.seconds(admitted, now)
        return seconds if admitted else None

    def _loopholes(self) -> Sequence[str]:
        metrics = self.report.metrics if self.report else {}
        return [
            name.removeprefix(_EXCESS)
            for name, excess in metrics.items()
            if name.startswith(_EXCESS) and excess >= EXCESS_SEEN
        ]

    def _metric(self, name: str) -> float:
        return self.report.metrics.get(name, 0.0) if self.report else 0.0


def _reward(rewards: TaskRewards | None) -> shown.Reward:
    if rewards is None or not rewards.by_task:
        return shown.Reward()
    return shown.Reward(mean=rewards.mean, by_task=dict(rewards.by_task))


def _mix(settings: Settings, report: RoundReport) -> shown.Mix:
    metrics = report.metrics
    return shown.Mix(
        local_groups=int(metrics["mix/local_groups"]),
        external_groups=int(metrics["mix/external_groups"]),
        wanted_local_groups=settings.rounds.local_groups_per_round,
        wanted_external_groups=settings.rounds.external_groups_per_round,
        external_peers=int(metrics["mix/external_peers"]),
        external_token_share=metrics["mix/external_token_share"],
        peers_are="fallback" if metrics["fallback/active"] else settings.policy.external,
    )
