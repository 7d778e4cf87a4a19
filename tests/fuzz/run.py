"""Coverage-guided fuzzing of what reads strangers' bytes: `make fuzz`, and a share in `make check`.

`python -m tests.fuzz.run [--seconds 20] [--together 2] [TARGET …]` gives every target so many
seconds and prints what libFuzzer did. Ends with 1 where it found something; the input lies in the
folder that is named then, and belongs into tests/fuzz/corpus once it is mended. Without atheris,
which has builds for x86-64 Linux alone, it says that it was skipped: the corpus is replayed by
tests/fuzz/test_fuzz.py on every system.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NAMES: Final = ("codec", "scan", "envelope", "groups", "verifiers", "handlers", "records", "lan")
INPUT_BYTES: Final = 4096
INPUT_SECONDS: Final = 5
"""An input that takes longer is a finding: nothing here may be slow."""
MEMORY_MIB: Final = 1024
START_SECONDS: Final = 240.0


@dataclass(frozen=True)
class Outcome:
    """What became of a target; `executions` and `reached` (edges) are libFuzzer's."""

    target: str
    executions: int
    reached: int
    finding: str

    @property
    def line(self) -> str:
        """For the terminal."""
        told = f"FOUND SOMETHING:\n{self.finding}" if self.finding else "nothing found"
        return f"fuzz: {self.target} {self.executions} executions, {self.reached} edges, {told}"


def fuzz(target: str, seconds: float, kept: Path, module: str = "tests.fuzz.child") -> Outcome:
    """Fuzz one target; what is found is left in `kept`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", module, target, folder]
        command += [f"-max_total_time={max(1, int(seconds))}", f"-max_len={INPUT_BYTES}"]
        command += [f"-timeout={INPUT_SECONDS}", f"-rss_limit_mb={MEMORY_MIB}"]
        command += [f"-artifact_prefix={kept}/{target}-", "-print_final_stats=1", "-verbosity=1"]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds + START_SECONDS,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    said = done.stdout.decode("utf-8", "replace")
    executions = re.search(r"stat::number_of_executed_units: (\d+)", said)
    reached = re.findall(r"cov: (\d+)", said)
    finding = "" if done.returncode == 0 else "\n".join(said.splitlines()[-40:])
    return Outcome(
        target,
        int(executions[1]) if executions else 0,
        int(reached[-1]) if reached else 0,
        finding or ("" if executions else "it executed nothing"),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz, some targets at a time; what was found decides the exit code."""
    parser = argparse.ArgumentParser(prog="tests.fuzz.run")
    parser.add_argument("targets", nargs="*", default=NAMES)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--together", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()))
    chosen = parser.parse_args(arguments)
    if chosen.seconds <= 0:
        print("fuzz: left out, no time was given")
        return 0
    if importlib.util.find_spec("atheris") is None:
        print("fuzz: SKIPPED, atheris has no build for this system; the corpus is replayed anyhow")
        return 0
    with ThreadPoolExecutor(chosen.together) as pool:
        running = [pool.submit(fuzz, each, chosen.seconds, chosen.keep) for each in chosen.targets]
        outcomes = []
        for each in running:
            outcomes.append(each.result())
            print(outcomes[-1].line, flush=True)
    return int(any(outcome.finding for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
