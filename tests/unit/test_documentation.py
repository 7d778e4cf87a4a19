"""The generated pages are those that the code makes, and every link in docs/ leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.documentation import DOCS, PAGES

ROOT = DOCS.parent
MARKDOWN = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "protocol" / "README.md"])


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if not re.match(r"[a-z]+:", target)]
    assert [target for target in local if not (page.parent / target).exists()] == []
