"""docs/security.md: every requirement has its row, and every test that a row names exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
FILES = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")}
REQUIREMENTS = 16


def rows() -> dict[str, list[str]]:
    """Of the table of promises: requirement to the tests that its row names."""
    found = re.findall(r"^\| (M\d+) \|(.*)$", PAGE, re.MULTILINE)
    return {name: re.findall(r"`(test_\w+(?:\.py)?)`", row) for name, row in found}


def test_every_requirement_has_a_row_with_a_test() -> None:
    assert list(rows()) == [f"M{number}" for number in range(1, REQUIREMENTS + 1)]
    assert all(rows().values())


def test_every_test_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`(?:tests/[\w/]*/)?(test_\w+)(?:\.py)?`", PAGE))
    assert named
    missing = [
        name
        for name in named
        if f"{name}.py" not in FILES and not any(f"def {name}(" in text for text in FILES.values())
    ]
    assert missing == []


def test_the_page_is_not_too_long_to_be_read() -> None:
    assert PAGE.count("\n") <= 250
