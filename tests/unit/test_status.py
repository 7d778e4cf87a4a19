"""The status document: its sentence, and that it survives the way through JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from swarmnode.observe.facts import Facts
from swarmnode.observe.health import warnings
from swarmnode.observe.machine import ProcessStatus
from swarmnode.observe.network_status import BootstrapStatus, NetworkStatus
from swarmnode.observe.status import (
    CheckpointStatus,
    Mix,
    NodeStatus,
    PoolStatus,
    Reward,
    Rewards,
    RoundStatus,
    StatusDocument,
    StatusError,
    SwarmStatus,
)

UNANSWERED = tuple(
    BootstrapStatus(address=f"/ip4/10.0.0.{n}/tcp/1", connected=False, failures=3) for n in (1, 2)
)
ANSWERED = (*UNANSWERED, BootstrapStatus(address="/ip4/10.0.0.3/tcp/1", connected=True))


def document(facts: Facts | None = None, **fields: Any) -> StatusDocument:
    usual: dict[str, Any] = {
        "version": "0.1.0",
        "started": 1000.0,
        "now": 1600.0,
        "node": NodeStatus(peer_id="12D3KooWA", public_key="ab" * 32),
        "swarm": SwarmStatus(id="cd" * 32, size=7),
        "round": RoundStatus(number=41, ended=1590.0, seconds=12.5),
        "network": NetworkStatus(state="connected", peers=6),
        "warnings": tuple(warnings(facts or Facts())),
    }
    return StatusDocument(**usual | fields)


FULL = document(
    Facts(disk_free_bytes=1, reachable=False),
    policy_version=40,
    rewards=Rewards(local=Reward(mean=0.5, by_task={"gcd": 0.5})),
    mix=Mix(local_groups=4, external_groups=2, wanted_local_groups=4, wanted_external_groups=4),
    pool=PoolStatus(groups=3, capacity=12, admitted=80, last_admitted_seconds=2.0),
    network=NetworkStatus(state="connected", peers=6, bootstrap=ANSWERED),
    dropped={"expired": 3},
    processes=(ProcessStatus(name="daemon", process_id=12, memory_bytes=10),),
    checkpoint=CheckpointStatus(policy_version=30, written=1500.0, bytes=1 << 20),
)


def test_a_document_survives_the_way_through_json() -> None:
    assert StatusDocument.from_json(json.loads(json.dumps(FULL.as_json()))) == FULL


def test_a_document_of_a_later_version_is_read_and_one_that_lacks_something_is_refused() -> None:
    later = FULL.as_json() | {"mood": "good"}
    assert StatusDocument.from_json(later) == FULL
    lacking = {name: value for name, value in FULL.as_json().items() if name != "network"}
    with pytest.raises(StatusError, match="network"):
        StatusDocument.from_json(lacking)
    with pytest.raises(StatusError):
        StatusDocument.from_json(["no", "document"])


def test_a_document_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        FULL.phase = "stopping"


@pytest.mark.parametrize(
    ("fields", "summary"),
    [
        ({}, "training in a swarm of 7, round 41"),
        (
            {"swarm": SwarmStatus(id="cd")},
            "training alone, round 41: 6 peers connected, no other node heard of yet",
        ),
        ({"phase": "starting"}, "starting"),
        ({"phase": "stopping"}, "stopping, round 41: finishing, and writing a checkpoint"),
        (
            {"network": NetworkStatus(state="alone", bootstrap=UNANSWERED,
                                      next_attempt_seconds=12.2)},
            "training alone, round 41: no bootstrap peer answers (2 tried), trying again in 12 s",
        ),
        (
            {"network": NetworkStatus(state="alone", bootstrap=ANSWERED)},
            "training alone, round 41: nobody else is in the swarm",
        ),
        (
            {"network": NetworkStatus(state="alone")},
            "training alone, round 41: no bootstrap peer is known",
        ),
        (
            {"network": NetworkStatus(state="down", error="killed by signal 9")},
            "training alone, round 41: network process restarting (killed by signal 9)",
        ),
        (
            {"network": NetworkStatus(state="starting", state_seconds=3.0)},
            "training alone, round 41: the network is starting (3 s)",
        ),
        (
            {"network": NetworkStatus(state="off"), "swarm": None},
            "training alone, round 41: no swarm is wanted (--solo)",
        ),
        (
            {"role": "bootstrap", "round": None},
            "serving as a bootstrap peer, 6 peers connected",
        ),
        ({"round": None}, "training in a swarm of 7"),
    ],
)  # fmt: skip
def test_one_sentence_says_what_the_node_does(fields: dict[str, Any], summary: str) -> None:
    assert document(**fields).summary == summary
    assert document(**fields).as_json()["summary"] == summary


def test_the_sentence_tells_of_a_second_node_with_the_key_and_of_training_that_fails() -> None:
    twin = document(Facts(duplicate_instance="ab"))
    assert twin.summary == "training alone, round 41: another node uses this key"
    failing = document(Facts(training_failures=3, training_error="out of memory"))
    assert failing.summary == (
        "not training, round 41: The last 3 training steps failed: out of memory"
    )


def test_hostile_text_in_the_sentence_is_escaped() -> None:
    hostile = document(network=NetworkStatus(state="down", error="\x1b[2J\nfine"))
    assert hostile.summary.isprintable()


def test_what_the_transport_says_becomes_the_networks_part_and_facts() -> None:
    health = {
        "state": "alone", "peer_id": "12D3", "addresses": ["/ip4/127.0.0.1/tcp/1"],
        "reachable": False, "peers": 0, "known_announcements": 3, "restarts": 1,
        "last_acknowledgement_seconds": None, "swarm_size": 1.4, "looks": {"full": 3},
        "clock_offset_seconds": 0.5,
        "strangers": 2, "unopened": {"/swarmnode/fetch/1/request/seal": 7},
        "relayed": {"places": 2, "bytes": 9},
        "next_attempt_seconds": 5.0, "bytes_in": 10, "bytes_out": 20, "error": "",
        "bootstrap": [{"address": "/ip4/10.0.0.1/tcp/1", "connected": False, "failures": 2}],
    }  # fmt: skip
    network = NetworkStatus.of(health, state_seconds=42.0)
    assert (network.state, network.state_seconds, network.bytes_out) == ("alone", 42.0, 20)
    assert network.bootstrap[0].failures == 2
    assert (network.strangers, sum(network.unopened.values())) == (2, 7)
    assert network.relayed["places"] == 2
    facts = network.told_in(Facts(round_seconds=9.0))
    assert facts == replace(
        Facts(round_seconds=9.0), network_state="alone", network_state_seconds=42.0, peers=0,
        swarm_size=1.4, bootstrap_tried=1, bootstrap_failed=1, last_acknowledgement_seconds=None,
        reachable=False,
        clock_offset_seconds=0.5, next_attempt_seconds=5.0,
    )  # fmt: skip
    assert [each.code for each in warnings(facts)] == ["bootstrap-failed"]
