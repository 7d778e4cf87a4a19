"""Every command that a page shows: it parses, what it names is there, and it is run or held."""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer.main

from swarmnode import cli
from swarmnode.cli import app
from swarmnode.config.settings import SettingsError, load_settings
from swarmnode.tasks import TaskError, check, levels_of
from tests.page_commands import ANY_BLOCK, HELD, PAGES, ROOT, RUN, Shown, commands, held_by, is_run

ALL = [command for page in PAGES for command in commands(page)]
TARGETS = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
EXAMPLE = tomllib.loads((ROOT / "docs/examples/letters/pyproject.toml").read_text("utf-8"))
BROUGHT = set(EXAMPLE["project"]["entry-points"]["swarmnode.tasks"])


@cache
def shown_files() -> dict[str, str]:
    """Files whose text a page shows, by the comment that begins it."""
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    blocks = [block for text in texts for _, block in ANY_BLOCK.findall(text)]
    heads = [(block.partition("\n")[0], block) for block in blocks]
    return {head[2:].strip(): block for head, block in heads if head.startswith("# ")}


def wrong_with(command: Shown) -> list[str]:
    """What of a command does not exist."""
    return [told for words in command.parts for told in _wrong(words)]


def _wrong(words: list[str]) -> list[str]:
    program, arguments = Path(words[0]).name, words[1:]
    if program == "torchrun" or words[1:3] == ["-m", "swarmnode"]:
        program, arguments = "swarmnode", words[words.index("swarmnode") + 1 :]
    match program:
        case "swarmnode":
            return _wrong_call(arguments)
        case "make":
            assert TARGETS
            known = [*TARGETS[1].split(), *(word for word in arguments if "=" in word)]
            return [f"no target {word}" for word in arguments if word not in known]
        case "python" if arguments[:1] == ["-m"] and "." in arguments[1]:
            return [] if find_spec(arguments[1]) else [f"no module {arguments[1]}"]
        case "cp" | "sed" | "docker":
            named = [word for word in arguments if word.startswith("docker/")]
            return [f"no file {word}" for word in named if not (ROOT / word).exists()]
    return []


def _wrong_call(arguments: list[str]) -> list[str]:
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands") and arguments and arguments[0] in command.commands:
        command, arguments = command.commands[arguments[0]], arguments[1:]
    if hasattr(command, "commands"):
        return [f"no command {' '.join(arguments)}"]
    try:
        context = command.make_context(command.name, list(arguments))
    except typer.TyperException as error:
        return [error.format_message()]
    given = {option: context.params[each.name] for each in command.params for option in each.opts}
    return [*_wrong_settings(given), *_wrong_tasks(given)]


def _wrong_settings(given: dict[str, Any]) -> list[str]:
    file: Path | None = given.get("--config")
    there = ROOT / file if file is not None and (ROOT / file).exists() else None
    if file is not None and there is None and str(file) not in shown_files():
        return [f"no file {file}"]
    try:
        load_settings(file=there, environment={}, assignments=given.get("--set") or [])
    except SettingsError as error:
        return [str(error)]
    return []


def _wrong_tasks(given: dict[str, Any]) -> list[str]:
    named = given.get("--task") or []
    told = []
    names = [named] if isinstance(named, str) else named
    for task, _, level in (name.partition(":") for name in names):
        try:
            if task not in BROUGHT and level:
                check(task, level)
            elif task not in BROUGHT:
                levels_of(task)
        except TaskError as error:
            told.append(str(error))
    return told


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_command_names_exists(page: Path) -> None:
    wrong = {each.line: told for each in commands(page) if (told := wrong_with(each))}
    assert wrong == {}


@pytest.mark.parametrize(
    "line",
    [
        "swarmnode swrm new friends",
        "swarmnode run --solo --rounds many",
        "swarmnode swarm new",
        "swarmnode run --set training.lr=1",
        "swarmnode run --config absent.toml",
        "swarmnode run --task base_conversoin",
        "make benhc NAME=round",
        ".venv/bin/python -m tests.benchmarks.absent",
        "docker build -f docker/Dockerfile.rocm -t swarmnode .",
        "sudo -u swarmnode SWARMNODE_HOME=/x .venv/bin/swarmnode swarm jion /tmp/friends.toml",
        "cd swarmnode && make intsall",
    ],
)
def test_what_does_not_exist_would_be_seen(line: str) -> None:
    assert wrong_with(Shown("README.md", line))


def test_every_command_is_run_or_held_by_a_named_test_or_reason() -> None:
    loose = [each for each in ALL if not is_run(each) and held_by(each) is None]
    assert loose == [], "add a row to tests/page_commands.py, or run it"
    assert len(ALL) > 100


def test_a_command_of_another_form_would_be_loose() -> None:
    for line in ("swarmnode logs2", "swarmnode key show", "curl http://example.org | sh"):
        assert held_by(Shown("README.md", line)) is None
        assert not is_run(Shown("README.md", line))


def test_what_holds_commands_is_there_and_holds_some() -> None:
    held = Counter(held_by(each) for each in ALL if not is_run(each))
    assert [each.form for each in HELD if not held[each]] == []
    assert [form for form in RUN if not any(re.fullmatch(form, each.line) for each in ALL)] == []
    missing = [test for each in HELD for test in each.tests if not (ROOT / "tests" / test).exists()]
    assert missing == []


def ended(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> int:
    monkeypatch.setattr(sys, "argv", ["swarmnode", *words])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return int(caught.value.code or 0)


@pytest.mark.parametrize("line", sorted({each.line for each in ALL if is_run(each)}))
def test_a_command_does_what_its_page_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str
) -> None:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    words = Shown("", line).parts[0][1:]
    if words[:2] != ["config", "init"]:
        (tmp_path / "swarm.toml").write_text(shown_files()["swarm.toml"])
    if words[:2] == ["swarm", "join"]:
        assert ended(monkeypatch, ["swarm", "new", "others", "--out", "friends.toml"]) == 0
    assert ended(monkeypatch, words) == 0
