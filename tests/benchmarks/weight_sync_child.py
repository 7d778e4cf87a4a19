"""The generator's process of the weight benchmark: does what a line on its input says.

Arguments: the place in shared memory, the folder, the ports of the broadcast and of the plain one,
the type, the layers. An answer is a line with the seconds that it took and those of the checksum in
it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

from swarmnode.weights.broadcast import BroadcastIn
from swarmnode.weights.channel import WeightsIn
from swarmnode.weights.checksum import checksum
from swarmnode.weights.folder import FolderIn
from swarmnode.weights.meeting import Address, Meeting, Offer
from swarmnode.weights.shared_memory import SharedMemoryIn
from tests.benchmarks.weight_sync_model import contiguous, model, serve

TIMEOUT_SECONDS = 120.0
PLAIN = Offer(0, "plain", 0, 0, 2, 0, False)
"""Names the process group of the contiguous broadcast."""


def main(place: Path, folder: Path, ports: tuple[int, int], dtype: str, layers: int) -> None:
    """Serve until the input ends."""
    into = {
        name: torch.zeros_like(one) for name, one in model(getattr(torch, dtype), layers).items()
    }
    memory = torch.zeros(sum(one.nbytes for one in into.values()), dtype=torch.uint8)
    packed, plain = (Address("127.0.0.1", port, TIMEOUT_SECONDS) for port in ports)
    channels: dict[str, WeightsIn] = {
        "shared-memory": SharedMemoryIn(place),
        "folder": FolderIn(folder),
        "broadcast": BroadcastIn(packed, 1),
    }
    have = dict.fromkeys(channels, -1)
    meeting = Meeting(plain, serve=False)
    server = serve(into)
    print(server.server_port, flush=True)
    group = meeting.group(PLAIN, 1, torch.device("cpu"))
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
    _, place, folder, first, second, dtype, layers = sys.argv
    main(Path(place), Path(folder), (int(first), int(second)), dtype, int(layers))
