"""The generator's process of the weight benchmark: does what a line on its input says.

Arguments: the place in shared memory, the folder, the ports of both broadcasts and of the plain
one, the type, the layers. An answer is a line with the seconds that it took and those of the
checksum in it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from swarmnode.weights.broadcast_in import BroadcastIn
from swarmnode.weights.channel import WeightsIn
from swarmnode.weights.checksum import checksum
from swarmnode.weights.folder import FolderIn
from swarmnode.weights.meeting import Address, Meeting
from swarmnode.weights.shared_memory import SharedMemoryIn
from tests.benchmarks.weight_sync_model import contiguous, model, serve

TIMEOUT_SECONDS = 120.0
PLAIN_GROUP = 0
"""Names the process group of the contiguous broadcast."""


def main(place: Path, folder: Path, ports: Sequence[int], dtype: str, layers: int) -> None:
    """Serve until the input ends."""
    into = {
        name: torch.zeros_like(one) for name, one in model(getattr(torch, dtype), layers).items()
    }
    memory = torch.zeros(sum(one.nbytes for one in into.values()), dtype=torch.uint8)
    packed, gathered, plain = (Address("127.0.0.1", port, TIMEOUT_SECONDS) for port in ports)
    channels: dict[str, WeightsIn] = {
        "shared-memory": SharedMemoryIn(place),
        "folder": FolderIn(folder),
        "broadcast": BroadcastIn(packed, 1),
        "gathered": BroadcastIn(gathered, 1),
    }
    have = dict.fromkeys(channels, -1)
    meeting = Meeting(plain, serve=False)
    server = serve(into)
    print(server.server_port, flush=True)
    group = meeting.group(PLAIN_GROUP, 1, 2, torch.device("cpu"))
    for line in sys.stdin:
        what, started, sums = line.strip(), time.perf_counter(), 0.0
        if what == "contiguous":
            contiguous(group, memory)
        elif what == "checksum":
            print(checksum(into.values()), flush=True)
            continue
        elif what == "forget":
            for tensor in into.values():
                tensor.zero_()
        else:
            taken = None
            while taken is None:
                taken = channels[what].take(into, have[what])
            have[what], sums = taken.version, taken.checksum_seconds
            started = time.perf_counter() - taken.seconds
        print(time.perf_counter() - started, sums, flush=True)
    for channel in channels.values():
        channel.close()


if __name__ == "__main__":
    torch.set_num_threads(1)
    _, shared, disk, *numbers, kind, count = sys.argv
    main(Path(shared), Path(disk), [int(number) for number in numbers], kind, int(count))
