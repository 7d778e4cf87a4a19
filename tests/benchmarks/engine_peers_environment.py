"""The environment that genrl runs in: its own, under the cache, over the project's packages.

genrl's wheel and what it imports that the project lacks are installed without their dependencies;
torch, transformers and the rest are the project's, so that all contestants compute with the same
ones. The project's own environment is left as it is.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PACKAGES = (
    "gensyn-genrl==0.3.0",
    "wandb==0.23.0",
    "sentry-sdk==2.75.0",
    "tensorboard==2.21.0",
    "absl-py==2.5.1",
)
_NAME = "genrl-0.3.0"
_INSTALLED = "installed"
_LINK = "project.pth"


class NotToBeHad(Exception):
    """genrl can't be installed here; the text is one line."""


def genrl_python(cache: Path) -> Path:
    """The interpreter that can import genrl. Raises NotToBeHad."""
    folder = cache / "benchmarks" / _NAME
    python = folder / "bin" / "python"
    done = folder / _INSTALLED
    wanted = "\n".join(PACKAGES)
    if not (done.exists() and done.read_text("utf-8") == wanted):
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        _run([str(python), "-m", "pip", "install", "-q", "--no-deps", *PACKAGES])
    # Written each time: the project may have been installed elsewhere since.
    packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    own = [each for each in sys.path if each.endswith("site-packages")]
    (packages / "site-packages" / _LINK).write_text("\n".join(own) + "\n", "utf-8")
    done.write_text(wanted, "utf-8")
    return python


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        why = said[-1] if said else "no reason given"
        raise NotToBeHad(f"genrl 0.3.0 can't be had here, so it is left out: {why}") from error
