"""Moments of a node for tests of its dashboard."""

from __future__ import annotations

import dataclasses
from typing import Any

from swarmnode.api.documents import PeerStatus
from swarmnode.api.moment import Moment
from swarmnode.config.guard_rails import GuardRails
from swarmnode.keys import peer_id_of
from swarmnode.observe.history import History
from swarmnode.observe.machine import MachineStatus
from swarmnode.observe.shown_groups import ShownCompletion, ShownGroup
from swarmnode.observe.split_status import GeneratorStatus, SplitStatus
from swarmnode.observe.status import StatusDocument
from swarmnode.types import Scored, Trained, TrainedGroup
from tests.unit.cli_support import DOCUMENT, HOSTILE
from tests.unit.made import scored

KEY = bytes(range(32))
PEER = peer_id_of(KEY)
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>"
EVIL = f"{MARKUP}{HOSTILE}"


def report(number: int, **values: Any) -> dict[str, Any]:
    """A round's report as plain values."""
    return {
        "round": number,
        "reward/local": {"gcd": 0.5, "bf": 0.25},
        "reward/training_set": {"gcd": 0.75},
        "metrics": {"scheduler/weight/gcd": 0.6, "scheduler/weight/bf": 0.4, "loss": 0.5},
        "sources": {KEY[:8].hex(): 2},
        "trained": [
            ["own", "gcd", "none", "own samples"],
            [KEY[:8].hex(), "bf", "positive", "another tokenizer"],
        ],
        **values,
    }


def history(rounds: int = 12) -> History:
    """Rounds from 0 on, every fourth with an evaluation."""
    made = History()
    for number in range(rounds):
        marks = {"held_out": {"gcd": "1100", "bf": "0001"}, "held_out_greedy": {"gcd": "1111"}}
        made.add(report(number, **(marks if number % 4 == 0 else {})), 1000.0 + number)
    return made


def moment(status: StatusDocument = DOCUMENT, **fields: Any) -> Moment:
    """A node in a swarm of seven."""
    usual: dict[str, Any] = {
        "earlier": None,
        "peers": (PeerStatus(peer=PEER, connected=True, admitted=3, dropped={"expired": 2}),),
        "history": history(),
        "groups": (),
        "log": (),
        "guard_rails": GuardRails(),
    }
    return Moment(status=status, **usual | fields)


def evil_moment() -> Moment:
    """Every text that a peer, a model, a task or a log could have made is hostile."""
    shown = ShownGroup(
        round=3,
        publisher=EVIL,
        task=EVIL,
        level=EVIL,
        question=f"{EVIL}\n{EVIL}",
        answer=EVIL,
        level_of_correction=EVIL,
        why=EVIL,
        completions=(ShownCompletion(EVIL, 0.5, False, -0.25, True),),
        more=2,
    )
    entry = {"time": EVIL, "level": EVIL, "process": EVIL, "event": EVIL, EVIL: EVIL}
    peer = PeerStatus(peer=EVIL, address=EVIL, connected=True, dropped={EVIL: 1}, prefix=EVIL)
    rounds = history()
    rounds.add(
        report(
            99,
            trained=[[EVIL, EVIL, EVIL, EVIL]],
            sources={EVIL: 1},
            metrics={f"scheduler/weight/{EVIL}": 1.0, f"guard/value/length/{EVIL}": 1.0,
                     f"answers/common_excess/{EVIL}": 0.5},
            **{"reward/local": {EVIL: 0.5}, "held_out": {EVIL: "10"}},
        ),
        2000.0,
    )  # fmt: skip
    generator = GeneratorStatus(name=EVIL, version=1)
    machine = MachineStatus(
        processors=2, memory_available_bytes=1, memory_total_bytes=2, disk_free_bytes=3
    )
    status = DOCUMENT.model_copy(
        update={
            "node": DOCUMENT.node.model_copy(update={"peer_id": EVIL, "model": EVIL}),
            "dropped": {EVIL: 4},
            "machine": machine,
            "split": SplitStatus(
                version=1, capacity_groups=4, max_lag=1, dropped={EVIL: 1}, generators=(generator,)
            ),
        }
    )
    return moment(status, peers=(peer,), groups=(shown,), log=(entry,), history=rounds)


def learned() -> tuple[list[Scored], Trained]:
    """A step on two own groups, one of them dead, and one of a peer."""
    groups = [
        scored((0.0, 0.0), source="local", index=1),
        scored((1.0, 0.0), source="local", index=2),
        scored((0.0, 1.0), publisher=KEY, index=3),
    ]
    trained = [
        TrainedGroup("own", "basic_arithmetic", "out", "all rewards equal"),
        TrainedGroup("own", "basic_arithmetic", "none", "own samples"),
        TrainedGroup(KEY[:8].hex(), "basic_arithmetic", "positive", "totals"),
    ]
    return groups, Trained({}, trained, [[0.0, 0.0], [0.7, -0.7], []])


def without(status: StatusDocument, **fields: Any) -> StatusDocument:
    """The document with other fields."""
    return status.model_copy(update=fields)


def replaced(made: Moment, **fields: Any) -> Moment:
    """The moment with other fields."""
    return dataclasses.replace(made, **fields)
