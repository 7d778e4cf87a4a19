"""Variants against the first: pairs by seed or node, and what is said of them."""

from __future__ import annotations

import math
from io import StringIO
from pathlib import Path

import pytest

from swarmnode.cli.comparing import Comparison, parse_comparison
from swarmnode.cli.exits import Mistake
from swarmnode.cli.screen import Screen
from swarmnode.config.settings import load_settings
from swarmnode.sim.against import NOT_LOCAL, against_first
from swarmnode.sim.comparison import difference, leads, paired_seeds
from swarmnode.sim.console import results_table
from swarmnode.sim.folder import RunFolder
from swarmnode.sim.machine import Machine
from swarmnode.sim.page import page
from swarmnode.sim.report import summary_as_json
from swarmnode.sim.study import Arm, arms, run_study
from swarmnode.sim.summary import Run, Variant, summarize
from swarmnode.sim.words import Study, answer
from tests.unit.sim_support import report


def run(variant: str, seed: int, *right: int, rounds: int = 1) -> Run:
    """A run of which each node ends with so many of ten unseen questions right."""
    reports = []
    for node, count in enumerate(right):
        reports.append(report(node, 0, {}, held_out={"bf": "0" * 10}))
        for number in range(1, rounds + 1):
            marks = ("1" * count).ljust(10, "0")
            reports.append(report(node, number, {"bf": 0.5}, held_out={"bf": marks}))
    return Run(variant, seed, reports)


def three_seeds() -> list[Run]:
    """Seeds differ by far more than the variants do."""
    runs = []
    for seed, level in enumerate((1, 4, 7)):
        runs += [
            run("uniform", seed, level, level),
            run("sec", seed, level + 1, level + 1),
            run("hds", seed, level, level + seed - 1),
        ]
    return runs


def test_a_difference_is_paired_by_seed() -> None:
    uniform, sec, hds = summarize(three_seeds())
    found = difference(sec, uniform)
    assert found.over == "seeds"
    assert (found.low, found.mean, found.high) == pytest.approx((0.1, 0.1, 0.1))
    # Differences -0.05, 0, 0.05: standard error 0.05 / sqrt 3, t of two degrees 4.303.
    unclear = difference(hds, uniform)
    assert unclear.mean == pytest.approx(0.0)
    assert unclear.high == pytest.approx(4.303 * 0.05 / math.sqrt(3))
    # Unpaired intervals overlap by far.
    assert sec.end["held_out"].low < uniform.end["held_out"].high


def test_under_one_seed_each_node_is_paired_with_its_counterpart() -> None:
    one, other = summarize([run("uniform", 0, 1, 3, 5, 7), run("sec", 0, 2, 4, 6, 8)])
    found = difference(other, one)
    assert found.over == "nodes"
    assert (found.low, found.mean, found.high) == pytest.approx((0.1, 0.1, 0.1))
    assert not leads(other, [one])


def test_only_seeds_that_both_have_are_paired_and_only_after_as_many_rounds() -> None:
    first, second = summarize(
        [run("uniform", 0, 1), run("uniform", 1, 5), run("sec", 1, 6), run("sec", 2, 9)]
    )
    assert paired_seeds(second, first) == [1]
    assert difference(second, first).mean == pytest.approx(0.1)
    short, long = summarize([run("uniform", 0, 1), run("sec", 0, 9, rounds=5)])
    assert math.isnan(difference(long, short).mean)
    assert "no seed in common" in against_first([short, long], "scheduling.kind")[0]


def test_who_leads_is_ahead_of_every_other_by_more_than_chance() -> None:
    variants = summarize(three_seeds())
    uniform, sec, hds = variants
    assert leads(sec, [uniform])
    assert not leads(uniform, [sec])
    assert not leads(sec, [uniform, hds])
    assert answer([uniform, sec]).startswith("sec gained most")
    assert "does not tell which is best" in answer(variants)


def made(variants: list[Variant], compared: str) -> str:
    study = Study(variants, load_settings(), True, "c", {}, compared)
    return page(study, "<svg></svg>")


def test_the_page_compares_with_the_first_and_says_what_of_schedulers_is_not_compared() -> None:
    variants = list(summarize(three_seeds()))
    text = made(variants, "scheduling.kind")
    assert "<h2>Against uniform</h2>" in text
    assert "less that of uniform" in text
    assert "+0.100<small>0.100 to 0.100</small>" in text
    assert "<th>scheduling.kind</th>" in text
    assert "What differs is scheduling.kind: uniform, sec, hds" in text
    assert NOT_LOCAL in text
    assert NOT_LOCAL not in made(variants, "mix")
    assert "Against" not in made(variants[:1], "scheduling.kind")


def test_the_terminal_tells_the_paired_differences() -> None:
    caption = str(results_table(summarize(three_seeds()), "scheduling.kind").caption)
    assert "sec against uniform, held-out at the end: +0.100 (+0.100 to +0.100, paired over 3 see"
    assert "hds against uniform, held-out at the end: +0.000 (−0.124 to +0.124" in caption
    assert NOT_LOCAL in caption
    assert "against" not in str(results_table(summarize(three_seeds()[:1])).caption)


def test_the_summary_has_the_differences() -> None:
    runs = three_seeds()
    summary = summary_as_json(
        summarize(runs),
        runs,
        load_settings(),
        compared="scheduling.kind",
        complete=True,
        command="c",
        baselines={},
    )
    assert summary["compared"] == "scheduling.kind"
    first, second, _ = summary["variants"]
    assert first["against_first"] is None
    assert second["against_first"] == {"mean": 0.1, "low": 0.1, "high": 0.1, "over": "seeds"}


def test_what_is_compared_is_read_off_mixes_or_the_values_of_a_setting() -> None:
    assert parse_comparison("scheduling.kind=uniform, sec") == Comparison(
        "scheduling.kind",
        {"uniform": {"scheduling.kind": "uniform"}, "sec": {"scheduling.kind": "sec"}},
    )
    rates = parse_comparison("training.learning_rate=0.1,1e-3").variants
    assert rates["1e-3"] == {"training.learning_rate": 0.001}
    assert list(parse_comparison("8/0, 04/4").variants) == ["8/0", "4/4"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("simulation.seed=1,2", "all variants have to be asked the same"),
        ("tasks.level=easy,paper", "all variants have to be asked the same"),
        ("evaluation.questions_per_task=1,2", "all variants have to be asked the same"),
        ("scheduling.kind=sec,sec", "names sec more than once; name each value once"),
        ("scheduling.kind=sec,,hds", "can't name a run"),
        ("policy.model=../up,tiny", "can't name a run"),
    ],
)
def test_what_cannot_be_compared_is_refused(text: str, words: str) -> None:
    with pytest.raises(Mistake, match=words):
        parse_comparison(text)


def test_a_study_goes_seed_by_seed() -> None:
    settings = load_settings(assignments=["simulation.seed=5"])
    study = arms({"uniform": settings, "sec": settings}, 2)
    assert [(arm.variant, arm.seed) for arm in study] == [
        ("uniform", 5),
        ("sec", 5),
        ("uniform", 6),
        ("sec", 6),
    ]


def test_the_children_of_one_variant_serve_another_that_needs_the_same() -> None:
    machine = Machine(load_settings(), {})
    assert machine.fits(load_settings(assignments=["scheduling.kind=sec", "simulation.seed=3"]))
    for other in ("rewards.partial_credit=true", "simulation.hosts=1", "tasks.level=paper"):
        assert not machine.fits(load_settings(assignments=[other])), other


def test_children_are_made_anew_where_an_arm_needs_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is run is left out; which children it would be run by is looked at."""
    used: list[Machine] = []

    async def nothing(_arm: Arm, _folder: RunFolder, machine: Machine, *_: object) -> None:
        used.append(machine)

    monkeypatch.setattr(Machine, "start", lambda _machine: None)
    monkeypatch.setattr("swarmnode.sim.study._run_arm", nothing)
    one, other = load_settings(), load_settings(assignments=["rewards.partial_credit=true"])
    study = arms({"a": one, "b": one, "c": other}, 1)
    _, whole = run_study(study, tmp_path, environment={}, cache=None, progress=Screen(StringIO()))
    assert whole
    assert used[0] is used[1]
    assert used[1] is not used[2]
    assert used[2].fits(other)
