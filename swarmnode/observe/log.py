"""The log: JSON lines in a folder, and a readable form on the terminal.

`start_logging` is called once by the program; importing this module configures nothing, and a room
takes its logger with `structlog.get_logger()` or by constructor. What the standard library's
loggers say (those of hivemind, asyncio, warnings) lands in the same places in the same form.

Whatever is logged may be a peer's text. So every value is cut, and every character that a terminal
might act upon or that would hide text (C0, C1, ESC, line breaks, bidirectional overrides) is shown
as its escape: no peer can move a cursor, forge a line or recolour one. Nothing is added that tells
who or where the user is: no host or user name, no path of a source file, and the user's own folder
is written as `~` (reference/security.md, section 6).
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path, PurePath
from types import TracebackType
from typing import Any, TextIO

import structlog

from swarmnode.observe.words import plain

LOG_SUFFIX = ".jsonl"
LOG_FILE_BYTES = 8 * 1024 * 1024
"""Size at which a log file is set aside and a new one begun."""
KEPT_FILES = 5
"""Files that were set aside and are kept; the oldest goes."""
_ITEMS = 64
_DEPTH = 4
_TRACEBACK_LINES = 60
_OWN_FIELDS = ("time", "level", "process", "event", "traceback")

Entry = MutableMapping[str, Any]


def start_logging(
    folder: Path | None, process: str, *, terminal: TextIO | None = None, level: str = "info"
) -> Logging:
    """Send what this process logs to `folder`/`process`.jsonl (mode 0600) and to the terminal.

    Call it once; the caller closes what is returned. Two processes must not share a name, since
    each sets its own full files aside. Raises OSError when the file cannot be opened.
    """
    handlers: list[logging.Handler] = []
    if folder is not None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handlers.append(_formatted(_LogFile(folder / f"{process}{LOG_SUFFIX}"), process, _as_json))
    if terminal is not None:
        handlers.append(_formatted(logging.StreamHandler(terminal), process, _as_text))
    return Logging(handlers, level.upper())


class Logging:
    """The logging of this process, until `close`."""

    def __init__(self, handlers: Sequence[logging.Handler], level: str) -> None:
        root = logging.getLogger()
        self.handlers = handlers
        self._before = (root.level, root.handlers[:])
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.captureWarnings(True)
        structlog.configure(
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.stdlib.add_log_level,
                structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
            logger_factory=structlog.stdlib.LoggerFactory(),
            cache_logger_on_first_use=False,
        )

    def close(self) -> None:
        """Flush and close the files, and leave the logging system as it was found."""
        root = logging.getLogger()
        root.setLevel(self._before[0])
        root.handlers[:] = self._before[1]
        logging.captureWarnings(False)
        structlog.reset_defaults()
        for handler in self.handlers:
            # What a full disk does not take is lost here too.
            with suppress(OSError):
                handler.close()


class _LogFile(RotatingFileHandler):
    """A file of its owner's alone; what cannot be written is lost, not raised or printed."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            path, maxBytes=LOG_FILE_BYTES, backupCount=KEPT_FILES, encoding="utf-8", delay=False
        )

    def _open(self) -> Any:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return open(descriptor, "a", encoding="utf-8")

    def handleError(self, record: logging.LogRecord) -> None:
        """A full disk must end neither a round nor the program; the disk has its own warning."""


def _formatted(handler: logging.Handler, process: str, render: Any) -> logging.Handler:
    private = _private_folder()

    def tidy(_logger: object, _method: str, entry: Entry) -> Entry:
        return _tidy(entry, process, private)

    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_log_level], processors=[tidy, render]
        )
    )
    return handler


def _private_folder() -> str:
    """The user's own folder; empty where there is none, as for a bare user id in a container."""
    try:
        return str(Path.home())
    except RuntimeError:
        return ""


def _tidy(entry: Entry, process: str, private: str) -> Entry:
    """The entry as it is written: own fields first, every text safe to show."""
    record = entry.pop("_record")
    entry.pop("_from_structlog", None)
    error = _error(entry.pop("exc_info", None))
    entry.pop("stack_info", None)
    when = datetime.fromtimestamp(record.created, UTC)
    tidied: Entry = {
        "time": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": entry.pop("level", "info"),
        "process": process,
        "event": _shown(entry.pop("event", ""), private),
    }
    for name, value in entry.items():
        key = plain(str(name), 64)
        tidied[f"{key}_" if key in _OWN_FIELDS else key] = _shown(value, private)
    if error is not None:
        lines = list(_traceback(traceback.TracebackException.from_exception(error)))
        tidied["traceback"] = [_shown(line, private) for line in lines[-_TRACEBACK_LINES:]]
    return tidied


def _shown(value: object, private: str, depth: int = _DEPTH) -> Any:
    match value:
        case None | bool() | int():
            return value
        case float():
            # JSON has no NaN.
            return value if math.isfinite(value) else str(value)
        case bytes():
            return plain(value.hex())
        case Mapping() if depth:
            return {
                plain(str(key), 64): _shown(each, private, depth - 1)
                for key, each in list(value.items())[:_ITEMS]
            }
        case list() | tuple() | set() | frozenset() if depth:
            return [_shown(each, private, depth - 1) for each in list(value)[:_ITEMS]]
    text = str(value)
    return plain(text.replace(private, "~") if len(private) > 1 else text)


def _error(exc_info: object) -> BaseException | None:
    match exc_info:
        case BaseException():
            return exc_info
        case (_, BaseException() as error, TracebackType() | None):
            return error
        case True:
            return sys.exc_info()[1]
    return None


def _traceback(told: traceback.TracebackException) -> Iterator[str]:
    """Cause first; a frame as module, line and function, since a full path names the user."""
    context = None if told.__suppress_context__ else told.__context__
    if (cause := told.__cause__ or context) is not None:
        yield from _traceback(cause)
        yield "led to:"
    for frame in told.stack:
        yield f"{_module_path(frame.filename)}:{frame.lineno} in {frame.name}"
    yield from (line.rstrip("\n") for line in told.format_exception_only())
    for each in told.exceptions or ():
        yield "one of the group:"
        yield from _traceback(each)


def _module_path(filename: str) -> str:
    parts = PurePath(filename).parts
    for root in ("site-packages", "swarmnode"):
        if root in parts:
            start = len(parts) - 1 - parts[::-1].index(root)
            return "/".join(parts[start + (root == "site-packages") :])
    return "/".join(parts[-2:]).lstrip("/")


def _as_json(_logger: object, _method: str, entry: Entry) -> str:
    return json.dumps(entry, ensure_ascii=False)


def _as_text(_logger: object, _method: str, entry: Entry) -> str:
    return readable(entry)


def readable(entry: Mapping[str, Any]) -> str:
    """An entry for human eyes; safe to print whatever the entry holds. Times are local.

    A traceback stands below, every line of it indented, so that none passes for an entry.
    """
    written = str(entry.get("time", ""))
    with suppress(ValueError):
        moment = datetime.fromisoformat(written).timestamp()
        written = time.strftime("%H:%M:%S", time.localtime(moment))
    level, process, event = (
        plain(str(entry.get(key, ""))) for key in ("level", "process", "event")
    )
    fields = [
        f"{plain(str(name), 64)}={plain(_field(value))}"
        for name, value in entry.items()
        if name not in _OWN_FIELDS
    ]
    head = f"{plain(written, 32)} {level:<8} {process:<8} {event}"
    traced = entry.get("traceback")
    lines = [f"    {plain(str(line))}" for line in traced] if isinstance(traced, list) else []
    return "\n".join(["  ".join([head.rstrip(), *fields]), *lines])


def _field(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
