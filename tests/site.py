"""Builds the documentation as a site out of the plain Markdown: `make site`, offline.

The pages stay what they are on a forge; nothing in them is for this program. They are copied into
a folder with the index first and docs/ at the top, links are turned accordingly, and Sphinx does
the rest. Whatever it warns of, such as a link or an anchor that leads nowhere or a page that the
index forgets, is an error.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
DOCS: Final = ROOT / "docs"
INDEX: Final = DOCS / "README.md"
INDEXES: Final = (INDEX, DOCS / "decisions" / "README.md")
"""Pages that say what stands below them."""
OUT: Final = ROOT / "runs" / "site"

MOVED: Final[Mapping[Path, str]] = {
    INDEX: "index.md",
    ROOT / "README.md": "readme.md",
    ROOT / "protocol" / "README.md": "protocol.md",
}
"""Where pages stand in the site that are not simply below docs/."""

LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s]+)\)")
FENCED = re.compile(r"(^```.*?^```\s*$)", re.DOTALL | re.MULTILINE)
NO_LINK = re.compile(r"[a-z]+:|#")

SETTINGS: Final = {
    "project": "swarmnode",
    "extensions": ["myst_parser"],
    "root_doc": "index",
    "html_theme": "furo",
    "html_title": "swarmnode",
    "html_copy_source": False,
    "html_show_sourcelink": False,
    "html_show_sphinx": False,
    "myst_heading_anchors": 4,
    "smartquotes": False,
    # Blocks of a terminal's output have no language.
    "highlight_language": "none",
}


def pages() -> list[Path]:
    """Every page of the site."""
    return sorted({*DOCS.rglob("*.md"), *MOVED})


def place(path: Path) -> str:
    """Where a file of the repository stands in the site's source."""
    if path in MOVED:
        return MOVED[path]
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    return f"files/{path.relative_to(ROOT).as_posix()}"


def turned(page: Path, text: str, needed: set[Path]) -> str:
    """The page's text with its links as they are in the site; adds to `needed` what they show."""
    here = os.path.dirname(place(page))

    def turn(match: re.Match[str]) -> str:
        words, address = match.groups()
        if NO_LINK.match(address):
            return match[0]
        name, hash_sign, anchor = address.partition("#")
        target = (page.parent / name).resolve()
        if target.is_dir():
            # A forge shows a folder; a site has nothing to show.
            return words[1:-1]
        if target.suffix != ".md":
            needed.add(target)
        return f"{words}({os.path.relpath(place(target), here)}{hash_sign}{anchor})"

    parts = FENCED.split(text)
    return "".join(
        part if number % 2 else LINK.sub(turn, part) for number, part in enumerate(parts)
    )


def contents(text: str) -> str:
    """The tree of pages below an index: for each heading the pages that its list links."""
    trees = []
    for section in text.split("\n## "):
        title, _, body = section.partition("\n")
        lines = [line for line in body.splitlines() if line.startswith("- ")]
        linked = [address for line in lines for _, address in LINK.findall(line)]
        if linked:
            listed = "\n".join(address.removesuffix(".md") for address in linked)
            caption = title.removeprefix("# ")
            trees.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n")
    return "\n".join(trees)


def prepare(source: Path) -> None:
    """Write the site's source into an empty folder."""
    needed: set[Path] = set()
    for page in pages():
        text = turned(page, page.read_text(encoding="utf-8"), needed)
        if page in INDEXES:
            text += "\n" + contents(text)
        if page == ROOT / "README.md":
            text = "---\norphan: true\n---\n" + text
        to = source / place(page)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text, encoding="utf-8")
    for path in needed:
        to = source / place(path)
        to.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            shutil.copyfile(path, to)


def build(source: Path, out: Path, scratch: Path) -> list[str]:
    """Build a prepared source into `out`; what there is to complain of, empty if all is well."""
    from pygments.lexers.special import TextLexer
    from sphinx.application import Sphinx

    warned = io.StringIO()
    app = Sphinx(
        source, None, out, scratch, "html", SETTINGS, status=None, warning=warned, freshenv=True
    )
    app.add_lexer("hex", TextLexer)
    app.build()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", warned.getvalue()).replace(f"{source}/", "")
    return [line for line in plain.splitlines() if line.strip()]


def main(out: Path) -> int:
    """Build the site into an empty folder; the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        prepare(source)
        complaints = build(source, out, Path(folder) / "trees")
    for each in complaints:
        print(each, file=sys.stderr)
    if not complaints:
        print(f"the site: {out / 'index.html'}")
    return 1 if complaints else 0


if __name__ == "__main__":
    chosen = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else OUT
    if chosen == OUT:
        shutil.rmtree(OUT, ignore_errors=True)
    sys.exit(main(chosen))
