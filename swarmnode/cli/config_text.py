"""Settings as TOML text that `--config` reads back. Pure."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from swarmnode.config.settings import Settings, describe

Value = TypeVar("Value")


def toml_value(value: object) -> str:
    """A value as TOML writes it; JSON's strings, numbers and lists are TOML's."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return json.dumps(value).replace("\x7f", "\\u007f")


def settings_text(origins: Iterable[tuple[str, Any, str]], *, origin: bool) -> Iterator[str]:
    """A line for each setting, under its section; what is unset is a comment."""
    rows = [(name, (value, source)) for name, value, source in origins]
    for number, (section, settings) in enumerate(_by_section(rows)):
        yield from ([""] if number else [])
        yield f"[{section}]"
        for name, (value, source) in settings:
            line = f"# {name} is unset" if value is None else f"{name} = {toml_value(value)}"
            yield f"{line}  # {source}" if origin else line


def commented_text() -> Iterator[str]:
    """Every setting with its meaning and its default, all as comments to be taken away."""
    yield "# Settings of swarmnode: take away the # of a line, and of its section, to change it."
    yield "# `swarmnode run --config FILE` reads them, `swarmnode config check --config FILE` tells"
    yield "# of mistakes in them."
    rows = [(name, (default, about)) for name, default, about in describe(Settings)]
    for section, settings in _by_section(rows):
        yield from ("", f"# [{section}]")
        for name, (default, about) in settings:
            yield from ("", *textwrap.wrap(about, 96, initial_indent="# ", subsequent_indent="# "))
            yield f"# {name} = " + ("(unset)" if default is None else toml_value(default))


def _by_section(
    rows: Iterable[tuple[str, Value]],
) -> Iterator[tuple[str, Sequence[tuple[str, Value]]]]:
    """A section's settings together, though sections below it stand between them."""
    found: dict[str, list[tuple[str, Value]]] = {}
    for name, value in rows:
        section, _, last = name.rpartition(".")
        found.setdefault(section, []).append((last, value))
    yield from found.items()
