"""p2pd is started only where it is byte for byte the one of the pinned wheel."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from swarmnode.cli.exits import Exit
from swarmnode.network import p2pd_binary
from swarmnode.network.p2pd import Daemon
from swarmnode.network.p2pd_binary import find_p2pd, problem_of
from swarmnode.network.ports import StartFailed
from swarmnode.paths import HOME_VARIABLE
from tests.unit.dht_support import order

SAYS_WHICH_P2PD = """
import sys
from pathlib import Path
from swarmnode.network import p2pd_binary
path = Path(sys.argv[1])
p2pd_binary.find_p2pd = lambda: path
sys.argv = ["swarmnode", *sys.argv[2:]]
from swarmnode.cli import main
main()
"""


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """p2pd with one bit flipped, which would still run."""
    original = find_p2pd()
    assert original is not None
    path = tmp_path / "p2pd"
    shutil.copy(original, path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    return path


def test_the_installed_p2pd_is_the_known_one() -> None:
    assert problem_of(find_p2pd()) == ""


def test_a_p2pd_with_one_bit_changed_is_named_in_one_line_with_the_remedy(changed: Path) -> None:
    problem = problem_of(changed)
    assert "is not the p2pd of hivemind 1.1.12" in problem
    assert "pip install --force-reinstall" in problem
    assert "\n" not in problem


def test_the_network_process_starts_no_other_p2pd(
    changed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (changed, None, tmp_path / "nowhere"):
        monkeypatch.setattr(p2pd_binary, "find_p2pd", lambda path=path: path)
        with pytest.raises(StartFailed, match=r"is not the p2pd|brings no p2pd|can't be read"):
            asyncio.run(Daemon.start(order(1, tmp_path)))


@pytest.mark.parametrize("command", ["run", "bootstrap"])
def test_a_command_that_needs_it_ends_with_one_line_and_exit_code_3(
    command: str, changed: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    done = subprocess.run(
        [sys.executable, "-c", SAYS_WHICH_P2PD, str(changed), command],
        env={**os.environ, HOME_VARIABLE: str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == Exit.CONFIG, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("swarmnode: ")
    assert done.stderr.count("\n") == 1
    assert "is not started" in done.stderr
    assert not home.exists(), "it is refused before anything is made"
