"""docs/errors.md against the code: every exit code and every line that a command can end with."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import swarmnode
from swarmnode.cli.exits import Exit

PACKAGE = Path(swarmnode.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "errors.md").read_text(encoding="utf-8")
INTERNAL = (
    "has no question at index",  # stays in the scorer
    "ask for fewer or take another level",  # stays in the scorer
    "is no JSON value",  # a fault of ours
    "is no request; there are:",  # what the status socket answers to other programs
)
"""Texts of these classes that end no command."""

GAP = "…"
"""What stands for a value, on the page and here."""
LETTERS = 7


def rows(heading: str = "") -> Iterator[list[str]]:
    """Cells of the page's tables, of one section or of all."""
    for section in PAGE.split("\n## "):
        if section.startswith(heading):
            for line in section.splitlines():
                if line.startswith("| ") and not line.startswith("| ---"):
                    yield [cell.strip() for cell in line.strip("|").split(" | ")]


@cache
def patterns() -> list[str]:
    """What the page has in the first cells of its tables."""
    return [pattern for first, *_ in rows() for pattern in re.findall("`([^`]+)`", first)]


def documented(line: str) -> bool:
    """Whether a pattern of the page and the line are one: a gap of either may be anything."""
    return any(_fits(pattern, line) or _fits(line, pattern) for pattern in patterns())


def _fits(pattern: str, line: str) -> bool:
    """Whether the line has the pattern's words, in order; a few letters say nothing."""
    words = [part.strip() for part in pattern.split(GAP) if part.strip()]
    enough = sum(map(len, words)) >= LETTERS
    return enough and re.search(".*".join(map(re.escape, words)), line) is not None


@cache
def trees() -> dict[Path, ast.Module]:
    """Every module of the program."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}


def text_of(node: ast.expr) -> str | None:
    """A literal's text with a gap for each value; None where it is no literal."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(text_of(value) or GAP for value in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return (text_of(left) or GAP) + (text_of(right) or GAP)
    return None


def raised(*names: str) -> Iterator[tuple[str, ast.Call]]:
    """Where these classes are raised."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                called = node.exc.func
                name = called.id if isinstance(called, ast.Name) else ast.unparse(called)
                if name in names:
                    yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node.exc


def passed_on() -> set[str]:
    """Classes whose text a command passes on as a Mistake, and the classes below them."""
    names: set[str] = set()
    for path, tree in trees().items():
        handlers = ast.walk(tree) if path.parent.name == "cli" else ()
        for handler in handlers:
            if isinstance(handler, ast.ExceptHandler) and handler.type and _tells(handler):
                each = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
                names.update(ast.unparse(one) for one in each)
    names = {name for name in names if not hasattr(builtins, name)}
    classes = [node for tree in trees().values() for node in ast.walk(tree)]
    for _ in range(4):
        names |= {
            node.name
            for node in classes
            if isinstance(node, ast.ClassDef) and {ast.unparse(base) for base in node.bases} & names
        }
    return names


def _tells(handler: ast.ExceptHandler) -> bool:
    """Whether the handler raises a Mistake with nothing but the error's own text."""
    return any(
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "Mistake"
        and ast.unparse(node.args[0]) == f"str({handler.name})"
        for node in ast.walk(handler)
    )


def lines(*names: str) -> list[tuple[str, str]]:
    """Where these classes are raised with a text of their own, and that text."""
    found = [
        (where, text_of(call.args[0]) if call.args else None) for where, call in raised(*names)
    ]
    return [
        (where, text)
        for where, text in found
        if text is not None
        and text.strip(GAP + ": ")
        and not any(fragment in text for fragment in INTERNAL)
    ]


def test_the_page_has_every_exit_code_and_no_other() -> None:
    codes = [int(first) for first, *_ in rows("Exit codes") if first.isdigit()]
    assert codes == [code.value for code in Exit]


@pytest.mark.parametrize(("where", "line"), lines("Mistake", *passed_on()))
def test_the_page_has_a_line_for_every_text_that_a_command_ends_with(where: str, line: str) -> None:
    assert documented(line), f"{where}: docs/errors.md has nothing for {line!r}"


def test_classes_whose_text_is_passed_on_are_found() -> None:
    assert {"SwarmFileError", "HomeError", "HomeInUse", "UnknownTask"} <= passed_on()


def test_the_page_lets_nothing_pass_that_it_does_not_have() -> None:
    assert documented("a mix of 0/0 trains on nothing; take at least one group")
    assert not documented("the moon is in the way; wait")
