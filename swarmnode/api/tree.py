"""A page as plain values, and its HTML: what the server renders is what the page's script builds.

A tree is a text or an element: its name, its attributes, and the trees in it. As JSON it is a list,
from which dashboard.js makes the same nodes without ever parsing HTML. Every text and every
attribute is made safe on its way into an element: line by line every character that is not
printable, bidirectional overrides among them, becomes its escape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import NamedTuple, TypeAlias

from swarmnode.observe.words import plain

TEXT_CHARACTERS = 4000
"""Longest text of a node; the rest is cut off."""
_VOID = frozenset({"br", "link", "meta"})


class Element(NamedTuple):
    """A node; made by `element` alone, which makes its texts safe."""

    name: str
    attributes: Mapping[str, str]
    children: tuple[Tree, ...]


Tree: TypeAlias = "str | Element"
Child: TypeAlias = "Tree | None"
Attribute: TypeAlias = "str | int | float | bool | None"


def element(name: str, /, *children: Child, **attributes: Attribute) -> Element:
    """A node; children that are None or empty are left out.

    Of an attribute's name a trailing `_` goes and others become `-`; False and None leave it out,
    True leaves it empty.
    """
    return Element(
        name,
        {
            key.rstrip("_").replace("_", "-"): "" if value is True else safe(str(value))
            for key, value in attributes.items()
            if value is not None and value is not False
        },
        tuple(
            safe(each) if isinstance(each, str) else each
            for each in children
            if each is not None and each != ""
        ),
    )


def elements(name: str, children: Iterable[Child], **attributes: Attribute) -> Element:
    """The same with any number of children."""
    return element(name, *children, **attributes)


def worded(name: str, text: str, /, **attributes: Attribute) -> Element:
    """An element with a text of ours, in which what stands in backticks is code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return element(name, text, **attributes)
    return elements(
        name,
        (element("code", each) if at % 2 else each for at, each in enumerate(pieces)),
        **attributes,
    )


def safe(text: str) -> str:
    """`text` as it may be shown, its line breaks kept."""
    if len(text) > TEXT_CHARACTERS:
        text = text[:TEXT_CHARACTERS] + "…"
    if text.isprintable():
        return text
    return "\n".join(plain(line, TEXT_CHARACTERS + 1) for line in text.split("\n"))


def html(tree: Tree) -> str:
    """The tree as HTML."""
    parts: list[str] = []
    _write(tree, parts)
    return "".join(parts)


def _write(tree: Tree, parts: list[str]) -> None:
    if isinstance(tree, str):
        parts.append(escape(tree, quote=False))
        return
    name, attributes, children = tree
    parts.append(f"<{name}")
    parts += [f' {key}="{escape(value)}"' for key, value in attributes.items()]
    parts.append(">")
    if name in _VOID:
        return
    # A parser drops a line break right after <pre>.
    if name == "pre" and children and isinstance(children[0], str) and children[0][:1] == "\n":
        parts.append("\n")
    for child in children:
        _write(child, parts)
    parts.append(f"</{name}>")
