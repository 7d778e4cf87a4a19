"""The fuzzing itself: its seeds and corpus pass every target, and it finds what was planted."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from swarmnode.rewards.other_tasks import OTHER_VERIFIERS
from swarmnode.rewards.verifiers import VERIFIERS
from tests.fuzz.run import NAMES, fuzz, main
from tests.fuzz.seeds import kept, seeds
from tests.fuzz.targets import ANSWERS, TARGETS

KEPT_BYTES = 64 * 1024
"""What the corpus of a target may weigh in the repo."""


def test_every_target_has_seeds_and_a_small_corpus() -> None:
    assert tuple(TARGETS) == NAMES
    assert set(ANSWERS) == {*VERIFIERS, *OTHER_VERIFIERS, "gcd"}
    for name in NAMES:
        assert seeds(name)
        assert kept(name), f"{name} has no corpus"
        assert sum(map(len, kept(name))) <= KEPT_BYTES


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_found_with_the_seeds_and_the_corpus(name: str) -> None:
    for data in [b"", *seeds(name)]:
        TARGETS[name](data)


def test_a_planted_fault_is_found_and_its_input_kept(tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    outcome = fuzz("planted", 60, tmp_path, module="tests.fuzz.planted")
    assert "the planted fault" in outcome.finding
    (found,) = tmp_path.iterdir()
    assert found.read_bytes()[:4] == bytes((0xC7, 0x31, 0x9A, 0x05))


def test_without_atheris_it_says_that_it_was_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("fuzz: SKIPPED")
