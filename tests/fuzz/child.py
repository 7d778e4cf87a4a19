"""One target under atheris: `python -m tests.fuzz.child TARGET FOLDER [libFuzzer options]`.

A process of its own, since libFuzzer ends the process that it runs in. FOLDER gets the inputs that
reach something new.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["swarmproto", "swarmnode"]):
    from tests.fuzz.seeds import seeds
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Never returns."""
    name, folder, *options = sys.argv[1:]
    for number, data in enumerate(seeds(name)):
        (Path(folder) / f"seed-{number}").write_bytes(data)
    atheris.Setup([sys.argv[0], folder, *options], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
