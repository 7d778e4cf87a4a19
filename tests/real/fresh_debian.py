"""A Debian with nothing on it, for what is proven on a fresh machine. Needs debootstrap."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

PIP: Final = {"cert": "PIP_CERT", "find-links": "PIP_FIND_LINKS"}
"""What pip is told here, by the variable that tells it."""
TOLD: Final = "/opt/told"


def run(*command: str | Path, environment: Mapping[str, str] | None = None) -> str:
    """Run to its end; raises CalledProcessError. Returns what it printed."""
    done = subprocess.run(
        [str(each) for each in command],
        env={**os.environ, **(environment or {})},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout


def say(step: str) -> None:
    """A line for whoever waits."""
    print(f"{time.strftime('%H:%M:%S')}  {step}", flush=True)


def make_debian(base: Path) -> None:
    """Debian 12 with the least that it can be in the folder `base`, unless it is there."""
    if not base.exists():
        say("debootstrap")
        base.parent.mkdir(parents=True, exist_ok=True)
        run("debootstrap", "--variant=minbase", "bookworm", base)


def pip_settings() -> str:
    """A pip.conf that says what pip is told here."""
    lines = [f"{name} = {TOLD}/{name}" for name in _pip_told()]
    return "\n".join(["[global]", *lines, ""])


def pip_paths() -> Mapping[str, str]:
    """Paths of this machine by where `pip_settings` names them: not where Debian writes its own."""
    return {f"{TOLD}/{name}": path for name, path in _pip_told().items()}


def _pip_told() -> Mapping[str, str]:
    return {name: os.environ[each] for name, each in PIP.items() if each in os.environ}
