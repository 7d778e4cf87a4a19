"""A tracker's process: `python -m swarmnode.trackers.child DESCRIPTOR NAME`.

Wiring: makes the one tracker that it is named for and gives it what it is sent. It has the
environment of the user, with what his tracker needs to log in, and nothing of the node but figures.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from swarmnode.process import Handlers, inherited_socket, serve
from swarmnode.trackers.run import Run, Tracker

NICENESS = 10
"""Rounds come first where there are too few cores."""


def opened(name: str, run: Run) -> Tracker:
    """The tracker of that name; its library is imported here. Raises whatever that raises."""
    match name:
        case "tensorboard":
            from swarmnode.trackers.tensorboard_files import TensorBoard

            return TensorBoard.open(run)
        case "trackio":
            from swarmnode.trackers.trackio_runs import Trackio

            return Trackio.open(run)
        case "wandb":
            from swarmnode.trackers.wandb_runs import WeightsAndBiases

            return WeightsAndBiases.open(run)
    raise ValueError(f"{name} is no tracker")


def handlers_of(name: str) -> Handlers:
    """What the process answers, by method."""
    trackers: list[Tracker] = []

    def begin(payload: Any) -> str:
        trackers[:] = [opened(name, Run.from_values(payload))]
        return trackers[0].where

    def write(payload: Any) -> None:
        for round_number, ended, values in payload:
            trackers[0].log(round_number, ended, values)
        trackers[0].flush()

    def close(_payload: Any) -> None:
        trackers[0].close()

    return {"begin": begin, "write": write, "close": close}


def main(arguments: list[str]) -> None:
    """Serve until the parent hangs up."""
    os.nice(NICENESS)
    # They print for people at notebooks; errors are answered, and so reach the log.
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, sys.stdout.fileno())
    serve(handlers_of(arguments[1]), inherited_socket(arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
