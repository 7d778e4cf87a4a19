"""A target with a fault behind three comparisons, which blind chance would need years to pass."""

from __future__ import annotations

import sys
from pathlib import Path

import atheris


@atheris.instrument_func  # type: ignore[untyped-decorator]
def faulty(data: bytes) -> None:
    """Raises for what begins with four bytes of ours."""
    if len(data) < 4 or data[0] != 0xC7:
        return
    if data[1] != 0x31:
        return
    if data[2] == 0x9A and data[3] == 0x05:
        raise RuntimeError("the planted fault")


if __name__ == "__main__":
    _, folder, *options = sys.argv[1:]
    (Path(folder) / "seed").write_bytes(b"\x00")
    atheris.Setup([sys.argv[0], folder, *options], faulty)
    atheris.Fuzz()
