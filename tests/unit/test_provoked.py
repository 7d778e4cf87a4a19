"""Every line of docs/errors.md has a test that provokes it, which is compared while it runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import provoking
from tests.error_lines import codes, fits, lines
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
    line = "no filter is called …"
    monkeypatch.setattr(provoking, "PROVOKED", {line: "a::b", "a fault": "a::c"})
    assert unprovoked("a::b", {"no filter": set(), "is called x": set()}) == [line]
    said = "oh: no filter is called x; take another"
    assert unprovoked("a::b", {said: set()}) == []
    assert unprovoked("a::b", {said: {1}}) == [line], "with another exit code"
    assert unprovoked("a::b", {said: {2}}) == []
    assert unprovoked("a::b", {said: {1}, f"{said} too": {2}}) == []


def test_exit_codes_stand_behind_a_line_or_at_the_end_of_its_row() -> None:
    assert codes()["… is no mix"] == {2}
    assert codes()["… is not valid TOML"] == {3}
    assert codes()["… is no setting; did you mean …?"] == {2, 3}
    assert codes()["the hub does not know the token"] == codes()["the token may not write to …"]
    assert codes()["--of …: write it as HOST:PORT, …"] == {2}
    assert codes()["there is no folder …"] == {2, 3}


def test_a_line_is_fitted_by_its_words_in_order() -> None:
    assert fits("… is no mix", "'four' is no mix, such as 4/4")
    assert not fits("give … or …, not both", "give both, or not")
    assert fits("no log is in …", "swarmnode: no log is in /home")
    assert not fits("no log is in …", "there is no log in /home, or no log is in it")
    assert not fits("… is no mix", "this is no mixture")
