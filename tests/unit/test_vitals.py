"""What a round's report becomes in a node's own picture of its health."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from swarmnode.config.policy import PolicySettings
from swarmnode.config.rounds import Rounds
from swarmnode.config.selection import Selection
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


def vitals_of(settings: Settings, home: Path) -> Vitals:
    store: Any = SimpleNamespace(problem="")
    around = Around(
        settings=settings,
        home=home,
        identity=Identity(bytes(32), bytes(32), bytes(16)),
        swarm_id=bytes(32),
        swarm_name=None,
        private=False,
        started=0.0,
        store=store,
        children={},
        network_process=lambda: None,
    )
    return Vitals(around)


def test_what_guard_rails_and_common_answers_say_of_the_last_round_is_warned_of(
    tmp_path: Path,
) -> None:
    vitals = vitals_of(Settings(), tmp_path)
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


def test_what_peers_groups_may_do_is_warned_of_by_the_settings_and_the_last_round(
    tmp_path: Path,
) -> None:
    mix = Rounds(local_groups_per_round=2, external_groups_per_round=6)
    facts = vitals_of(Settings(rounds=mix), tmp_path).facts(1.0)
    assert "external-share-raised" in {each.code for each in warnings(facts)}
    less = Settings(rounds=mix, selection=Selection(external_token_share=0.5))
    assert "mix-over-share" in {
        each.code for each in warnings(vitals_of(less, tmp_path).facts(1.0))
    }
    vitals = vitals_of(Settings(policy=PolicySettings(external="off")), tmp_path)
    assert not vitals.facts(1.0).wants_external
    vitals = vitals_of(Settings(), tmp_path)
    fallen = {"fallback/active": 1.0, "fallback/evaluations_left": 3.0, "fallback/drop": 0.053}
    vitals.ended(report(**fallen, **{"fallback/deviations": 4.1}), 1.0, 1.0)
    (warning,) = [each for each in warnings(vitals.facts(2.0)) if each.code == "external-fallback"]
    assert "fell by 5.3 points (4.1 standard errors)" in warning.text
    assert "3 evaluations more" in warning.text
    vitals.ended(report(**{**fallen, "fallback/active": 0.0}), 1.0, 3.0)
    assert vitals.facts(3.0).fallback_evaluations_left == 0
