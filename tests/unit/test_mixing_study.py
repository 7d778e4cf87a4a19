"""The study of mixing: its corpus, its protocol, what is read off runs, its page."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest

from swarmnode.pretraining.folder import Row as Step
from swarmnode.pretraining.folder import first_row
from tests.benchmarks import mixing_corpora
from tests.benchmarks.mixing import RESULTS, freeze
from tests.benchmarks.mixing_corpora import (
    DOMAINS,
    MOST_OF_A_TEXT,
    TooLittle,
    by_name_hash,
    capped,
    legal,
    plain,
    python,
    write_corpus,
)
from tests.benchmarks.mixing_figure import draw
from tests.benchmarks.mixing_page import compared, final_macro, render, runs_by_arm, slopes
from tests.benchmarks.mixing_protocol import (
    ABLATIONS,
    ARMS,
    CONTROLS,
    PRIMARY,
    STATIC,
    Choices,
    StudyRun,
    followed,
    headroom_runs,
    option_runs,
    rate_runs,
    runs_of,
    trial_runs,
)
from tests.benchmarks.mixing_rows import Row, overhead, reached, row_of
from tests.benchmarks.sharing_markdown import fill

CHOICES = Choices(2e-3, {arm.name: arm.options[2] for arm in ARMS if arm.options})
NAMES = ("one", "two")
PAID = [
    f"{kind}/{reward}"
    for kind in ("share", "saturated")
    for reward in ("alignment", "diversity", "stability")
]


def step(number: int, loss: float, seconds: float = 1.0, validated: bool = True) -> Step:
    spent = {"data": 0.0, "model": seconds * 0.9, "gradients": 0.02, "scheduler": 0.025}
    return Step(
        step=number,
        shares=(0.75, 0.25),
        sequences=(3, 1),
        losses=(loss, loss),
        learning_rate=1e-3,
        metrics={f"scheduler/{name}": 0.5 for name in PAID},
        seconds=spent,
        validation=(loss, loss + 0.2) if validated else None,
    )


def row(arm: str, losses: list[float], seed: int = 100, stage: str = "main") -> Row:
    run = dataclasses.replace(next(rate_runs()), seed=seed)
    steps = [first_row((5.0, 5.2)), *(step(n, each) for n, each in enumerate(losses, 1))]
    made = row_of(run, steps, NAMES, (0.9, 0.1), (30, 5), 1000)
    return {**made, "arm": arm, "stage": stage}


def test_a_row_is_what_the_steps_say() -> None:
    found = row("uniform", [4.0, 3.0])
    assert found["steps"] == [0, 1, 2]
    assert found["macro"] == pytest.approx([5.1, 4.1, 3.1])
    assert found["mixture"] == pytest.approx([5.02, 4.02, 3.02])
    assert found["seconds"] == pytest.approx([0.0, 0.945, 1.89])
    assert found["by_domain"] == {"one": 3.0, "two": 3.2}
    assert found["epochs"] == {"one": 0.2, "two": 0.4}
    assert overhead(found) == pytest.approx(0.05)
    with pytest.raises(ValueError, match="not finite"):
        row("uniform", [4.0, float("nan")])


def test_a_loss_is_reached_between_validations_or_never() -> None:
    found = row("uniform", [4.0, 3.0])
    assert reached(found, 3.6, found["steps"]) == pytest.approx(1.5)
    assert reached(found, 3.6, found["seconds"]) == pytest.approx(1.4175)
    assert reached(found, 6.0, found["steps"]) == 0.0
    assert reached(found, 3.0, found["steps"]) is None


def test_arms_are_compared_over_the_seeds_that_both_have() -> None:
    rows = [
        row("uniform", [3.0], 100),
        row("uniform", [3.5], 101),
        row(PRIMARY, [2.9], 100),
        row(PRIMARY, [3.2], 101),
        row(PRIMARY, [0.0], 102),
    ]
    found = compared(runs_by_arm(rows, "main"), PRIMARY, "uniform", final_macro)
    assert found.count == 2
    assert found.mean == pytest.approx(-0.2)
    with pytest.raises(ValueError, match="comes twice"):
        runs_by_arm([*rows, rows[0]], "main")


def test_the_page_shows_the_primary_comparisons_and_says_what_was_not_reached() -> None:
    arms = {"static": 3.4, "uniform": 3.2, "ac-odm": 3.3, PRIMARY: 3.0, "random": 3.5}
    rows = [
        row(arm, [4.0, loss + 0.01 * (seed % 3) * len(arm)], seed)
        for arm, loss in arms.items()
        for seed in (100, 101, 102)
    ]
    blocks = render(rows)
    assert f"| {PRIMARY} against uniform | 3 | −0.1" in blocks["answer"]
    assert "| random | not reached (0 of 3) |" in blocks["speed"]
    page = (RESULTS / "data-mixing.md").read_text("utf-8")
    assert blocks["answer"] in fill(page, blocks, "mixing")


def test_the_picture_shows_what_there_is() -> None:
    losses = {"uniform": 3.2, PRIMARY: 3.0, "random": 3.5}
    rows = [row(arm, [4.0, loss], seed) for arm, loss in losses.items() for seed in (100, 101)]
    pictures = [draw(some) for some in (rows, rows[:3], [])]
    assert all(each.startswith(b"\x89PNG") for each in pictures)
    assert len(set(pictures)) == len(pictures)


def test_the_committed_page_is_that_of_the_committed_rows() -> None:
    page = (RESULTS / "data-mixing.md").read_text("utf-8")
    file = RESULTS / "mixing.json"
    rows = json.loads(file.read_text("utf-8")) if file.exists() else []
    assert fill(page, render(rows), "mixing") == page


def texts_file(folder: Path) -> Path:
    names = [f"d{number}" for number in range(len(STATIC))]
    tables = [f'[[pretraining.domains]]\nname = "{name}"\npath = "x"\n' for name in names]
    file = folder / "texts.toml"
    file.write_text("\n".join(tables), encoding="utf-8")
    return file


def test_every_run_has_settings_and_a_folder_of_its_own(tmp_path: Path) -> None:
    texts = texts_file(tmp_path)
    runs: list[StudyRun] = [*rate_runs(), *option_runs(2e-3), *trial_runs(10)]
    for stage in ("main", "controls", "ablations", "probes"):
        runs += runs_of(stage, CHOICES)
    runs += headroom_runs([0.01 * at for at in range(8)], CHOICES)
    names = [run.name for run in runs]
    assert len(set(names)) == len(names) == 4 + 18 + 10 + 50 + 3 * (len(ABLATIONS) + 8 + 4)
    settings = {run.name: run.settings(texts) for run in runs}
    assert len({each.model_dump_json() for each in settings.values()}) == len(names)
    assert all(each.pretraining.floor_sequences == 1 for each in settings.values())
    assert all(each.scheduling.minimum_share == 0.02 for each in settings.values())


def test_arms_differ_in_their_scheduler_alone(tmp_path: Path) -> None:
    texts = texts_file(tmp_path)
    of_a_seed = [
        run.settings(texts)
        for stage in ("main", "controls")
        for run in runs_of(stage, CHOICES)
        if run.seed == 100
    ]
    assert len(of_a_seed) == len(ARMS) + len(CONTROLS)
    assert len({each.pretraining for each in of_a_seed}) == 1
    assert len({each.scheduling for each in of_a_seed}) == len(of_a_seed)


def test_every_arm_that_is_tuned_has_as_many_tries() -> None:
    assert {len(arm.options) for arm in ARMS} == {0, 3}
    assert {arm.name for arm in ARMS if not arm.options} == {"static", "uniform"}
    assert all(arm.like == PRIMARY for arm in CONTROLS if arm.name != "random")


def test_development_freezes_the_best_option_of_each_arm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.benchmarks.mixing.CHOICES", tmp_path / "choices.json")
    options = {arm.name: arm.options for arm in ARMS}
    rows = []
    for run in [*rate_runs(), *option_runs(2e-3)]:
        best = run.option == options[run.arm.name][1] if run.option else run.learning_rate == 2e-3
        made = row(run.arm.name, [3.0 if best else 4.0], stage="development")
        rows.append({**made, "option": run.option, "learning_rate": run.learning_rate})
    freeze(rows)  # type: ignore[arg-type]
    chosen = json.loads((tmp_path / "choices.json").read_text("utf-8"))
    assert chosen["learning_rate"] == 2e-3
    assert chosen["options"] == {arm.name: arm.options[1] for arm in ARMS if arm.options}


def test_slopes_are_what_twice_a_share_was_worth() -> None:
    rows = [
        *(row("uniform", [3.0], seed, "ablations") for seed in (200, 201)),
        *(row("more french", [2.9], seed, "probes") for seed in (200, 201)),
        *(row("more legal", [3.1], seed, "probes") for seed in (200, 201, 202)),
    ]
    found = slopes(rows)
    assert list(found) == list(DOMAINS)
    assert found["french"].mean == pytest.approx(-0.1)
    assert found["legal"].mean == pytest.approx(0.1)
    assert found["legal"].count == 2
    assert math.isnan(found["python"].mean)


def test_probes_double_one_share_and_slopes_are_followed_downwards(tmp_path: Path) -> None:
    texts = texts_file(tmp_path)
    for at, run in enumerate(list(runs_of("probes", CHOICES))[: len(DOMAINS)]):
        shares = run.settings(texts).scheduling.static_weights
        assert shares[at] == pytest.approx(2 / 9, abs=1e-5)
        assert sorted(shares)[:-1] == pytest.approx([1 / 9] * 7, abs=1e-5)
    down = followed([0.0, -0.02, 0.02, 0.01], 16.0)
    assert sum(down) == pytest.approx(1.0)
    assert down[1] / down[2] == pytest.approx(16.0)
    assert down[0] / down[2] == pytest.approx(4.0)


def test_manual_pages_lose_their_markup_and_keep_their_letters() -> None:
    page = r""".\" a comment
.SH \(:UBERSICHT
.nf
f\(:ur \fBBenutzer\fP \-\-all d\['e]j\[u00E0] vu\&. \(lqso\(rq"""
    assert plain(page) == "ÜBERSICHT\nfür Benutzer --all déjà vu. “so”\n"


def test_domains_are_capped_and_no_text_is_all_of_one() -> None:
    texts = list(capped(["ü" * 100_000, " \n", "short", "x" * 100_000], 60_000))
    assert [len(text.encode()) for text in texts] == [MOST_OF_A_TEXT, 5, 60_000 - 40_005]


def test_the_order_of_files_depends_on_their_names_alone() -> None:
    paths = [Path(f"/a/{number}") for number in range(20)]
    assert by_name_hash(paths) == by_name_hash(paths[::-1]) != paths


def test_the_standard_library_is_a_domain_and_the_same_every_time() -> None:
    first, again = (list(capped(python(), 200_000)) for _ in range(2))
    assert first == again
    assert len(first) >= 5
    assert sum("import " in text for text in first) > len(first) / 2


def test_a_licence_is_there_once() -> None:
    paragraphs = [part for text in legal() for part in text.split("\n\n") if len(part) > 200]
    assert len(paragraphs) == len(set(paragraphs))


def test_a_corpus_has_a_manifest_and_settings_and_a_machine_without_texts_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        mixing_corpora,
        "DOMAINS",
        {"one": lambda: iter([f"{n} " * 9000 for n in range(30)]), "two": lambda: iter(["short"])},
    )
    with pytest.raises(TooLittle, match="two: this machine has 5 bytes of it"):
        write_corpus(tmp_path, 1.0)
    entry = mixing_corpora.write_domain("one", tmp_path, 500_000)
    assert entry["bytes"] == sum(
        len(json.loads(line)["text"])
        for line in (tmp_path / "one.jsonl").read_text("utf-8").splitlines()
    )
