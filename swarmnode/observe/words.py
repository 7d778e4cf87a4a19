"""Values in words that are safe to show: texts of strangers, durations, sizes."""

from __future__ import annotations

from collections.abc import Sequence

RELAYS_NAMED = 3
VALUE_CHARACTERS = 2000
"""Longest text that is shown of one value; the rest is cut off."""


def plain(text: str, limit: int = VALUE_CHARACTERS) -> str:
    """`text` as it may be shown: one line, everything unprintable as an escape such as \\x1b."""
    cut = text if len(text) <= limit else text[:limit] + "…"
    if cut.isprintable():
        return cut
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in cut
    )


def plain_lines(text: str) -> Sequence[str]:
    """A whole text as it may be shown, line by line; only line feeds part lines."""
    return [plain(line, limit=len(line)) for line in text.split("\n")]


def lasting(seconds: float) -> str:
    """A duration in its largest whole unit but one: 42 s, 7 min, 3 h, 2 days."""
    for size, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def size_of(count: float) -> str:
    """A number of bytes: 512 B, 1.4 MiB, 20 GiB."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = 0
    while count >= 1024 and power < len(units) - 1:
        count /= 1024
        power += 1
    return f"{count:.{0 if count >= 10 or power == 0 else 1}f} {units[power]}"


def reach_in_words(reach: str, relays: Sequence[str]) -> str:
    """How others get to a node."""
    through = ", ".join(relays[:RELAYS_NAMED])
    return {
        "reachable": "others can dial us",
        "nearby": "others on our networks can dial us, and nobody else has tried",
        "relayed": f"behind a router (NAT); relayed through {through}",
        "unreachable": "others cannot dial us; what we share goes out through peers that hold it",
    }.get(reach, "not known yet whether others can dial us")


def counted(count: int, noun: str) -> str:
    """A number and its noun: 1 peer, 2 peers."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def trying_again(seconds: float | None) -> str:
    """When something is tried again, as the end of a sentence; empty where that is unknown."""
    if seconds is None:
        return ""
    return "trying again now" if seconds < 0.5 else f"trying again in {seconds:.0f} s"
