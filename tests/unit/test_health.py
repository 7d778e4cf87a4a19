"""Health warnings: each fires on its facts, clears without them, and hides behind its cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import pytest

from swarmnode.config.guard_rails import RAILS
from swarmnode.observe.facts import Alarm, Facts, Severity, SplitFacts
from swarmnode.observe.guard_warnings import alarms_of
from swarmnode.observe.health import WARNABLES, health_table, warnings
from swarmnode.observe.tracking import FailingRewards, LastHour, Lasting
from swarmnode.observe.words import counted, lasting, size_of

LONG: Mapping[str, Any] = {"network_state_seconds": 1e4}
ALONE = {"network_state": "alone", "peers": 0}

CASES: Mapping[str, Mapping[str, Any]] = {
    "network-down": {"network_state": "down", "network_state_seconds": 121.0},
    "network-restarting": {"network_state": "down", "network_state_seconds": 1.0},
    "network-slow-start": {"network_state": "starting", "network_state_seconds": 61.0},
    "no-bootstrap": {**ALONE, "bootstrap_tried": 0},
    "lan-failed": {"lan": True, "lan_error": "wlan0: Permission denied"},
    "lan-alone": {**ALONE, "bootstrap_tried": 0, "lan": True},
    "bootstrap-failed": {**ALONE, "bootstrap_tried": 2, "bootstrap_failed": 2},
    "nobody-else": {**ALONE, "bootstrap_tried": 2, "bootstrap_failed": 1},
    "duplicate-instance": {"duplicate_instance": "ab" * 16},
    "clock-far-off": {"clock_offset_seconds": -600.0},
    "clock-off": {"clock_offset_seconds": 11.0},
    "not-acknowledged": {**LONG, "last_acknowledgement_seconds": 301.0},
    "no-external-groups": {**LONG, "last_external_seconds": None},
    "not-reachable": {"reachable": False},
    "listening": {"open_addresses": ("/ip4/0.0.0.0/tcp/31337",)},
    "external-fallback": {"fallback_evaluations_left": 3, "fallback_drop": 0.05},
    "external-share-raised": {"external_share": 0.75},
    "mix-over-share": {"external_share": 0.4},
    "external-monitored": {"external_use": "monitor"},
    "log-prob-gate-enforced": {"log_prob_gate_enforced": True},
    "process-restarts": {"restarts_last_hour": {"network": 3, "scorer": 1}},
    "training-keeps-failing": {"training_failures": 3, "training_error": "out of memory"},
    "training-failed": {"training_failures": 1, "training_error": "out of memory"},
    "nothing-to-learn": {"rounds_without_live_group": 5},
    "loophole": {"loopholes": ("base_conversion",)},
    "reward-keeps-failing": {"failing_rewards": {"judge": 5, "other": 4}},
    "scorer-kills": {"scorer_kills_last_hour": 10},
    "disk-full": {"disk_free_bytes": 1},
    "disk-low": {"disk_free_bytes": 1024**3},
    "checkpoint-failed": {"checkpoint_failures": 1, "checkpoint_error": "input/output error"},
    "checkpoint-old": {"checkpoint_age_seconds": 1801.0},
    "store-problem": {"store_problem": "the store was damaged and set aside"},
    "tracker-failing": {"tracker_problems": {"wandb": "wandb: begin took over 120 s."}},
    "memory-low": {"memory_available_bytes": 1, "memory_total_bytes": 100},
    "generator-keeps-failing": {
        "split": SplitFacts(failures={"generator-1": 3, "generator-2": 2}, problem="out of memory")
    },
    "weights-not-handed-over": {"split": SplitFacts(publish_problem="no room in memory")},
    "trainer-starved": {"split": SplitFacts(trainer_waits_seconds=901.0)},
    "generator-held-back": {"split": SplitFacts(held_back_seconds={"generator-2": 901.0})},
    "trainer-idle": {"split": SplitFacts(trainer_idle_share=0.5)},
    "generators-idle": {"split": SplitFacts(generators_idle_share=0.5, generators=2)},
    **{
        f"guard-{name.replace('_', '-')}": {"alarms": {name: Alarm(False, 0.5, 0.1)}}
        for name in (*RAILS, "nonfinite")
    },
    "guard-rolled-back": {"rolled_back": 2},
}


def together(*several: SplitFacts) -> SplitFacts:
    """What any of them says that is not the default."""
    default = asdict(SplitFacts())
    said: dict[str, Any] = {}
    for one in several:
        said |= {name: value for name, value in asdict(one).items() if value != default[name]}
    return SplitFacts(**said)


def codes(facts: Facts) -> list[str]:
    return [each.code for each in warnings(facts)]


def test_a_healthy_node_complains_of_nothing() -> None:
    assert warnings(Facts()) == []


def test_every_warning_has_a_case_here_and_a_code_of_its_own() -> None:
    assert [each.code for each in WARNABLES] == list(dict.fromkeys(CASES))
    assert {cause for each in WARNABLES for cause in each.hidden_by} <= set(CASES)


@pytest.mark.parametrize("code", CASES)
def test_a_warning_fires_alone_on_its_facts_and_says_what_to_do(code: str) -> None:
    (warning,) = warnings(replace(Facts(), **CASES[code]))
    assert warning.code == code
    assert warning.title
    assert warning.text.endswith((".", "memory", "error", "aside"))
    assert warning.fix.endswith(".")


@pytest.mark.parametrize(
    "facts",
    [
        {"network_state": "starting", "network_state_seconds": 59.0},
        {"network_state": "off", **LONG, "last_acknowledgement_seconds": None},
        {"swarm_size": 1.0, "wants_external": False, "shares": False},
        {**ALONE, "bootstrap_tried": 0, "wants_external": False, "shares": False},
        {"clock_offset_seconds": -9.0},
        {"clock_offset_seconds": None},
        {"last_acknowledgement_seconds": 1e4, "network_state_seconds": 20.0},
        {**LONG, "last_acknowledgement_seconds": 400.0, "round_seconds": 300.0},
        {**LONG, "last_acknowledgement_seconds": None, "shares": False},
        {**LONG, "last_external_seconds": None, "uptime_seconds": 100.0},
        {**LONG, "last_external_seconds": None, "wants_external": False},
        {"external_share": 0.75, "external_use": "off"},
        {"external_share": 0.4, "wanted_external_share": 0.4},
        {"external_use": "monitor", "wants_external": False},
        {"log_prob_gate_enforced": True, "wants_external": False},
        {"reachable": None},
        {"restarts_last_hour": {"network": 2}},
        {"rounds_without_live_group": 4},
        {"checkpoint_age_seconds": None, "uptime_seconds": 60.0},
        {"checkpoint_age_seconds": 2000.0, "round_seconds": 1500.0},
        {"scorer_kills_last_hour": 9},
        {"failing_rewards": {"judge": 4}},
        {"split": SplitFacts(failures={"generator-1": 2}, problem="out of memory")},
        {"split": SplitFacts(trainer_waits_seconds=899.0, held_back_seconds={"generator-1": 899})},
        {"split": SplitFacts(trainer_waits_seconds=2999.0), "round_seconds": 1000.0},
        {"split": SplitFacts(trainer_idle_share=0.49, generators_idle_share=0.49)},
    ],
)
def test_what_is_within_the_limits_gives_no_warning(facts: Mapping[str, Any]) -> None:
    assert codes(replace(Facts(), **facts)) == []


@pytest.mark.parametrize(
    ("cause", "consequence"),
    [(cause, each.code) for each in WARNABLES for cause in each.hidden_by],
)
def test_a_cause_hides_its_consequence(cause: str, consequence: str) -> None:
    both = replace(Facts(), **{**CASES[consequence], **CASES[cause]})
    if "split" in CASES[cause].keys() & CASES[consequence].keys():
        both = replace(both, split=together(CASES[cause]["split"], CASES[consequence]["split"]))
    assert cause in codes(both)
    assert consequence not in codes(both)


def test_a_dead_network_is_one_warning_and_not_four() -> None:
    dead = replace(
        Facts(), **CASES["network-down"], peers=0, last_acknowledgement_seconds=None,
        last_external_seconds=None, restarts_last_hour={"network": 9},
    )  # fmt: skip
    assert codes(dead) == ["network-down"]


def test_connected_to_a_bootstrap_peer_alone_is_told_and_lacks_no_groups() -> None:
    assert codes(replace(Facts(), **LONG, swarm_size=1.0, last_external_seconds=None)) == [
        "nobody-else"
    ]


def test_the_worst_comes_first() -> None:
    bad = replace(Facts(), reachable=False, disk_free_bytes=1, scorer_kills_last_hour=10)
    assert [each.severity for each in warnings(bad)] == [
        Severity.ERROR,
        Severity.WARNING,
        Severity.INFO,
    ]


def test_figures_are_in_the_text() -> None:
    failed = replace(Facts(), **CASES["bootstrap-failed"], next_attempt_seconds=12.4)
    assert warnings(failed)[0].text == (
        "No bootstrap peer answers (2 tried); trying again in 12 s."
    )
    trying = replace(failed, next_attempt_seconds=0.0)
    assert warnings(trying)[0].text == "No bootstrap peer answers (2 tried); trying again now."
    behind = replace(Facts(), clock_offset_seconds=600.0)
    assert "10 min behind the peers'" in warnings(behind)[0].text
    ahead = replace(Facts(), clock_offset_seconds=-600.0)
    assert "10 min ahead of the peers'" in warnings(ahead)[0].text


def test_a_peers_text_is_escaped() -> None:
    hostile = replace(Facts(), network_state="down", network_error="\x1b[2J\nall is well")
    (warning,) = warnings(hostile)
    assert warning.text.isprintable()
    assert "\\x1b[2J\\nall is well" in warning.text


def test_the_table_for_the_docs_has_a_row_for_each() -> None:
    rows = health_table().splitlines()
    assert len(rows) == 2 + len(WARNABLES)
    assert all(row.count("|") == 5 for row in rows)


def test_how_long_a_state_has_lasted_starts_anew_with_another() -> None:
    state = Lasting()
    assert state.seconds("alone", 100.0) == 0.0
    assert state.seconds("alone", 130.0) == 30.0
    assert state.seconds("connected", 140.0) == 0.0
    assert state.seconds("alone", 150.0) == 0.0


def test_what_happened_more_than_an_hour_ago_no_longer_counts() -> None:
    restarts = LastHour()
    assert restarts.growth(5, 0.0) == 0
    assert restarts.growth(7, 10.0) == 2
    assert restarts.growth(8, 3000.0) == 3
    assert restarts.growth(8, 3609.0) == 3
    assert restarts.growth(8, 3610.0) == 1
    assert restarts.growth(8, 9000.0) == 0


def test_words_for_durations_sizes_and_counts() -> None:
    assert [lasting(s) for s in (5.0, 119.0, 120.0, 7200.0, 200_000.0)] == [
        "5 s", "119 s", "2 min", "2 h", "2 days",
    ]  # fmt: skip
    assert [size_of(n) for n in (0, 1023, 1536, 20 * 1024**3, 3 * 1024**5)] == [
        "0 B", "1023 B", "1.5 KiB", "20 GiB", "3072 TiB",
    ]  # fmt: skip
    assert (counted(1, "peer"), counted(2, "peer")) == ("1 peer", "2 peers")


def test_a_guard_rail_says_where_it_was_and_where_it_is_and_for_which_script() -> None:
    metrics = {
        "guard/alarm/whitespace/hangul": 2.0,
        "guard/recent/whitespace/hangul": 0.05,
        "guard/start/whitespace/hangul": 0.2,
        "guard/recent/length": 9.0,
        "guard/value/nonfinite": 3.0,
        "guard/alarm/nonfinite": 2.0,
    }
    worst, other = warnings(Facts(alarms=alarms_of(metrics)))
    assert worst.code == "guard-nonfinite"
    assert "The last 3 steps" in worst.text
    assert other.code == "guard-whitespace"
    assert "(hangul): 0.05 now, 0.2 at first. This is critical." in other.text
    assert alarms_of({"guard/value/length": 1.0}) == {}


def test_a_reward_fails_in_a_row_until_a_round_in_which_it_told_of_all() -> None:
    failing = FailingRewards()
    failed, fine = {"channels/failed/judge": 3.0}, {"channels/failed/judge": 0.0}
    seen = []
    for metrics in (failed, {"loss": 1.0}, failed | {"channels/failed/own": 0.0}, fine, failed):
        failing.heard(metrics)
        seen.append(dict(failing.rounds))
    assert seen == [{"judge": 1}, {"judge": 1}, {"judge": 2}, {}, {"judge": 1}]
