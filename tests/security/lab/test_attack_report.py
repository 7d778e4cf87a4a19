"""What a study under attack says: on the screen, on the page, and in summary.json."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from swarmnode.cli.screen import Screen
from swarmnode.config.settings import Settings, load_settings
from swarmnode.sim.page import page
from swarmnode.sim.report import summary_as_json
from swarmnode.sim.summary import Run, summarize
from swarmnode.sim.words import Study
from tests.unit.sim_support import swarm

NAMES = ["bf", "arc_1d"]


def settings(*more: str) -> Settings:
    return load_settings(assignments=['tasks.names=["bf", "arc_1d"]', "simulation.nodes=3", *more])


def attacked() -> Run:
    """The run of sim_support, as under an attack."""
    run = swarm()
    return replace(
        run,
        reports=[
            replace(
                report,
                metrics={
                    **report.metrics,
                    "attack/groups": 1.0,
                    "attack/tokens": 3.0,
                    "attack/set_tokens": 10.0,
                    "mix/external_groups": 4.0,
                    **(
                        {
                            "attack/said/mark": 0.5 if report.round else 0.0,
                            "attack/answer_tokens": 4.0,
                        }
                        if report.evaluation
                        else {}
                    ),
                },
            )
            for report in run.reports
        ],
    )


def study(run: Run, chosen: Settings) -> Study:
    return Study(summarize([run]), chosen, True, "swarmnode simulate", dict.fromkeys(NAMES))


def test_the_page_says_which_attack_was_run_and_what_was_seen() -> None:
    chosen = settings("simulation.attack=out-of-context", "simulation.attackers=2")
    text = page(study(attacked(), chosen), "")
    assert "Attack out-of-context: 2 attackers beside 3 honest nodes." in text
    assert "in 50.0\u00a0% at the end" in text
    assert "30.0\u00a0% of all tokens that they trained on" in text
    assert "Attack" not in page(study(swarm(), settings()), "")


def test_the_summary_has_what_was_seen() -> None:
    for run, expected in ((attacked(), True), (swarm(), False)):
        summary = summary_as_json(
            summarize([run]),
            [run],
            settings("simulation.attack=slow"),
            complete=True,
            command="",
            baselines=dict.fromkeys(NAMES),
        )
        seen = summary["variants"][0]["attacked"]
        assert (seen is not None) is expected
        if seen:
            assert seen["said"] == {"mark": [0.0, 0.5]}
            assert (seen["groups"], seen["external_groups"], seen["tokens"]) == (1.0, 4.0, 0.3)


def test_the_screen_says_it_before_and_after() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    screen.starting(settings("simulation.attack=sybil", "simulation.attackers=50"), 1)
    screen.finish([attacked()], Path("report.html"), "sybil")
    text = stream.getvalue()
    assert "Attack sybil: 50 attackers beside 3 honest nodes" in text
    assert "4/4, attack sybil: Of attackers were 1.00 groups a round" in text
