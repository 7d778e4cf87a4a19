"""The pages against the code: generated ones, links, and every command and setting they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer.main

from swarmnode.cli import app
from swarmnode.cli.exits import Exit
from swarmnode.config.settings import Settings, describe
from tests.documentation import DOCS, PAGES

ROOT = DOCS.parent
SECTIONS = "|".join(Settings.model_fields)
OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")
CALL = re.compile(r"(?:\$ |sudo |-u \w+ |[A-Z_]+=\S+ |ExecStart=)*(?:\S*/)?swarmnode +(.*)")
MARKDOWN = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "protocol" / "README.md"])


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if not re.match(r"[a-z]+:", target)]
    assert [target for target in local if not (page.parent / target).exists()] == []


def quoted(text: str) -> Iterator[str]:
    """What a page shows as code, a line at a time; what is cut into lines by \\ as one."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    for block in blocks:
        yield from block.replace("\\\n", " ").splitlines()
    for span in re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.M)):
        yield " ".join(span.split())


@cache
def commands() -> dict[str, set[str]]:
    """The options of every command, by what is typed after `swarmnode`."""
    group: object = typer.main.get_command(app)
    found: dict[str, set[str]] = {}

    def visit(path: str, command: object) -> None:
        options = {
            name
            for each in getattr(command, "params", [])
            for name in (*each.opts, *each.secondary_opts)
        }
        found[path] = options | {"--help"}
        for name, child in getattr(command, "commands", {}).items():
            visit(f"{path} {name}".strip(), child)

    visit("", group)
    return found


def misnamed(line: str, known: dict[str, set[str]]) -> list[str]:
    """What a line of code calls `swarmnode` with that it does not have."""
    found = CALL.match(line.partition(" #")[0])
    if found is None:
        return []
    typed = re.split(r" --| -[a-z]", found[1])[0].split()
    words = [word for word in typed if re.fullmatch(r"[A-Za-z]+(-[a-z]+)*", word)]
    if not words or words[0].isupper():
        return []
    path = next((p for p in (" ".join(words[:2]), words[0]) if p in known), None)
    if path is None:
        return [words[0]]
    # What `--set` assigns is another test's.
    return [name for name in OPTION.findall(found[1]) if name not in known[path]]


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_and_option_that_a_page_shows_exists(page: Path) -> None:
    known = commands()
    wrong = {
        line: names
        for line in quoted(page.read_text(encoding="utf-8"))
        if (names := misnamed(line, known))
    }
    assert wrong == {}


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_option_that_a_page_names_alone_is_one_of_a_command(page: Path) -> None:
    options = set().union(*commands().values())
    alone = [line for line in quoted(page.read_text(encoding="utf-8")) if line.startswith("--")]
    assert [line for line in alone if line.split()[0] not in options] == []


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_setting_that_a_page_names_exists(page: Path) -> None:
    known = {name for name, _, _ in describe(Settings)}
    pattern = re.compile(rf"(?<![\w./-])(?:{SECTIONS})\.[a-z][a-z_]+(?![\w./])")
    named = {
        name
        for line in quoted(page.read_text(encoding="utf-8"))
        for name in pattern.findall(line)
        if not name.endswith((".py", ".md", ".jsonl"))
    }
    assert named - known == set()


def test_a_command_that_does_not_exist_would_be_seen() -> None:
    known = commands()
    assert misnamed("swarmnode stauts --json", known) == ["stauts"]
    assert misnamed(".venv/bin/swarmnode run --solo --mixx 4/4", known) == ["--mixx"]
    assert misnamed("$ swarmnode swarm new friends --outt f", known) == ["--outt"]
    assert misnamed("SWARMNODE_HOME=~/x swarmnode swarm join friends.toml", known) == []


def test_every_exit_code_is_in_the_errors() -> None:
    text = (DOCS / "errors.md").read_text(encoding="utf-8")
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)} == {
        code.value for code in Exit
    }
