"""A Python as if on another machine: a clock that is off, locks of its own, packages missing.

`python_elsewhere` writes a program that stands for `python`; a node started by it starts all its
processes by it, since the children of a node run what sys.executable names. It changes nothing but
time.time, the folder of the locks, and which packages are found.
"""

from __future__ import annotations

import runpy
import shlex
import sys
import time
from pathlib import Path
from typing import Any


def python_elsewhere(folder: Path, clock_seconds: float = 0.0, without: str = "-") -> Path:
    """Write the program into `folder`, which is also where its locks are.

    The package `without` is not installed there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "python"
    words = [sys.executable, __file__, program, clock_seconds, folder / "locks", without]
    command = " ".join(shlex.quote(str(word)) for word in words)
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o700)
    return program


class Without:
    """A finder of modules to which one package does not exist."""

    def __init__(self, finder: Any, package: str) -> None:
        self._finder = finder
        self._package = package

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """See importlib."""
        if name.partition(".")[0] == self._package:
            return None
        return self._finder.find_spec(name, path, target)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


def main() -> None:
    """`PROGRAM SECONDS LOCKS WITHOUT -m MODULE ARGUMENTS...`, as the written program calls it."""
    program, seconds, locks, without, _dash_m, module, *arguments = sys.argv[1:]
    sys.executable = program
    sys.path.pop(0)  # the folder of this file
    sys.meta_path[:] = [Without(finder, without) for finder in sys.meta_path]
    true_time, offset = time.time, float(seconds)
    time.time = lambda: true_time() + offset
    import swarmnode.paths

    swarmnode.paths.locks_folder = lambda user: Path(locks)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
