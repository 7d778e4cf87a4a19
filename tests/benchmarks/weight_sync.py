"""`make bench NAME=weight_sync`: what it costs to get 135 M parameters into another process.

Two processes of one thread each, all ways interleaved in one run, medians over the repeats:
shared memory against one plain copy of the same bytes, the packed broadcast by gloo against one
contiguous broadcast, the folder, and a transfer by HTTP, tensor by tensor. The checksum is taken
apart: what it costs is not in the other times. Writes the tables of docs/results/weight-sync.md and
exits with 1 when a bound is missed. Takes a few minutes of two idle cores; ARGUMENTS='2 3' takes
2 layers and 3 repeats, for a try, and writes nothing.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import torch

from swarmnode.paths import shared_memory_folder
from swarmnode.weights.broadcast_out import BroadcastOut
from swarmnode.weights.channel import WeightsOut
from swarmnode.weights.checksum import checksum
from swarmnode.weights.folder import FolderOut
from swarmnode.weights.meeting import Address, Meeting
from swarmnode.weights.plan import Plan, as_bytes
from swarmnode.weights.shared_memory import SharedMemoryOut
from tests.benchmarks.sharing_markdown import table
from tests.benchmarks.weight_sync_child import PLAIN_GROUP, TIMEOUT_SECONDS
from tests.benchmarks.weight_sync_model import LAYERS, contiguous, model, put_all

PAGE = Path("docs/results/weight-sync.md")
BEGIN, END = "<!-- weight-sync:figures -->", "<!-- /weight-sync:figures -->"
REPEATS = 15
COPY_BOUND, BROADCAST_BOUND = 1.1, 1.5
DTYPES = ("float32", "bfloat16")

Times = dict[str, list[float]]
"""Seconds by what took them, one for each repeat."""


class Child:
    """The other process (weight_sync_child.py)."""

    def __init__(self, *arguments: object) -> None:
        module = "tests.benchmarks.weight_sync_child"
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port = int(self.hear())

    def tell(self, what: str) -> None:
        """Let it begin with something."""
        assert self._process.stdin is not None
        print(what, file=self._process.stdin, flush=True)

    def hear(self) -> str:
        """Its next line."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def ask(self, what: str) -> float:
        """Let it do something; seconds without the checksum."""
        self.tell(what)
        seconds, sums = map(float, self.hear().split())
        return seconds - sums

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def timed(work: Callable[[], object]) -> float:
    """Elapsed seconds."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


class Trainer:
    """The trainer's side for one type, and its child."""

    def __init__(self, dtype: str, layers: int, place: Path, folder: Path) -> None:
        self.tensors = model(getattr(torch, dtype), layers)
        self.memory = torch.cat([as_bytes(one) for one in self.tensors.values()])
        self._target = torch.zeros_like(self.memory)
        plan, address = Plan.of(self.tensors), Address("127.0.0.1", 0, TIMEOUT_SECONDS)
        self._channels: dict[str, WeightsOut] = {
            "shared-memory": SharedMemoryOut(place, plan),
            "folder": FolderOut(folder, plan),
        }
        self._broadcasts = {
            "broadcast": BroadcastOut(address, 1, plan, verify=False),
            "gathered": BroadcastOut(address, 1, plan, verify=False, gathered=True),
        }
        self._plain = Meeting(address, serve=True)
        ports = [one.address.port for one in self._broadcasts.values()]
        ports.append(self._plain.address.port)
        self.child = Child(place, folder, *ports, dtype, layers)
        self._group = self._plain.group(PLAIN_GROUP, 0, 2, torch.device("cpu"))
        self._version = 0

    def ways(self) -> dict[str, Callable[[], dict[str, float]]]:
        """Everything that is measured, by what it is called in the tables."""
        return {
            "copy": lambda: {"copy": timed(lambda: self._target.copy_(self.memory))},
            "checksum": lambda: {"checksum": timed(lambda: checksum(self.tensors.values()))},
            "shared-memory": lambda: self._handed_over("shared-memory"),
            "contiguous": self._contiguous,
            "broadcast": lambda: self._packed("broadcast"),
            "gathered": lambda: self._packed("gathered"),
            "folder": lambda: self._handed_over("folder"),
            "http": lambda: {"http": timed(lambda: put_all(self.child.port, self.tensors))},
        }

    def require_arrival(self) -> None:
        """Raise unless every way brings all bytes into the other process's tensors."""
        expected = checksum(self.tensors.values())
        for name, way in self.ways().items():
            if name not in ("copy", "checksum", "contiguous"):
                self.child.ask("forget")
                way()
                self.child.tell("checksum")
                if self.child.hear().strip() != expected:
                    raise AssertionError(f"{name} brought something else")

    def close(self) -> None:
        """End both sides."""
        self.child.close()
        for channel in (*self._channels.values(), *self._broadcasts.values()):
            channel.close()

    def _handed_over(self, name: str) -> dict[str, float]:
        self._version += 1
        done = self._channels[name].publish(self._version, self.tensors.items())
        published = done.seconds - done.checksum_seconds
        return {f"{name} publish": published, f"{name} take": self.child.ask(name)}

    def _packed(self, name: str) -> dict[str, float]:
        self._version += 1
        self.child.tell(name)
        done = self._broadcasts[name].publish(self._version, self.tensors.items())
        self.child.hear()
        return {name: done.seconds}

    def _contiguous(self) -> dict[str, float]:
        self.child.tell("contiguous")
        seconds = timed(lambda: contiguous(self._group, self.memory))
        self.child.hear()
        return {"contiguous": seconds}


def measured(dtype: str, layers: int, repeats: int) -> tuple[int, Times]:
    """Bytes, and the times of all repeats after one that warms up."""
    place = shared_memory_folder(os.getuid()) / f"benchmark-{os.getpid()}"
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        trainer = Trainer(dtype, layers, place, Path(folder))
        try:
            for _ in range(2):  # both buffers
                trainer.require_arrival()
            times: Times = defaultdict(list)
            for turn in range(repeats):
                ways = list(trainer.ways().values())
                for way in ways[turn % len(ways) :] + ways[: turn % len(ways)]:
                    for name, seconds in way().items():
                        times[name].append(seconds)
            return len(trainer.memory), times
        finally:
            trainer.close()


def ratio(times: Times, name: str, to: str) -> float:
    """The median over the repeats of one time by another of the same repeat."""
    return statistics.median(one / other for one, other in zip(times[name], times[to], strict=True))


def rows_of(dtype: str, size: int, times: Times) -> tuple[list[list[str]], list[list[str]]]:
    """The rows of both tables: times, and ratios beside their bounds."""
    names = {
        "copy": "one plain copy in memory",
        "shared-memory publish": "shared memory, publish",
        "shared-memory take": "shared memory, take",
        "contiguous": "one contiguous broadcast (gloo)",
        "broadcast": "packed broadcast (gloo), large tensors in place",
        "gathered": "packed broadcast (gloo), all packed",
        "folder publish": "folder, publish",
        "folder take": "folder, take",
        "http": "HTTP, tensor by tensor",
        "checksum": "checksum (XXH3-64) of all",
    }
    spent = []
    for name, words in names.items():
        middle = statistics.median(times[name])
        least, most = min(times[name]), max(times[name])
        rate = f"{1e-9 * size / middle:.2f}"
        spent.append(
            [dtype, words, f"{1e3 * middle:.0f}", f"{1e3 * least:.0f} to {1e3 * most:.0f}", rate]
        )
    return spent, [
        _judged(dtype, names, times, "shared-memory publish", "copy", COPY_BOUND),
        _judged(dtype, names, times, "shared-memory take", "copy", COPY_BOUND),
        _judged(dtype, names, times, "broadcast", "contiguous", BROADCAST_BOUND),
        _judged(dtype, names, times, "gathered", "contiguous", BROADCAST_BOUND),
        _judged(dtype, names, times, "http", "broadcast", None),
        _judged(dtype, names, times, "folder publish", "copy", None),
    ]


def _judged(
    dtype: str, names: dict[str, str], times: Times, name: str, to: str, bound: float | None
) -> list[str]:
    found = ratio(times, name, to)
    told = [dtype, f"{names[name]} / {names[to]}", f"{found:.2f}"]
    if bound is None:
        return [*told, "", ""]
    return [*told, f"≤ {bound}", "met" if found <= bound else "missed"]


def figures(layers: int, repeats: int) -> tuple[str, bool]:
    """The tables, as Markdown, and whether all bounds are met."""
    spent: list[list[str]] = []
    judged: list[list[str]] = []
    for dtype in DTYPES:
        size, times = measured(dtype, layers, repeats)
        more, ratios = rows_of(f"{dtype}, {1e-6 * size:.0f} MB", size, times)
        spent, judged = spent + more, judged + ratios
    load = (
        f"Load at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {repeats} repeats."
    )
    tables = [
        table(["weights", "", "ms, median", "range", "GB/s"], spent),
        table(["weights", "ratio", "median", "bound", ""], judged),
        load,
    ]
    return "\n\n".join(tables), not any(row[-1] == "missed" for row in judged)


def main() -> int:
    """Measure and print; write the page unless it was a try."""
    layers, repeats = map(int, sys.argv[1:3]) if len(sys.argv) > 2 else (LAYERS, REPEATS)
    torch.set_num_threads(1)
    text, met = figures(layers, repeats)
    print(text)
    if len(sys.argv) <= 2:
        page = PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
