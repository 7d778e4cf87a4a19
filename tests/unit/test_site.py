"""The documentation as a site: built without a complaint, and nothing is loaded from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.site import DOCS, INDEX, ROOT, contents, pages, place, turned

pytestmark = pytest.mark.timeout(
    600
)  # ten seconds of a processor, which a busy machine may not have


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "tests.site", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


class Loaded(HTMLParser):
    """What a page makes a browser load by itself, and its text outside scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.text = ""
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._silent += tag in ("script", "style")
        if tag in ("script", "img", "iframe", "source", "video", "audio", "embed"):
            self.addresses.append(given.get("src") or "")
        if tag == "link" and given.get("rel") not in ("index", "search", "next", "prev"):
            self.addresses.append(given.get("href") or "")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        self.text += data * (not self._silent)


def test_every_page_is_there_with_its_text_and_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in pages():
        html = (site / place(page)).with_suffix(".html")
        read = Loaded()
        read.feed(html.read_text(encoding="utf-8"))
        assert not [a for a in read.addresses if re.match(r"(\w+:)?//", a)], html
        assert all((html.parent / a.partition("?")[0]).exists() for a in read.addresses if a), html
        title = page.read_text(encoding="utf-8").removeprefix("# ").partition("\n")[0]
        assert title.replace("`", "") in read.text, html
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert "prefers-color-scheme:dark" in styles.replace(" ", "")
    assert not re.search(r"@import|url\(['\"]?(https?:)?//", styles)


def test_the_search_finds_by_an_index_of_the_site_s_own(site: Path) -> None:
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert all(place(page).removesuffix(".md") in index for page in pages())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[there](absent.md)", "absent.md"),
        ("[there](other.md#absent)", "absent"),
        ("[there](#absent)", "absent"),
        ("![there](absent.png)", "absent.png"),
        ("```{toctree}\nother\nabsent\n```", "absent"),
    ],
)
def test_what_leads_nowhere_is_complained_of(tmp_path: Path, text: str, words: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text(f"# Index\n\n{text}\n\n```{{toctree}}\nother\n```\n")
    (source / "other.md").write_text("# Other\n\ntext\n")
    told = complaints(source, tmp_path)
    assert len(told) == 1
    assert words in told[0]


def test_a_page_that_the_index_forgets_is_complained_of(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text("# Index\n\n[other](other.md)\n")
    (source / "other.md").write_text("# Other\n\ntext\n")
    (told,) = complaints(source, tmp_path)
    assert "isn't included" in told


def complaints(source: Path, folder: Path) -> list[str]:
    code = (
        "import sys; from pathlib import Path; from tests.site import build\n"
        "print(*build(*map(Path, sys.argv[1:])), sep='\\n')"
    )
    command = [sys.executable, "-c", code, str(source), str(folder / "out"), str(folder / "trees")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()


def test_links_are_turned_to_where_things_stand_in_the_site() -> None:
    needed: set[Path] = set()
    page = DOCS / "results" / "speed.md"
    text = (
        "[a](../join.md#join) [b](../../protocol/README.md) [`c`](../../swarmnode/round.py) "
        "![d](demo.png) [e](https://example.org/x.md) [f](#here) [g](../decisions) "
        "[h](../README.md)\n\n```\n[a](../../README.md)\n```\n"
    )
    assert turned(page, text, needed) == (
        "[a](../join.md#join) [b](../protocol.md) [`c`](../files/swarmnode/round.py) "
        "![d](demo.png) [e](https://example.org/x.md) [f](#here) g [h](../index.md)"
        "\n\n```\n[a](../../README.md)\n```\n"
    )
    assert needed == {ROOT / "swarmnode" / "round.py", DOCS / "results" / "demo.png"}


def test_the_tree_of_pages_follows_the_lists_of_the_index() -> None:
    assert contents("# Top\n\n[x](x.md)\n\n## One\n\n- [a](a.md): [b](b.md)\n\n## Two\n\nno\n") == (
        "```{toctree}\n:hidden:\n:caption: One\n\na\nb\n```\n"
    )
    assert "quickstart" in contents(INDEX.read_text(encoding="utf-8"))
