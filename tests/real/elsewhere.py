"""A Python as if on another machine: with a clock that is off, and locks of its own.

`python_elsewhere` writes a program that stands for `python`; a node started by it starts all its
processes by it, since the children of a node run what sys.executable names. It changes nothing but
time.time and the folder of the locks.
"""

from __future__ import annotations

import runpy
import shlex
import sys
import time
from pathlib import Path


def python_elsewhere(folder: Path, clock_seconds: float = 0.0) -> Path:
    """Write the program into `folder`, which is also where its locks are."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "python"
    words = [sys.executable, __file__, program, clock_seconds, folder / "locks"]
    command = " ".join(shlex.quote(str(word)) for word in words)
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o700)
    return program


def main() -> None:
    """`PROGRAM SECONDS LOCKS -m MODULE ARGUMENTS...`, as the written program calls it."""
    program, seconds, locks, _dash_m, module, *arguments = sys.argv[1:]
    sys.executable = program
    sys.path.pop(0)  # the folder of this file
    true_time, offset = time.time, float(seconds)
    time.time = lambda: true_time() + offset
    import swarmnode.paths

    swarmnode.paths.locks_folder = lambda user: Path(locks)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
