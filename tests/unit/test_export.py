"""An exported folder: what its card tells, that it is whole, and that it overwrites nothing."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from swarmnode.cli.model_card import Facts, model_card
from swarmnode.config.settings import load_settings
from swarmnode.exporting import Export, TakenFolder, check_free, write_export
from swarmnode.home import Home
from swarmnode.hosted_policy import HostedPolicy
from swarmnode.origin import kept
from swarmnode.process import ChildFailed
from swarmnode.reports import report_as_json
from swarmnode.store.store import Store
from tests.unit.checkpoint_support import names
from tests.unit.resume_support import SMALL, order, rounds, saved
from tests.unit.test_cli import run
from tests.unit.test_solo_words import report

FACTS = Facts(
    model="some/model-135M",
    version=40,
    round=20,
    pairs=[("basic_arithmetic", "easy"), ("bf", "paper")],
    swarm_id=b"\xab" * 32,
    swarm_name="friends | `x`",
    temperature=0.7,
    examples=4,
    instruction="Think | first.",
    form="merged",
    reports=[report(20, a="1110"), report(0, a="1000")],
)
SETTINGS = load_settings(
    assignments=[*(f"policy.tiny.{name}={value}" for name, value in SMALL.model_dump().items())]
)


def test_the_card_tells_what_is_known() -> None:
    card = model_card(FACTS)
    for words in (
        'base_model: "some/model-135M"',
        "20 rounds, 40 optimizer steps",
        "basic_arithmetic (easy), bf (paper)",
        "ab" * 32,
        "4 other questions and answers",
        "Think \\| first.",
        "0.250 → 0.750 (+0.500, 95 % interval",
        "AutoModelForCausalLM",
    ):
        assert words in card
    assert "friends \\| 'x'" in card


def test_the_card_tells_nothing_that_is_not_known() -> None:
    alone = replace(
        FACTS, model="tiny", pairs=(), swarm_id=b"", reports=(), examples=0, instruction=""
    )
    card = model_card(alone)
    assert "base_model:" not in card
    assert "Held-out" not in card
    assert "asked with" not in card
    assert "instruction" not in card
    assert "none, trained alone" in card
    assert "not known" in card


def test_an_adapter_says_how_it_is_loaded() -> None:
    assert "PeftModel" in model_card(replace(FACTS, form="adapter"))


def test_only_an_empty_place_is_written_to(tmp_path: Path) -> None:
    check_free(tmp_path / "absent")
    check_free(tmp_path)
    (tmp_path / "file").touch()
    for taken in (tmp_path, tmp_path / "file"):
        with pytest.raises(TakenFolder, match="not overwritten"):
            check_free(taken)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with a trained policy and its rounds."""
    found = Home(tmp_path_factory.mktemp("export") / "home")
    found.make()
    policy = HostedPolicy(order())
    rounds(policy, range(2))
    saved(policy, found.checkpoints, kept(2, SETTINGS, b"k" * 32, None))
    store = Store.open(found.database, found.reserved, now=lambda: 0.0)
    for number, marks in ((0, "10"), (2, "11"), (3, "00")):
        store.record_round(number, 0.0, report_as_json(report(number, basic_arithmetic=marks)))
    store.close()
    return found


def test_a_checkpoint_becomes_a_folder_with_its_card(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Home, tmp_path: Path
) -> None:
    out = tmp_path / "deep" / "model"
    before = sorted(home.checkpoints.rglob("*"))
    assert run(monkeypatch, "export", "model", str(home.path), "--out", str(out)) == 0
    assert {"README.md", "config.json", "model.safetensors", "tokenizer.json"} <= set(names(out))
    assert names(out.parent) == ["model"]
    assert {path.stat().st_mode & 0o777 for path in out.iterdir()} == {0o644}
    # The round after the checkpoint is none of its.
    assert "0.500 → 1.000" in (out / "README.md").read_text()
    assert sorted(home.checkpoints.rglob("*")) == before
    assert "round 2" in capsys.readouterr().out
    assert run(monkeypatch, "export", "model", str(home.path), "--out", str(out)) == 3
    assert "is there already and is not overwritten" in capsys.readouterr().err


def test_an_export_that_fails_leaves_nothing(home: Home, tmp_path: Path) -> None:
    wider = SETTINGS.model_copy(
        update={
            "policy": SETTINGS.policy.model_copy(
                update={"tiny": SMALL.model_copy(update={"width": 32})}
            )
        }
    )
    (checkpoint,) = home.checkpoints.iterdir()
    out = tmp_path / "model"
    with pytest.raises(ChildFailed, match="another model"):
        write_export(Export(wider, checkpoint, "merged", "", out, dict(os.environ)))
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("export model absent --out m", 3, "there is no folder"),
        ("export model home", 2, "--out"),
        ("export model home --out home", 3, "is there already"),
        ("export model home --out m --checkpoint 9", 3, "no checkpoint 9"),
        ("export model home --out m --adapter", 2, "has no adapter"),
        ("export model home --out /proc/m", 3, "choose another folder with --out"),
    ],
)
def test_a_mistake_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    home: Home,
    line: str,
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(home.path.parent)
    assert run(monkeypatch, *line.split()) == code
    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.err.count("\n") == 1
    assert not (home.path.parent / "m").exists()
