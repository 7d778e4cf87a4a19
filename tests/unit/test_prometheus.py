"""The metrics for Prometheus: complete against the catalogue, well formed, and bounded."""

from __future__ import annotations

import re

from prometheus_client.parser import text_string_to_metric_families

from swarmnode.api.documents import PeerStatus
from swarmnode.api.moment import Moment
from swarmnode.api.prometheus import (
    LABELS,
    MOST_VALUES,
    NOT_EXPORTED,
    exposition,
    metric_name,
)
from swarmnode.observe.history import History
from swarmnode.observe.metrics import DROPPED, METRICS
from swarmnode.observe.training_metrics import CHANNEL_METRICS, TRAINING_METRICS
from tests.unit.dashboard_support import evil_moment, history, moment, report

CATALOGUE = {**METRICS, **TRAINING_METRICS, **CHANNEL_METRICS}
IN_THE_REPORT = {"reward/local", "reward/training_set", "held_out", "held_out_greedy"}


def families(shown: Moment) -> dict[str, tuple[str, list[tuple[dict[str, str], float]]]]:
    """By name: type, and samples with their labels."""
    return {
        family.name: (family.type, [(each.labels, each.value) for each in family.samples])
        for family in text_string_to_metric_families(exposition(shown).decode())
    }


def everything() -> Moment:
    """A round that reported every name of the catalogue."""
    metrics = {
        f"{name}/some" if name in LABELS else name: 0.25
        for name in CATALOGUE
        if name not in IN_THE_REPORT | set(NOT_EXPORTED)
    }
    told = history()
    told.add(report(50, metrics=metrics), 1.0)
    return moment(history=told)


def test_every_metric_of_the_catalogue_is_there_or_left_out_for_a_reason() -> None:
    found = families(everything())
    missing = [
        name for name in CATALOGUE if metric_name(name) not in found and name not in NOT_EXPORTED
    ]
    assert missing == []
    assert set(NOT_EXPORTED) <= set(CATALOGUE)
    assert set(LABELS) <= set(CATALOGUE)


def test_no_two_names_of_the_catalogue_become_one() -> None:
    names = [metric_name(name) for name in CATALOGUE]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"swarmnode_[a-z0-9_]+", name) for name in names)


def test_what_grows_is_a_counter_and_what_has_kinds_a_label() -> None:
    found = families(everything())
    assert found["swarmnode_collected_admitted"][0] == "counter"
    assert found["swarmnode_split_dropped"] == ("counter", [({"reason": "some"}, 0.25)])
    assert found["swarmnode_guard_recent"] == ("gauge", [({"rail": "some"}, 0.25)])
    assert found["swarmnode_channels_mean"] == ("gauge", [({"channel": "some"}, 0.25)])
    assert found["swarmnode_learn_seconds"] == ("gauge", [({}, 0.25)])
    text = exposition(everything()).decode()
    assert "# TYPE swarmnode_collected_admitted_total counter" in text
    assert "swarmnode_collected_admitted_total 0.25" in text


def test_rewards_are_there_by_task_and_as_their_mean() -> None:
    found = families(moment())
    local = {labels["task"]: value for labels, value in found["swarmnode_reward_local"][1]}
    assert local == {"gcd": 0.5, "bf": 0.25}
    assert found["swarmnode_reward_local_mean"][1] == [({}, 0.375)]
    held_out = {labels["task"]: value for labels, value in found["swarmnode_held_out"][1]}
    assert held_out == {"gcd": 0.5, "bf": 0.25}


def test_a_rail_that_complains_of_nothing_says_zero() -> None:
    told = History()
    told.add(report(1, metrics={"guard/value/length": 3.0, "guard/value/kl": 0.1,
                                "guard/alarm/kl": 2.0}), 1.0)  # fmt: skip
    (_, alarms) = families(moment(history=told))["swarmnode_guard_alarm"]
    assert {labels["rail"]: value for labels, value in alarms} == {"length": 0.0, "kl": 2.0}


def test_the_status_has_every_reason_every_warning_and_the_processes() -> None:
    found = families(moment())
    reasons = {labels["reason"]: value for labels, value in found["swarmnode_dropped"][1]}
    assert set(reasons) == set(DROPPED)
    assert (reasons["expired"], reasons["wire"], reasons["hash"]) == (3.0, 9.0, 0.0)
    warned = {labels["code"]: value for labels, value in found["swarmnode_warning"][1]}
    assert (warned["disk-full"], warned["clock-off"]) == (1.0, 0.0)
    assert found["swarmnode_round"][1] == [({}, 41.0)]
    assert found["swarmnode_process_restarts"][1] == [({"process": "policy"}, 1.0)]


def test_neither_peers_nor_names_that_nobody_knows_make_a_series() -> None:
    few = exposition(moment()).count(b"\n")
    crowd = tuple(PeerStatus(peer=f"p{n}", dropped={f"r{n}": 1}) for n in range(2000))
    told = history()
    told.add(report(60, sources={f"{n:016x}": 1 for n in range(2000)},
                    metrics={f"made/up/{n}": 1.0 for n in range(2000)}), 1.0)  # fmt: skip
    assert exposition(moment(peers=crowd, history=told)).count(b"\n") <= few


def test_the_values_of_a_label_are_bounded_and_safe() -> None:
    told = history()
    told.add(report(60, metrics={f"guard/value/r{n}": 1.0 for n in range(500)}), 1.0)
    assert len(families(moment(history=told))["swarmnode_guard_value"][1]) == MOST_VALUES
    text = exposition(evil_moment()).decode()
    assert all(each.isprintable() for each in text.splitlines())
    assert families(evil_moment())


def test_a_node_before_its_first_round_has_metrics_too() -> None:
    assert "swarmnode_uptime_seconds" in families(moment(history=History()))
