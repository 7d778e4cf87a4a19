"""Typed reading of unpacked maps: exact types, ranges, and texts fit to be kept.

Knows types and limits, no record. bool is not an int and an int is not a float. A map may hold
keys that nobody reads, since fields are only ever added; they were bounded by the scan.
Source: protocol/README.md, section 4.
"""

import re
from dataclasses import dataclass
from typing import Final

from swarmproto.errors import Reason, WireError
from swarmproto.limits import COUNTER_MAX, NAME_BYTES_MAX

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]*", re.ASCII)


def as_integer(value: object, low: int, high: int) -> int:
    """Refuses bool."""
    if type(value) is not int:
        raise WireError(Reason.WRONG_TYPE, "expected an integer")
    if not low <= value <= high:
        raise WireError(Reason.RANGE, f"expected {low} to {high}")
    return value


def as_log_probability(value: object) -> float:
    """A float, at most 0; the scan has refused what is not finite."""
    if type(value) is not float:
        raise WireError(Reason.WRONG_TYPE, "expected a float")
    if value > 0.0:
        raise WireError(Reason.RANGE, "a log-probability above 0")
    return value


def as_text(value: object, low: int, high: int) -> str:
    """A text of `low` to `high` UTF-8 bytes without U+0000."""
    if type(value) is not str:
        raise WireError(Reason.WRONG_TYPE, "expected a text")
    # A character is at least a byte: this spares encoding what is too long anyway.
    if len(value) > high or not low <= len(value.encode()) <= high:
        raise WireError(Reason.RANGE, f"expected a text of {low} to {high} bytes")
    if "\0" in value:
        raise WireError(Reason.TEXT, "a text with U+0000")
    return value


def as_name(value: object) -> str:
    """A name of a task or level: lower-case ASCII letters, digits, `_`, `.` and `-`."""
    text = as_text(value, 1, NAME_BYTES_MAX)
    if _NAME.fullmatch(text) is None:
        raise WireError(Reason.TEXT, "a name with other characters")
    return text


def as_binary(value: object, low: int, high: int) -> bytes:
    """Bytes; a text is not binary."""
    if type(value) is not bytes:
        raise WireError(Reason.WRONG_TYPE, "expected binary")
    if not low <= len(value) <= high:
        raise WireError(Reason.RANGE, f"expected binary of {low} to {high} bytes")
    return value


def as_array(value: object, low: int, high: int) -> list[object]:
    """An array of `low` to `high` items."""
    if type(value) is not list:
        raise WireError(Reason.WRONG_TYPE, "expected an array")
    if not low <= len(value) <= high:
        raise WireError(Reason.RANGE, f"expected an array of {low} to {high} items")
    return value


@dataclass(frozen=True, slots=True)
class Fields:
    """A map of the wire, read key by key; every method raises WireError."""

    values: dict[str, object]

    @classmethod
    def of(cls, value: object) -> "Fields":
        """Expects a map."""
        if type(value) is not dict:
            raise WireError(Reason.WRONG_TYPE, "expected a map")
        return cls(value)

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def value(self, key: str) -> object:
        """The value, of whatever type."""
        if key not in self.values:
            raise WireError(Reason.MISSING_FIELD, f"no field {key}")
        return self.values[key]

    def integer(self, key: str, low: int = 0, high: int = COUNTER_MAX) -> int:
        """See `as_integer`."""
        return as_integer(self.value(key), low, high)

    def text(self, key: str, low: int, high: int) -> str:
        """See `as_text`."""
        return as_text(self.value(key), low, high)

    def name(self, key: str) -> str:
        """See `as_name`."""
        return as_name(self.value(key))

    def binary(self, key: str, low: int, high: int) -> bytes:
        """See `as_binary`."""
        return as_binary(self.value(key), low, high)

    def array(self, key: str, low: int, high: int) -> list[object]:
        """See `as_array`."""
        return as_array(self.value(key), low, high)

    def only(self, keys: frozenset[str]) -> None:
        """Refuses unknown keys, where adding a field would change a meaning."""
        if not self.values.keys() <= keys:
            raise WireError(Reason.UNKNOWN_FIELD, "a field that version 1 doesn't know")
