"""`python -m tests.real.newcomer FOLDER`: the README's first commands on a fresh machine, timed.

Needs root, debootstrap and systemd-nspawn (systemd-container), 6 GB in FOLDER, and ten minutes.
debootstrap makes a Debian 12, which gets what a newcomer has (git, make, sudo and an account) and
nothing of ours. In it, as that account: the commands of README.md up to a training node, the
installation first without what it needs, so that its error has to name the command that helps.
From outside, by the loopback that both share: the dashboard at the address that the node printed.
What differs from a newcomer's machine: the clone comes from this checkout, and pip is told where
packages are as it is here.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.real.fresh_debian import make_debian, pip_paths, pip_settings, run, say

ROOT: Final = Path(__file__).parent.parent.parent
OWNED: Final = "git make sudo ca-certificates"
SOURCE: Final = "/source"
CHECKOUT: Final = "/home/newcomer/swarmnode"
COMMANDS: Final = (
    "git clone URL swarmnode && cd swarmnode",
    "make demo",
    ".venv/bin/swarmnode run",
)
"""As the first two sections of the README have them."""
DASHBOARD: Final = re.compile(r"dashboard  (http://\S+)")
WAIT_SECONDS: Final = 300.0


class Machine:
    """A fresh Debian with an account for a newcomer."""

    def __init__(self, folder: Path) -> None:
        self._base = folder.absolute() / "base"
        self._root = folder.absolute() / "newcomer"
        self._source = folder.absolute() / "source.git"

    def make(self) -> None:
        """Anew, whatever was there."""
        make_debian(self._base)
        say(f"a machine with {OWNED}")
        run("rm", "-rf", self._root, self._source)
        run("git", "clone", "-q", "--bare", ROOT, self._source)
        run("cp", "-a", self._base, self._root)
        (self._root / "etc" / "pip.conf").write_text(pip_settings())
        self.run("apt-get update -q && apt-get install -y -q --no-install-recommends " + OWNED)
        self.run("useradd --create-home --shell /bin/bash newcomer")
        self.run("echo 'newcomer ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/newcomer")
        self.run(f"git config --system --add safe.directory '{SOURCE}'")

    def run(self, command: str) -> None:
        """As root; raises AssertionError with what it printed if it fails."""
        self._done("root", "/", command)

    def did(self, command: str, folder: str = CHECKOUT) -> str:
        """As the newcomer; raises AssertionError if it fails. Returns what it printed."""
        return self._done("newcomer", folder, command)

    def refused(self, command: str) -> str:
        """As the newcomer; raises AssertionError unless it fails. Returns what it printed."""
        return self._done("newcomer", CHECKOUT, command, fails=True)

    def _done(self, user: str, folder: str, command: str, *, fails: bool = False) -> str:
        done = subprocess.run(
            [*self._words(user, folder), "sh", "-c", f"{{ {command}; }} 2>&1"],
            stdout=subprocess.PIPE,
            # systemd-nspawn's own, about its folders.
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        assert (done.returncode != 0) == fails, f"{command}: {done.returncode}\n{done.stdout}"
        return done.stdout.strip()

    @contextmanager
    def running(self, command: str) -> Iterator[subprocess.Popen[str]]:
        """As the newcomer, until the end of the block; its output is a pipe."""
        process = subprocess.Popen(
            [*self._words("newcomer", CHECKOUT), "sh", "-c", f"exec {command} 2>&1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)

    def _words(self, user: str, folder: str) -> list[str]:
        mounts = [f"--bind-ro={here}:{there}" for there, here in pip_paths().items()]
        return [
            *("systemd-nspawn", "-q", "--register=no", "--keep-unit", "--pipe"),
            *("-D", str(self._root), f"--bind-ro={self._source}:{SOURCE}", *mounts),
            *(f"--user={user}", f"--chdir={folder}", "--kill-signal=SIGTERM"),
        ]


class Watch:
    """Seconds by step."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, float]] = []

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Times the block."""
        say(name)
        began = time.monotonic()
        yield
        self.steps.append((name, time.monotonic() - began))


def walk(machine: Machine, watch: Watch) -> None:
    """The README's path; raises AssertionError where a step does not hold."""
    readme = (ROOT / "README.md").read_text("utf-8")
    clone, install, start = COMMANDS
    for command in COMMANDS:
        assert f"\n{command}\n" in readme, f"the README does not say: {command}"
    with watch.step("git clone"):
        machine.did(clone.replace("URL", SOURCE), "/home/newcomer")
    refusal = machine.refused(install)
    say(f"{install}, nothing prepared: {refusal.splitlines()[0]}")
    assert "run 'make system'" in refusal
    with watch.step("make system, and what it says"):
        machine.did(machine.did("make system"))
    with watch.step("make install"):
        machine.did("make install")
    with watch.step(install):
        say(machine.did(install).splitlines()[-1])
    with machine.running(start) as node, watch.step(f"{start}, to its first round"):
        assert "<h1" in _page(_until(node, DASHBOARD)[1])
        _until(node, re.compile(r"round  number=1 "))
    machine.refused(".venv/bin/swarmnode doctor --quick")


def _until(node: subprocess.Popen[str], wanted: re.Pattern[str]) -> re.Match[str]:
    end = time.monotonic() + WAIT_SECONDS
    assert node.stdout is not None
    for line in node.stdout:
        if found := wanted.search(line):
            return found
        assert time.monotonic() < end, line
    raise AssertionError("the node ended")


def _page(address: str) -> str:
    with urllib.request.urlopen(address, timeout=30) as answer:
        text: str = answer.read().decode()
    return text


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code."""
    if len(arguments) != 1:
        print("python -m tests.real.newcomer takes a folder with 6 GB of room")
        return 2
    machine, watch = Machine(Path(arguments[0])), Watch()
    machine.make()
    walk(machine, watch)
    for name, seconds in watch.steps:
        print(f"{seconds:7.0f} s  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
