"""What tests provoke: the texts of our exceptions, and of the lines that commands end with.

conftest.py registers it with pytest. While a test runs that `tests/provoked.py` names, every text
of an exception of ours is kept, and every line that the test reads back of what was printed, by
this process or by a program that it ran; what it reads otherwise, such as a log or a page, it says
itself by the fixture `told`. After its last case its lines of docs/errors.md must be among them, or
it fails. With `SWARMNODE_TEST_TOLD=FILE` all tests are listened to, and what they told is written
there, for finding the test of a new line.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from functools import wraps
from pathlib import Path
from typing import Any, Final

import pytest

from tests.error_lines import fits
from tests.provoked import PROVOKED

OURS: Final = ("swarmnode", "swarmproto")
VARIABLE: Final = "SWARMNODE_TEST_TOLD"


def name_of(item: pytest.Item) -> str:
    """A test as `tests/provoked.py` names it: file below tests/ and function, without its case."""
    path, _, function = item.nodeid.partition("::")
    return f"{path.removeprefix('tests/')}::{function.partition('[')[0]}"


class Provoking:
    """The plugin: keeps what was said, and compares it."""

    def __init__(self, *, partly: bool) -> None:
        self._partly = partly
        self._watched: set[type[BaseException]] = set()
        self._told: defaultdict[str, set[str]] = defaultdict(set)
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
            self.keep(str(error))

        kind.__init__ = made  # type: ignore[assignment, method-assign]

    def keep(self, text: str) -> None:
        """Remember a text of the test that runs, if it is one of interest."""
        if self._listens:
            self._told[self._current].add(text)

    def keep_lines(self, text: object) -> None:
        """Remember each line of what was printed; bytes are passed over."""
        for line in text.splitlines() if isinstance(text, str) else ():
            self.keep(line)

    @pytest.fixture
    def told(self) -> Callable[[str], None]:
        """What a test calls with a text that it read from a log, a page or an answer."""
        return self.keep_lines

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Listen while a test runs; one that fails or is skipped has told too little."""
        self._current = name_of(item)
        self._listens = VARIABLE in os.environ or self._current in PROVOKED.values()
        if self._listens:
            self._told.setdefault(self._current, set())
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


def unprovoked(test: str, told: Collection[str]) -> list[str]:
    """Which of the lines that a test is to provoke are not among what was told in it."""
    lines = [line for line, named in PROVOKED.items() if named == test]
    return [line for line in lines if not any(fits(line, text) for text in told)]


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
            plugin.keep_lines(stream)
        return result

    pytest.CaptureFixture.readouterr = heard  # type: ignore[assignment, method-assign]
    subprocess.Popen.communicate = communicated  # type: ignore[assignment, method-assign]
