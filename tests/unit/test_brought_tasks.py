"""Tasks of other packages: really installed ones, and what they can do wrong."""

from __future__ import annotations

import importlib
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarmnode.cli.exits import Mistake
from swarmnode.cli.loading import check_tasks
from swarmnode.config.settings import Settings
from swarmnode.config.tasks import Tasks
from swarmnode.rewards import verify_by
from swarmnode.scoring import Scoring, prepare, verify_any
from swarmnode.tasks import Catalogue, UnknownTask, brought_task
from swarmnode.tasks import brought as brought_room
from swarmnode.tasks.catalogue import REFERENCE_SWARM
from swarmnode.tasks.registry import levels_of
from swarmnode.zygote import Progress

SOURCE = """
import itertools

from swarmnode.tasks import Draft


class Doubles:
    levels = ("small", "large")

    def draft(self, level, seed, index):
        number = (seed + index) % (5000 if level == "small" else 500000)
        return Draft(f"Double {number}", str(2 * number), {"half": number})

    def verify(self, given, answer, metadata):
        if given == "break":
            raise RuntimeError("no luck")
        if given in ("nan", "two"):
            return float(given.replace("two", "2"))
        return given == answer == str(2 * metadata["half"])


class Moody(Doubles):
    counter = itertools.count()

    def draft(self, level, seed, index):
        return Draft(f"Double {next(self.counter)}", "2", {"half": 1})


class Wrong(Doubles):
    def verify(self, given, answer, metadata):
        return 0.5


class Long(Doubles):
    def draft(self, level, seed, index):
        return Draft("Double " + "1" * 20000, "2", {"half": 1})


class Silent(Doubles):
    def draft(self, level, seed, index):
        return Draft("Say nothing", "", {"half": 1})


class Broken(Doubles):
    def draft(self, level, seed, index):
        raise LookupError("no questions\\nat all")


class Loud(Doubles):
    levels = ("Small",)


class Flat(Doubles):
    levels = ()


class Mute:
    levels = ("small",)
    draft = Doubles.draft


def unmakeable():
    raise KeyError("a file")
"""
NAMES = [*re.findall(r"^class (\w+)", SOURCE, re.MULTILINE), "unmakeable", "absent"]
ENTRIES = "\n".join(
    [
        "[swarmnode.tasks]",
        *(f"{name.lower()} = brought_doubles:{name}" for name in NAMES),
        "bf = brought_doubles:Doubles",
        "n_queens = brought_doubles:Doubles",
    ]
)


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package as pip leaves it: its module and its dist-info, on the path."""
    (tmp_path / "brought_doubles.py").write_text(SOURCE)
    info = tmp_path / "brought_doubles-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brought-doubles\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    brought_room._loaded.cache_clear()
    yield
    sys.modules.pop("brought_doubles", None)
    brought_room._loaded.cache_clear()


def asking(*names: str) -> Settings:
    return Settings(tasks=Tasks(names=names))


def test_a_package_s_task_is_found_by_its_entry_point_and_asked_like_ours() -> None:
    check_tasks(asking("doubles:small", "bf"))
    assert levels_of("doubles") == ("small", "large")
    drawn, _ = Catalogue(bytes(32)).draw(bytes(32), "doubles", "small", 0, 50)
    assert all(each.question.answer == str(2 * int(each.question.text[7:])) for each in drawn)
    held_out = Catalogue(bytes(32)).held_out("doubles", "small", 50)
    assert not {each.question.text for each in drawn} & {each.question.text for each in held_out}
    catalogue = Catalogue(bytes(32))
    prints = {catalogue.fingerprint("doubles", level) for level in ("small", "large")}
    assert len(prints) == 2


def test_its_verifier_judges_the_answer_that_is_read_out_of_the_completion() -> None:
    metadata = {"half": 21}
    assert verify_any("doubles", "42", metadata, "It is <answer> 42 </answer>") == 1.0
    assert verify_any("doubles", "42", metadata, "41") == 0.0
    assert verify_any("doubles", "42", metadata, "") == 0.0


@pytest.mark.parametrize("given", ["nan", "two", "break"])
def test_what_is_no_score_costs_the_group_alone(given: str) -> None:
    catalogue = Catalogue(bytes(32))
    scoring = Scoring(catalogue, Catalogue(REFERENCE_SWARM), verify_any)
    (question,) = (each.question for each in catalogue.draw(b"k" * 32, "doubles", "small", 0, 1)[0])
    item = (b"k" * 32, "doubles", "small", question.index, question.text, False)
    right, bad = (question.answer, "stop"), (given, "stop")
    assert scoring.score_group(*item, [right, bad]) == ([0.0, 0.0], "unscorable")
    assert scoring.score_group(*item, [right, right]) == ([1.0, 1.0], None)


def test_the_scorer_makes_a_question_and_judges_an_answer_before_it_is_locked() -> None:
    judged: list[str] = []

    def watching(task: str, answer: str, metadata: object, completion: str) -> float:
        judged.append(task)
        return 0.0

    prepare(Scoring(Catalogue(bytes(32)), Catalogue(bytes(32)), watching), [("doubles", "small")],
            Progress())  # fmt: skip
    assert judged == ["doubles"]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("unmakeable", r"\(brought_doubles:unmakeable\) cannot be made: KeyError: 'a file'"),
        ("absent", r"\(brought_doubles:absent\) cannot be made: AttributeError"),
        ("mute", r"'mute' \(brought_doubles:Mute\) has no method `verify`"),
        ("flat", "has no levels"),
        ("loud", "has a name that can't travel: lower-case letters"),
        ("moody", "'moody' asks something else each time, at 'small'"),
        ("wrong", "'wrong' at level 'small' gives its own answer '.*' 0.5, not 1"),
        ("long", "has a question or an answer that is empty, or over 16 KiB"),
        ("silent", "has a question or an answer that is empty, or over 16 KiB"),
        ("broken", "'broken' fails at level 'small': LookupError: no questions$"),
    ],
)
def test_a_task_that_does_not_work_is_refused_in_one_line(name: str, line: str) -> None:
    with pytest.raises(Mistake, match=line) as raised:
        check_tasks(asking(f"{name}:small"))
    assert "\n" not in str(raised.value)


def test_names_of_ours_are_never_a_packages() -> None:
    assert brought_task("bf") is None
    assert levels_of("bf") == ("paper", "easy")
    with pytest.raises(Mistake, match="'n_queens' is refused"):
        check_tasks(asking("n_queens:small"))


def test_a_name_that_comes_near_a_packages_is_offered_it() -> None:
    with pytest.raises(UnknownTask, match="did you mean 'doubles'"):
        levels_of("duobles")


def test_a_verifier_of_a_package_says_nothing_but_a_share() -> None:
    with pytest.raises(ValueError, match="a score of nan"):
        verify_by(lambda given, answer, metadata: math.nan, "1", {}, "1")
