"""`make bench NAME=dashboard`: what the dashboard costs a training node, as shares side by side.

One real node on its own trains as fast as it can. Stretches with one page open, which reads every
event, take turns with stretches without, and each is compared with the two beside it. A page takes
less than rounds differ by, so that its share is counted in the daemon itself (dashboard_child.py).
    page      what looking, making and sending take, over what all of the node's processes use
    rounds    rounds a second with the page over those without
    notes     what 100 rounds a second spend on being remembered and shown, over a second
Medians over pairs of stretches. `--seconds` of a stretch, `--pairs` of them.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

from swarmnode.api.secret import address_of, read_secret
from swarmnode.observe.history import History
from swarmnode.observe.shown_groups import shown_groups
from swarmnode.sim.real import RealNode
from swarmnode.types import Trained, TrainedGroup
from tests.real.real_support import everybody, place, wait_for_rounds
from tests.unit.dashboard_support import report
from tests.unit.made import scored

ROUNDS_A_SECOND = 100
GROUPS = 8
SETTLE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Stretch:
    """What the node used in some seconds."""

    daemon: float
    """Processors, on average."""
    node: float
    rounds: float
    """A second."""


@dataclass(frozen=True, slots=True)
class Paged:
    """A stretch with a page."""

    stretch: Stretch
    share: float
    """Of the node's processor time, what the dashboard took."""
    sent: float
    """Bytes a second."""


class Page:
    """A page that reads all it is sent, until `close`."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 0), 30)
        request = f"GET {parts.path}events HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n"
        self._socket.sendall(request.encode())
        self.received = 0
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while chunk := self._socket.recv(1 << 16):
            self.received += len(chunk)

    def close(self) -> None:
        """Leave."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()


def used(node: RealNode) -> tuple[float, float]:
    """Processor seconds so far: of the daemon, and of all of the node's processes."""
    times = [process.cpu_times() for process in everybody(node)]
    seconds = [each.user + each.system for each in times]
    return seconds[0], sum(seconds)


def number_of(node: RealNode) -> int:
    """The round that is going on."""
    status = node.status()
    assert status
    assert status.round
    return status.round.number


def stretch(node: RealNode, seconds: float) -> Stretch:
    """Look for so long."""
    first, number, begun = used(node), number_of(node), time.monotonic()
    time.sleep(seconds)
    last, ended = used(node), time.monotonic() - begun
    rounds = number_of(node) - number
    return Stretch((last[0] - first[0]) / ended, (last[1] - first[1]) / ended, rounds / ended)


def with_page(node: RealNode, address: str, seconds: float, spent: Path) -> Paged:
    """With a page."""
    page = Page(address)
    time.sleep(SETTLE_SECONDS)
    before = float(spent.read_text("utf-8"))
    found = stretch(node, seconds)
    taken = (float(spent.read_text("utf-8")) - before) / seconds
    page.close()
    time.sleep(SETTLE_SECONDS)
    return Paged(found, taken / found.node, page.received / (seconds + SETTLE_SECONDS))


def counting(folder: Path, spent: Path) -> Path:
    """A Python for the node, which counts in the file `spent` what the dashboard takes."""
    python = folder / "python"
    child = "tests.benchmarks.dashboard_child"
    python.write_text(f'#!/bin/sh\nshift 2\nexec {sys.executable} -m {child} {spent} "$@"\n')
    python.chmod(0o700)
    return python


def mean_of(one: Stretch, other: Stretch) -> Stretch:
    """Of two stretches."""
    return Stretch(
        (one.daemon + other.daemon) / 2,
        (one.node + other.node) / 2,
        (one.rounds + other.rounds) / 2,
    )


def notes() -> float:
    """Share of a second that ROUNDS_A_SECOND rounds spend on being remembered and shown."""
    groups = [scored([1.0] + [0.0] * 7, index=n, source="local") for n in range(GROUPS)]
    step = Trained(
        {},
        [TrainedGroup("own", "gcd", "none", "own samples")] * GROUPS,
        [[0.5] * 8] * GROUPS,
    )
    history, begun = History(), time.process_time()
    for number in range(1000):
        history.add(report(number), 1.0)
        shown_groups(number, groups, step)
    return (time.process_time() - begun) / 1000 * ROUNDS_A_SECOND


def main() -> int:
    """Run the node and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="dashboard") as folder,
        place(Path(folder), "dashboard.enabled=true", "dashboard.port=0") as here,
    ):
        spent = Path(folder) / "spent"
        node = here.run("node", "--solo", python=counting(Path(folder), spent))
        status = wait_for_rounds(node, 5)
        address = address_of(status.dashboard, read_secret(node.home.dashboard_secret))
        bare, paged = [stretch(node, options.seconds)], []
        for _ in range(options.pairs):
            paged.append(with_page(node, address, options.seconds, spent))
            bare.append(stretch(node, options.seconds))
    pairs = [
        (mean_of(*around), one.stretch) for around, one in zip(pairwise(bare), paged, strict=True)
    ]
    print("| | without a page | with one | |\n| --- | --- | --- | --- |")
    for name, without, with_one in (
        ("daemon, processors", [w.daemon for w, _ in pairs], [p.daemon for _, p in pairs]),
        ("node, processors", [w.node for w, _ in pairs], [p.node for _, p in pairs]),
        ("rounds a second", [w.rounds for w, _ in pairs], [p.rounds for _, p in pairs]),
    ):
        ratios = [two / one for one, two in zip(without, with_one, strict=True)]
        print(
            f"| {name} | {statistics.median(without):.3f} | {statistics.median(with_one):.3f} "
            f"| × {statistics.median(ratios):.3f} |"
        )
    shares = [each.share for each in paged]
    print(f"page: {statistics.median(shares):.2%} of the node's processor time "
          f"({min(shares):.2%} to {max(shares):.2%})")  # fmt: skip
    print(f"notes: {notes():.3%} of a processor at {ROUNDS_A_SECOND} rounds a second")
    print(f"sent: {statistics.median(each.sent for each in paged) / 1024:.1f} KiB a second")
    return 0


if __name__ == "__main__":
    sys.exit(main())
