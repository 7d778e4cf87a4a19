"""What tests provoke: the texts of our exceptions, and of the lines that commands end with.

conftest.py registers it with pytest. While a test runs that `tests/provoked.py` names, every text
of an exception of ours is kept, and every line that the test reads back of what was printed, by
this process or by a program that it ran; what it reads otherwise, such as a log or a page, it says
itself by the fixture `told`. After its last case its lines of docs/errors.md must be among them,
and where they are what a command ended with, with an exit code that the page has for them, or it
fails. With `SWARMNODE_TEST_TOLD=FILE` all tests are listened to, and what they told is written
there, for finding the test of a new line.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Final

import pytest

from swarmnode.cli import PROGRAM
from swarmnode.cli.exits import Mistake
from tests.error_lines import codes, fits
from tests.provoked import PROVOKED

OURS: Final = ("swarmnode", "swarmproto")
VARIABLE: Final = "SWARMNODE_TEST_TOLD"

Told = defaultdict[str, set[int]]
"""What was said, with the exit codes of commands that it ended."""


def name_of(item: pytest.Item) -> str:
    """A test as `tests/provoked.py` names it: file below tests/ and function, without its case."""
    path, _, function = item.nodeid.partition("::")
    return f"{path.removeprefix('tests/')}::{function.partition('[')[0]}"


class Provoking:
    """The plugin: keeps what was said, and compares it."""

    def __init__(self, *, partly: bool) -> None:
        self._partly = partly
        self._watched: set[type[BaseException]] = set()
        self._told: defaultdict[str, Told] = defaultdict(lambda: defaultdict(set))
        self._current = ""
        self._listens = False
        self._unfinished: set[str] = set()

    def watch(self) -> None:
        """Keep the texts of all exceptions of ours that are known by now."""
        for kind in _below(BaseException):
            if kind not in self._watched and kind.__module__.split(".")[0] in OURS:
                self._watched.add(kind)
                self._listen(kind)

    def _listen(self, kind: type[BaseException]) -> None:
        original: Any = kind.__init__

        @wraps(original)
        def made(error: BaseException, *arguments: Any, **named: Any) -> None:
            original(error, *arguments, **named)
            self.keep(str(error), {error.code} if isinstance(error, Mistake) else set())

        kind.__init__ = made  # type: ignore[assignment, method-assign]

    def keep(self, text: str, codes: Collection[int] = ()) -> None:
        """Remember a text of the test that runs, if it is one of interest."""
        if self._listens:
            self._told[self._current][text] |= set(codes)

    def keep_lines(self, text: object, code: int | None = None) -> None:
        """Remember each line of what was printed, by a program that ended with `code`; bytes are
        passed over."""
        for line in text.splitlines() if isinstance(text, str) else ():
            ends = line.startswith(f"{PROGRAM}: ")
            self.keep(line, {code} if ends and code is not None else ())

    @pytest.fixture
    def told(self) -> Callable[[str], None]:
        """What a test calls with a text that it read from a log, a page or an answer."""
        return lambda text: self.keep_lines(text)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Listen while a test runs; one that fails or is skipped has told too little."""
        self._current = name_of(item)
        self._listens = VARIABLE in os.environ or self._current in PROVOKED.values()
        if self._listens:
            self._told.setdefault(self._current, defaultdict(set))
            self.watch()
        try:
            return (yield)
        except BaseException:
            self._unfinished.add(self._current)
            raise
        finally:
            self._listens = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        """Compare, when the last case of a test has been cleared away."""
        yield
        name = name_of(item)
        self._write()
        if self._partly or (nextitem is not None and name_of(nextitem) == name):
            return
        if name in self._told and name not in self._unfinished:
            missing = unprovoked(name, self._told[name])
            assert not missing, f"{name} does not provoke these lines of docs/errors.md: {missing}"

    def _write(self) -> None:
        if file := os.environ.get(VARIABLE):
            told = {test: sorted(texts) for test, texts in sorted(self._told.items())}
            Path(file).write_text(json.dumps(told, indent=1), encoding="utf-8")


def unprovoked(test: str, told: Mapping[str, Collection[int]]) -> list[str]:
    """Which of the lines that a test is to provoke are not among what was told in it.

    `told` has the exit codes of what commands ended with; a line that has none of its own among
    them, in words that fit, was not provoked.
    """
    missing = []
    for line in (line for line, named in PROVOKED.items() if named == test):
        found = [ended for text, ended in told.items() if fits(line, text)]
        ended = {code for each in found for code in each}
        if not found or (ended and not ended & codes()[line]):
            missing.append(line)
    return missing


def _below(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def begin(config: pytest.Config) -> None:
    """Register the plugin, and let it hear what tests read back of what was printed."""
    chosen = config.option.keyword or getattr(config.option, "lf", False)
    partly = bool(chosen) or any("::" in each for each in config.args)
    plugin = Provoking(partly=partly)
    config.pluginmanager.register(plugin, "provoking")
    _hear(plugin)


def _hear(plugin: Provoking) -> None:
    original, ended = pytest.CaptureFixture.readouterr, subprocess.Popen.communicate

    def heard(fixture: pytest.CaptureFixture[Any]) -> Any:
        result = original(fixture)
        for stream in result:
            plugin.keep_lines(stream)
        return result

    def communicated(process: Any, *arguments: Any, **named: Any) -> Any:
        result = ended(process, *arguments, **named)
        for stream in result:
            plugin.keep_lines(stream, process.returncode)
        return result

    pytest.CaptureFixture.readouterr = heard  # type: ignore[assignment, method-assign]
    subprocess.Popen.communicate = communicated  # type: ignore[assignment, method-assign]
