"""Every line of docs/errors.md has a test that provokes it, which is compared while it runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import provoking
from tests.error_lines import fits, lines
from tests.provoked import PROVOKED
from tests.provoking import unprovoked

TESTS = Path(__file__).parent.parent


def test_every_line_has_its_test_and_no_row_is_left_over() -> None:
    assert [line for line in lines() if line not in PROVOKED] == []
    assert PROVOKED.keys() - {*lines()} == set()


@pytest.mark.parametrize("test", sorted(set(PROVOKED.values())))
def test_a_test_that_is_named_exists(test: str) -> None:
    path, function = test.split("::")
    text = (TESTS / path).read_text(encoding="utf-8")
    assert re.search(rf"^(async )?def {function}\(", text, re.MULTILINE)


def test_a_test_that_does_not_provoke_its_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provoking, "PROVOKED", {"no … is called …": "a::b", "a fault": "a::c"})
    assert unprovoked("a::b", ["no task", "is called x"]) == ["no … is called …"]
    assert unprovoked("a::b", ["oh: no filter is called x; take another"]) == []


def test_a_line_is_fitted_by_its_words_in_order() -> None:
    assert fits("… is no mix", "'four' is no mix, such as 4/4")
    assert not fits("give … or …, not both", "give both, or not")
    assert fits("no log is in …", "swarmnode: no log is in /home")
    assert not fits("no log is in …", "there is no log in /home, or no log is in it")
    assert not fits("… is no mix", "this is no mixture")
