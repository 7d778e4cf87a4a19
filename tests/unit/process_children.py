"""Children for the supervisor's tests: `python -m tests.unit.process_children FD KIND`."""

import os
import sys
import time

from swarmnode.process import Handlers, inherited_socket, serve
from swarmnode.zygote import serve_forked


def _sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def _fail(message: str) -> None:
    raise ValueError(message)


HANDLERS: Handlers = {
    "echo": lambda payload: payload,
    "sleep": _sleep,
    "exit": os._exit,
    "fail": _fail,
    "pid": lambda _payload: os.getpid(),
    "environment": lambda _payload: sorted(os.environ),
}

if __name__ == "__main__":
    connection = inherited_socket(sys.argv[1:])
    if sys.argv[2] == "forked":
        serve_forked(lambda _progress: HANDLERS, lambda: None, connection)
    else:
        serve(HANDLERS, connection)
