"""The process of one contestant: reads its work from standard input, runs one round, writes JSON.

Its last line on standard output is the result: phases, figures. Whatever the contestant prints goes
to standard error.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from dataclasses import asdict

import torch

from swarmnode.process import die_with_parent
from tests.benchmarks import engine_machine
from tests.benchmarks.engine_peers_meter import Meter, peak_mib
from tests.benchmarks.engine_peers_rows import OURS
from tests.benchmarks.engine_peers_work import Work, from_json


def measure(work: Work, meter: Meter) -> dict[str, float]:
    """Run the contestant's round."""
    name, _, size = work.contestant.partition("-")
    # What one contestant imports must not be in another's process.
    if work.contestant == OURS:
        from tests.benchmarks import engine_peers_ours

        return engine_peers_ours.measure(work, meter)
    if name == "trl":
        from tests.benchmarks import engine_peers_trl

        return engine_peers_trl.measure(work, meter, int(size))
    from tests.benchmarks import engine_peers_genrl

    return engine_peers_genrl.measure(work, meter, int(size) if size else None)


def main() -> None:
    """Measure the machine, then the round."""
    die_with_parent()
    work = from_json(sys.stdin.read())
    torch.set_num_threads(work.threads)
    with contextlib.redirect_stdout(sys.stderr):
        machine = engine_machine.measure()
        meter = Meter()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            figures = measure(work, meter)
        if torch.get_num_threads() != work.threads:
            raise RuntimeError(f"the contestant took {torch.get_num_threads()} threads")
    figures |= {
        "sgemm_gflops": machine.gflops,
        "read_gigabytes": machine.gigabytes,
        "peak_mib": peak_mib(),
        "load": os.getloadavg()[0],
    }
    phases = {name: asdict(phase) for name, phase in meter.phases().items()}
    print(json.dumps({"phases": phases, "figures": figures}, allow_nan=False))


if __name__ == "__main__":
    main()
