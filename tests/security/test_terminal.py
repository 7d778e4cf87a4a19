"""No text of a peer reaches a terminal with a character that the terminal would act upon.

Every text of every document that a command can show is hostile here, names of fields included,
and every command that shows such a document is run. What all commands end with passes one place.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from swarmnode import cli
from swarmnode.api.documents import BundleDocument, RolloutsDocument
from swarmnode.cli.exits import Exit, Mistake
from swarmnode.observe.words import plain
from tests.unit.cli_support import DOCUMENT, KNOWN, in_home, node, published, run, write_log

CONTROLS = "".join(
    character
    for character in map(chr, range(0x3000))
    if unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp")
)
"""C0, C1, DEL, bidirectional overrides and isolates, zero-width characters, line separators."""
HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\r\n\x1b]8;;http://x\x07" + CONTROLS
CHOSEN = ("role", "phase", "state", "severity", "version", "transport", "reach")
"""Fields that only take words of ours."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return in_home(tmp_path, monkeypatch)


def poisoned(value: Any, field: str = "") -> Any:
    """A document with every text, and every name in a table, made hostile."""
    match value:
        case str() if field not in CHOSEN:
            return value + HOSTILE
        case dict() if field in ("dropped", "by_task", "unopened", "relayed"):
            return {name + HOSTILE: poisoned(each) for name, each in value.items()}
        case dict():
            return {name: poisoned(each, name) for name, each in value.items()}
        case list():
            return [poisoned(each, field) for each in value]
    return value


def answers() -> Mapping[str, Any]:
    bundles = RolloutsDocument(bundles=(BundleDocument.of(published()),)).as_json()
    return {
        "status": poisoned(DOCUMENT.as_json()),
        "peers": poisoned(KNOWN),
        "rollouts": bundles,
    }


def raw(text: str) -> set[str]:
    """Characters in the text that a terminal might act upon."""
    kinds = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    return {each for each in text if each != "\n" and unicodedata.category(each) in kinds}


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["status", "--json"],
        ["peers"],
        ["peers", "--json"],
        ["peers", "--why", "Bob"],
        ["peers", "--why", "Bob", "--json"],
        ["rollouts", "--outgoing"],
        ["rollouts", "--outgoing", "--hex"],
        ["doctor"],
        ["doctor", "--json"],
        ["doctor", "--net"],
        ["logs"],
        ["logs", "--json"],
    ],
    ids=" ".join,
)
def test_no_command_shows_a_peers_text_raw(
    arguments: list[str],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home.chmod(0o700)
    write_log(home, "daemon", f"a peer said {HOSTILE}")
    with node(home, **answers()):
        run(monkeypatch, *arguments)
    shown = capsys.readouterr()
    assert raw(shown.out + shown.err) == set()
    assert "owned" in shown.out or "--hex" in arguments, "it is shown, escaped"
    if "--json" in arguments and arguments[0] != "logs":
        json.loads(shown.out)


def test_no_line_that_a_command_ends_with_is_raw(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def end(*_: object, **__: object) -> None:
        raise Mistake(f"the peer said {HOSTILE}", Exit.FAILURE)

    monkeypatch.setattr(cli, "app", end)
    assert run(monkeypatch, "status") == 1
    told = capsys.readouterr().err
    assert raw(told) == set()
    assert told.count("\n") == 1


def test_everything_that_a_terminal_acts_upon_is_escaped_and_the_rest_is_not() -> None:
    assert raw(plain("".join(map(chr, range(0x110000))), 0x110000)) == set()
    assert plain("naïve 日本 ½ → 😀") == "naïve 日本 ½ → 😀"
