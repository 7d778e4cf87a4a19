"""Swarm files: a swarm's rules and where to find it, as TOML that people read, send and edit.

    swarm_id = "5f1c…"                        # follows from the rules; checked against them
    bootstrap = ["/ip4/192.0.2.7/tcp/4001/p2p/12D3KooW…"]

    [rules]
    name = "a few friends"
    tasks = ["base_conversion:easy", "bf:easy"]
    completions_min = 2
    …

A private swarm's file says so and has the swarm's key: `private = true`, `key = "…"`. It is written
for its owner alone (0600), and the key is in no other text of ours.

Knows no network. A file in the home is called NAME.toml; the name follows from the one in the
rules, which strangers may have chosen, and is safe as a file's. Addresses may change, rules and key
never: others are another swarm.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from swarmnode.files import write_atomically
from swarmproto import (
    ADDRESS_BYTES_MAX,
    ANNOUNCEMENT_BYTES_MAX,
    BOOTSTRAP_ADDRESSES_MAX,
    PRIVATE_ANNOUNCEMENT_BYTES_MAX,
    SWARM_KEY_BYTES,
    SwarmRules,
    SwarmSecret,
    WireError,
    encode_rules,
    swarm_id,
)

_HEADER = """\
# A swarm of swarmnode. Whoever has this file can join: swarmnode swarm join FILE
# The id follows from the rules, so that these never change; bootstrap addresses may.
"""
_PRIVATE_HEADER = """\
# A private swarm of swarmnode. WHOEVER HAS THIS FILE IS A MEMBER: reads all that the others send,
# and sends what they train on. Hand it to members alone, in secret: swarmnode swarm join FILE
# The id follows from rules and key, so that these never change; bootstrap addresses may.
"""
_MOST_FILE_BYTES = 256 * 1024
_NAME_LENGTH = 48
_AS_GIVEN = "take the file as it was given to you"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_KEY = re.compile(rf"[0-9a-f]{{{2 * SWARM_KEY_BYTES}}}")
_ADDRESS = re.compile(r"/[!-~]+/p2p/[!-~]+")


_MISMATCH = {
    False: "the rules are not those of the swarm that it names: take the file as it was given to "
    "you, or drop the line swarm_id to make another swarm",
    True: "the rules, or the key, are not those of the private swarm that it names: take the file "
    "as it was given to you",
}


class SwarmFileError(Exception):
    """A swarm file cannot be used; the text is one line that names the remedy."""


@dataclass(frozen=True, slots=True)
class SwarmFile:
    """A swarm: its rules, addresses of peers to start from, and a private one's key."""

    rules: SwarmRules
    bootstrap: tuple[str, ...] = ()
    key: bytes = field(default=b"", repr=False)
    """Of a private swarm, 32 bytes; empty for a public one."""

    def __post_init__(self) -> None:
        """Raises SwarmFileError for rules or addresses that no swarm can have."""
        try:
            encode_rules(self.rules)
        except WireError as error:
            raise SwarmFileError(f"no swarm can have these rules: {error}") from error
        if len(self.bootstrap) > BOOTSTRAP_ADDRESSES_MAX:
            raise SwarmFileError(
                f"name at most {BOOTSTRAP_ADDRESSES_MAX} bootstrap addresses; leave some out"
            )
        for address in self.bootstrap:
            if len(address) > ADDRESS_BYTES_MAX or _ADDRESS.fullmatch(address) is None:
                raise SwarmFileError(
                    f"{address[:ADDRESS_BYTES_MAX]!r} is no bootstrap address; they look like "
                    "/ip4/192.0.2.7/tcp/4001/p2p/12D3KooW…"
                )

    @property
    def private(self) -> bool:
        """Whether only those who have the key take part."""
        return self.key != b""

    @property
    def swarm_id(self) -> bytes:
        """32 bytes: the hash of the rules, and of what the key commits to."""
        return swarm_id(self.rules, SwarmSecret(self.key) if self.private else None)

    @property
    def announcement_bytes_max(self) -> int:
        """What an announcement may have before it is sealed, if it is."""
        return PRIVATE_ANNOUNCEMENT_BYTES_MAX if self.private else ANNOUNCEMENT_BYTES_MAX

    @property
    def text(self) -> str:
        """The TOML; a private swarm's holds the key."""
        rules = {
            each.name: _toml(getattr(self.rules, each.name))
            for each in fields(self.rules)
            if each.name != "tasks"
        }
        tasks = _toml([f"{task}:{level}" for task, level in self.rules.tasks])
        lines = [f"{name} = {value}" for name, value in (*rules.items(), ("tasks", tasks))]
        header = _PRIVATE_HEADER if self.private else _HEADER
        key = f"private = true\nkey = {_toml(self.key.hex())}\n" if self.private else ""
        return (
            f"{header}swarm_id = {_toml(self.swarm_id.hex())}\n{key}"
            f"bootstrap = {_toml(self.bootstrap)}\n\n[rules]\n" + "\n".join(lines) + "\n"
        )


def _toml(value: str | int | Sequence[str]) -> str:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        # JSON's strings are TOML's, but for the one control character that JSON lets be.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if not value:
        return "[]"
    return "[\n" + "".join(f"    {_toml(each)},\n" for each in value) + "]"


def parse_swarm_file(text: str, source: str) -> SwarmFile:
    """A swarm out of TOML; `source` names it in errors. Raises SwarmFileError."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SwarmFileError(f"{source} is not valid TOML: {error}") from error
    try:
        _only(content, {"swarm_id", "private", "key", "bootstrap", "rules"})
        addresses = _texts(content.get("bootstrap", []))
        swarm = SwarmFile(_rules(content["rules"]), addresses, _key(content))
        claimed = content["swarm_id"] if swarm.private else content.get("swarm_id")
    except KeyError as error:
        raise SwarmFileError(f"{source} has no {error.args[0]!r}; {_AS_GIVEN}") from error
    except (ValueError, SwarmFileError) as error:
        raise SwarmFileError(f"{source}: {error}") from error
    if claimed is not None and claimed != swarm.swarm_id.hex():
        raise SwarmFileError(f"{source}: {_MISMATCH[swarm.private]}")
    return swarm


def _key(content: Mapping[str, Any]) -> bytes:
    """A private swarm's key, empty for a public one. Raises ValueError, which never quotes it."""
    private, key = content.get("private", False), content.get("key")
    if type(private) is not bool:
        raise ValueError("private must be true or false")
    if not private and key is not None:
        raise ValueError(f"it has a key and does not say private = true: {_AS_GIVEN}")
    if not private:
        return b""
    if key is None:
        raise ValueError("the swarm is private and its key is not there: ask a member for the file")
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        raise ValueError(f"the key is damaged: {_AS_GIVEN}")
    return bytes.fromhex(key)


def _rules(table: object) -> SwarmRules:
    """Raises KeyError and ValueError."""
    if not isinstance(table, dict):
        raise ValueError("[rules] must be a table")
    names = {field.name for field in fields(SwarmRules)}
    _only(table, names)
    tasks = []
    for text in _texts(table["tasks"]):
        task, _, level = text.partition(":")
        tasks.append((task, level))
    numbers = {name: table[name] for name in names - {"name", "tasks"}}
    for name, value in numbers.items():
        if type(value) is not int:
            raise ValueError(f"{name} must be a whole number")
    if not isinstance(table["name"], str):
        raise ValueError("name must be a text")
    return SwarmRules(name=table["name"], tasks=tuple(sorted(set(tasks))), **numbers)


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError("tasks and bootstrap must be lists of texts")
    return tuple(value)


def _only(table: Mapping[str, Any], known: set[str]) -> None:
    if unknown := sorted(set(table) - known):
        raise ValueError(f"unknown {unknown[0]!r}; there are {', '.join(sorted(known))}")


def read_swarm_file(path: Path) -> SwarmFile:
    """Raises SwarmFileError."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_FILE_BYTES + 1)
        if len(content) > _MOST_FILE_BYTES:
            raise SwarmFileError(f"{path} is too large for a swarm file; {_AS_GIVEN}")
        return parse_swarm_file(content.decode("utf-8"), str(path))
    except OSError as error:
        raise SwarmFileError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SwarmFileError(f"{path} is no text in UTF-8; {_AS_GIVEN}") from error


def save_swarm(folder: Path, swarm: SwarmFile) -> str:
    """Put a swarm among those of the home; the name it has there. Raises SwarmFileError.

    Its addresses replace those that the same swarm had. Another swarm that has the name already
    stays; this one's name then ends in the first digits of its id.
    """
    plain = _plain_name(swarm)
    name = plain if _is_free(folder / f"{plain}.toml", swarm) else _with_id(plain, swarm)
    path = folder / f"{name}.toml"
    try:
        write_atomically(path, swarm.text, secret=swarm.private)
    except OSError as error:
        raise SwarmFileError(f"{path} cannot be written: {error.strerror}") from error
    return name


def _plain_name(swarm: SwarmFile) -> str:
    plain = re.sub(r"[^a-z0-9]+", "-", swarm.rules.name.lower()).strip("-")[:_NAME_LENGTH]
    return plain or f"swarm-{swarm.swarm_id.hex()[:8]}"


def _with_id(plain: str, swarm: SwarmFile) -> str:
    return f"{plain}-{swarm.swarm_id.hex()[:8]}"


def _is_free(path: Path, swarm: SwarmFile) -> bool:
    """Whether nothing is there, or the same swarm; a file that can't be read is left alone."""
    if not path.exists():
        return True
    try:
        return read_swarm_file(path).swarm_id == swarm.swarm_id
    except SwarmFileError:
        return False


def load_swarm(folder: Path, name: str) -> SwarmFile:
    """One of the home's swarms by its name there. Raises SwarmFileError."""
    return read_swarm_file(_path_of(folder, name))


def remove_swarm(folder: Path, name: str) -> None:
    """Forget a swarm, whatever its file holds. Raises SwarmFileError."""
    path = _path_of(folder, name)
    try:
        path.unlink()
    except OSError as error:
        raise SwarmFileError(
            f"{path} cannot be removed: {error.strerror}; make its folder and disk writable"
        ) from error


def list_swarms(folder: Path) -> Mapping[str, SwarmFile | SwarmFileError]:
    """The home's swarms by name, in order; a file that is none comes as its error.

    Raises SwarmFileError where the folder is closed to us: whoever has joined a swarm is not to be
    taken for somebody who hasn't.
    """
    found: dict[str, SwarmFile | SwarmFileError] = {}
    for path in _files_in(folder):
        try:
            found[path.stem] = read_swarm_file(path)
        except SwarmFileError as error:
            found[path.stem] = error
    return found


def _files_in(folder: Path) -> Sequence[Path]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SwarmFileError(
            f"{folder} cannot be read: {error.strerror}; do this as the user whose home it is"
        ) from error
    return [folder / name for name in names if name.endswith(".toml") and name[0] != "."]


def _path_of(folder: Path, name: str) -> Path:
    path = folder / f"{name}.toml"
    if _NAME.fullmatch(name) is None or not path.exists():
        names = ", ".join(list_swarms(folder)) or "none yet: swarmnode swarm new or join"
        raise SwarmFileError(f"no swarm is called {name!r} here; there are: {names}")
    return path
