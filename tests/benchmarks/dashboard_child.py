"""A node that counts what its dashboard takes: `python … dashboard_child FILE ARGUMENTS`.

`swarmnode ARGUMENTS`, but that FILE has the processor seconds so far that looking at the node,
making the page's parts and answering its requests took, in the loop and in the log's thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from starlette.types import Receive, Scope, Send

from swarmnode.api.dashboard import Guarded
from swarmnode.api.live import Live
from swarmnode.cli import main
from swarmnode.showing import Looking

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Meter:
    """Seconds of a processor."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seconds = 0.0

    def call(self, function: Callable[Given, Result]) -> Callable[Given, Result]:
        """The function, counted."""

        def counted(*arguments: Given.args, **named: Given.kwargs) -> Result:
            began = time.thread_time()
            try:
                return function(*arguments, **named)
            finally:
                self._seconds += time.thread_time() - began

        return counted

    def steps(self, function: Callable[Given, Awaitable[Result]]) -> Callable[Given, Any]:
        """The coroutine function, counted while it runs and not while it waits."""

        async def counted(*arguments: Given.args, **named: Given.kwargs) -> Result:
            try:
                return await _Steps(self, function(*arguments, **named))
            finally:
                self._file.write_text(f"{self._seconds}", "utf-8")

        return counted


class _Steps(Awaitable[Result]):
    def __init__(self, meter: Meter, within: Awaitable[Result]) -> None:
        self._meter = meter
        self._within = within

    def __await__(self) -> Generator[Any, Any, Result]:
        steps = self._within.__await__()
        step: Callable[[], Any] = partial(next, steps)
        while True:
            try:
                waited = self._meter.call(step)()
            except StopIteration as end:
                result: Result = end.value
                return result
            try:
                yield waited
            except BaseException as error:
                step = partial(steps.throw, error)
            else:
                step = partial(next, steps)


def run(file: Path) -> None:
    """Count, and run the command that the arguments have."""
    meter = Meter(file)
    Live._take = meter.steps(Live._take)  # type: ignore[method-assign]
    answered = meter.steps(Guarded.__call__)

    # uvicorn takes what can be called without arguments for a factory.
    async def asked(application: Guarded, scope: Scope, receive: Receive, send: Send) -> None:
        await answered(application, scope, receive, send)

    Guarded.__call__ = asked  # type: ignore[assignment, method-assign]
    Looking._read_log = meter.call(Looking._read_log)  # type: ignore[method-assign]
    main()


if __name__ == "__main__":
    place = Path(sys.argv.pop(1))
    run(place)
