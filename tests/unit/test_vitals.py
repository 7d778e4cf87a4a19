"""What a round's report becomes in a node's own picture of its health."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from swarmnode.config.settings import Settings
from swarmnode.observe.facts import Alarm
from swarmnode.observe.health import warnings
from swarmnode.publish import Identity
from swarmnode.types import RoundReport, TaskRewards
from swarmnode.vitals import Around, Vitals


def report(**metrics: float) -> RoundReport:
    mix = {"mix/local_live_groups": 1.0, "mix/external_live_groups": 0.0}
    nothing = TaskRewards({})
    return RoundReport(0, 1, 0.0, nothing, nothing, metrics={**mix, **metrics})


def test_what_guard_rails_and_common_answers_say_of_the_last_round_is_warned_of(
    tmp_path: Path,
) -> None:
    store: Any = SimpleNamespace(problem="")
    around = Around(
        settings=Settings(),
        home=tmp_path,
        identity=Identity(bytes(32), bytes(32), bytes(16)),
        swarm_id=bytes(32),
        swarm_name=None,
        private=False,
        started=0.0,
        store=store,
        children={},
        network_process=lambda: None,
    )
    vitals = Vitals(around)
    assert vitals.facts(1.0).alarms == {}
    length = {"guard/alarm/length": 2.0, "guard/recent/length": 9.0, "guard/start/length": 3.0}
    vitals.ended(report(**length, **{"answers/common_excess/bf": 0.5}), 1.0, 1.0)
    facts = vitals.facts(1.0)
    assert facts.alarms == {"length": Alarm(critical=True, recent=9.0, start=3.0)}
    assert facts.loopholes == ["bf"]
    assert {"guard-length", "loophole"} <= {each.code for each in warnings(facts)}
    vitals.ended(report(), 1.0, 2.0)
    assert (vitals.facts(2.0).alarms, vitals.facts(2.0).rolled_back) == ({}, 0)
    vitals.ended(report(**{"guard/rolled_back": 1.0}), 1.0, 3.0)
    assert vitals.facts(3.0).rolled_back == 1
