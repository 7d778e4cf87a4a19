"""The page and the picture of a study."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from swarmnode.config.settings import Settings, load_settings
from swarmnode.drawing import CSS_VARIABLES
from swarmnode.selection.admission import Reason
from swarmnode.sim.curves import curves_png, curves_svg, draw
from swarmnode.sim.page import page
from swarmnode.sim.smoothing import moving_average, smoothing_width
from swarmnode.sim.summary import Run, summarize
from swarmnode.sim.words import REASONS, Study, answer, caption, verdict, what_was_run
from tests.unit.sim_support import report, swarm

TASKS = ("bf", "arc_1d")
BASELINES: dict[str, float | None] = {"bf": 0.1, "arc_1d": 0.05}
VOID = {"meta", "br", "link", "img", "input", "hr"}


class Tags(HTMLParser):
    """Collects tags and their references, and fails on what is not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        names = ("href", "src", "xlink:href", "srcset", "data", "action")
        self.references += [value or "" for name, value in attrs if name in names]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def made(
    *runs: Run, complete: bool = True, command: str = "swarmnode simulate", drawn: bool = False
) -> str:
    """The page, with the real picture only where a test looks at it."""
    variants = summarize(runs)
    study = Study(
        variants, load_settings(flags={"tasks.names": TASKS}), complete, command, BASELINES
    )
    return page(study, curves_svg(variants, BASELINES) if drawn else "<svg></svg>")


def gained(first: str, *lasts: str) -> Run:
    reports = []
    for node, last in enumerate(lasts):
        reports += [report(node, 0, {}, held_out={"bf": first})]
        reports += [report(node, 1, {"bf": 0.5}, held_out={"bf": last})]
    return Run("4/4", 0, reports)


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    text = made(swarm("8/0"), swarm("4/4"), drawn=True)
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert not tags.seen & {"script", "link", "iframe", "object", "embed", "img", "base", "form"}
    outside = [each for each in tags.references if not each.startswith("#")]
    assert sorted(outside) == ["curves.png", "summary.json"]
    assert "http:" not in text
    assert "https:" not in text
    assert "@import" not in text
    assert not re.findall(r"url\((?!#)", text)


def test_every_colour_of_the_picture_is_known_to_the_page() -> None:
    text = made(swarm(), drawn=True)
    used = set(re.findall(r"var\((--[\w-]+)\)", text))
    defined = set(re.findall(r"(--[\w-]+):", text))
    assert used <= defined
    assert {each[4:-1] for each in CSS_VARIABLES.values()} <= defined


def test_hostile_texts_stay_texts() -> None:
    hostile = "<script>alert(1)</script>&\"'$x${y}$\\frac"
    reports = [
        report(0, number, {hostile: 0.5, "bf": 0.1}, held_out={hostile: "01", "bf": "01"})
        for number in (0, 1)
    ]
    reports.append(report(0, 1, {}, dropped={hostile: 3}))
    text = made(Run(hostile, 0, reports), complete=False, command=hostile, drawn=True)
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    tags = Tags()
    tags.feed(text)
    assert tags.open == []


def test_the_answer_claims_no_more_than_its_interval() -> None:
    (rose,) = summarize([gained("0001", "0011", "0011", "0111")])
    assert verdict(rose).startswith("Held-out success rose from 0.25 to 0.58 (+0.33")
    (fell,) = summarize([gained("0111", "0001", "0011")])
    assert "fell" in verdict(fell)
    (unclear,) = summarize([gained("0011", "0001", "0111")])
    assert "did not clearly change" in verdict(unclear)
    (single,) = summarize([gained("0001", "0011")])
    assert "too few for an interval" in verdict(single)
    unmeasured = [report(0, 0, {}, held_out={"bf": "01"}), report(0, 1, {"bf": 0.5})]
    (start_alone,) = summarize([Run("4/4", 0, unmeasured)])
    assert "not measured again" in verdict(start_alone)


def test_of_several_mixes_one_leads_only_over_seeds_whose_differences_are_clear() -> None:
    good, bad = gained("0001", "0111", "0111").reports, gained("0001", "0011", "0011").reports
    one_seed = summarize([Run("8/0", 0, bad), Run("4/4", 0, good)])
    assert answer(one_seed) == (
        "Held-out success: 4/4 +0.500, 8/0 +0.250; one seed, so this does not tell which is best"
    )
    apart = [Run(name, seed, of) for seed in (0, 1) for name, of in (("8/0", bad), ("4/4", good))]
    assert answer(summarize(apart)) == "4/4 gained most held-out success: 4/4 +0.500, 8/0 +0.250"
    mixed = [Run("8/0", 0, bad), Run("8/0", 1, good), Run("4/4", 0, good), Run("4/4", 1, good)]
    assert "not clearly ahead of all others, so this does not tell" in answer(summarize(mixed))


def test_a_study_that_was_stopped_says_how_far_it_came() -> None:
    assert "Stopped before its end" not in made(swarm())
    rounds = Settings().simulation.rounds
    told = f"Stopped before its end. This page tells of 4/4: 20 of {rounds} rounds, 1 seed."
    assert told in made(swarm(), complete=False)
    assert "No round has ended" in made(complete=False)


def test_a_comparison_under_one_seed_warns_of_it() -> None:
    warning = "One seed does not settle which is better"
    assert warning in made(swarm("8/0"), swarm("4/4"))
    assert warning not in made(swarm("4/4"))
    assert "Student's t over 2 seeds" in made(swarm(seed=0), swarm(seed=1)).replace("&#x27;", "'")


def test_success_is_bold_only_where_its_whole_interval_beats_the_best_fixed_answer() -> None:
    assert "0.100 → <strong>0.350</strong>" in made(swarm())
    low = gained("000000000000", "000000000000", "000000000011")
    assert "<strong>0.083" not in made(low)


def test_every_reason_of_admission_has_words() -> None:
    assert {reason.value for reason in Reason} <= set(REASONS)


@pytest.mark.parametrize(("nodes", "rounds", "tasks"), [(1, 1, 1), (3, 100, 2), (2, 20, 9)])
def test_the_picture_is_an_image_of_1600_pixels(
    nodes: int, rounds: int, tasks: int, tmp_path: Path
) -> None:
    names = [f"task_{number}" for number in range(tasks)]
    run = swarm(nodes=nodes, rounds=rounds, tasks=names)
    path = tmp_path / "curves.png"
    path.write_bytes(curves_png(summarize([run]), dict.fromkeys(names, 0.1)))
    image = imread(path)
    assert image.shape[1] == 1600
    assert 600 <= image.shape[0] <= 1300
    assert image.std() > 0.05, "the picture is empty"


def test_the_picture_has_three_panels_and_one_a_task() -> None:
    variants = summarize([swarm("8/0"), swarm("4/4")])
    titles = [axes.get_title(loc="left").strip() for axes in draw(variants, BASELINES).axes]
    expected = ["Unseen questions", "Own fresh answers", "What was trained on", "arc_1d", "bf"]
    assert titles == expected
    held_out = draw(variants, BASELINES).axes[0]
    assert [text.get_text() for text in held_out.texts[1:]] == ["0.33", "0.33"]
    dotted = [line for line in held_out.lines if line.get_linestyle() == ":"]
    assert [np.asarray(line.get_ydata())[0] for line in dotted] == [pytest.approx(0.075)]


@pytest.mark.parametrize(
    ("rounds", "ticks"), [(1, [0, 1]), (20, [0, 5, 10, 15, 20]), (900, [0, 500, 900])]
)
def test_the_axis_of_rounds_ends_with_the_last_round(rounds: int, ticks: list[int]) -> None:
    axes = draw(summarize([swarm(rounds=rounds, every=300)]), BASELINES).axes[0]
    assert list(axes.get_xticks()) == ticks


def test_the_width_of_the_smoothing_is_said() -> None:
    study = Study(summarize([swarm(rounds=100)]), load_settings(), True, "", {})
    assert smoothing_width(100) == 5
    assert "mean of 5 rounds" in caption(study)
    assert moving_average([0.0, 3.0, 6.0, 9.0], 3) == [1.5, 3.0, 6.0, 7.5]
    assert moving_average([1.0, 2.0], 1) == [1.0, 2.0]


@pytest.mark.parametrize(("nodes", "start"), [(1, "1 node with a "), (2, "2 nodes, each with a ")])
def test_what_was_run_counts_its_nodes(nodes: int, start: str) -> None:
    settings = load_settings(flags={"simulation.nodes": nodes})
    assert what_was_run(settings, []).startswith(start)
