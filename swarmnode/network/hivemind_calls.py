"""Two tables of hivemind's client, mended: calls of ours that wait, and answers of ours under way.

They take the places of its own dictionaries. Knows no message.
"""

from __future__ import annotations

import asyncio
from typing import Any


class PendingCalls(dict[Any, asyncio.Future[Any]]):
    """hivemind's calls that wait for an answer; one that was given up doesn't wait any more.

    Without this an answer in the very moment of its timeout would end hivemind's reading of all
    answers.
    """

    def __contains__(self, call: object) -> bool:
        return super().__contains__(call) and not self[call].done()


class HandlerTasks(dict[Any, asyncio.Task[Any]]):
    """hivemind's answers under way, each until it ends.

    hivemind forgets to drop one that its asker cancels before it has begun, so that each such
    message of a stranger would stay for ever.
    """

    def __setitem__(self, call: object, task: asyncio.Task[Any]) -> None:
        super().__setitem__(call, task)
        task.add_done_callback(lambda _: self.pop(call, None))
