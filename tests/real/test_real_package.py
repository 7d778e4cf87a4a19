"""What is built, in an environment of its own away from the checkout: it installs and simulates.

Asks the package index for whatever pip has not kept, two gigabytes at the first time; skipped where
it can't be had.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SMALL = (
    *("--nodes", "2", "--rounds", "2", "--set", 'tasks.names=["basic_arithmetic"]'),
    *("--set", "policy.warm_start.base_steps=2", "--set", "policy.warm_start.steps=1"),
    *("--set", "policy.max_new_tokens=8", "--set", "evaluation.questions_per_task=2"),
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(3000)]


def run(*command: str | Path, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """As a stranger: nothing of this checkout and of this environment is found."""
    kept = {"PATH", "HOME", "LANG", "PIP_CERT", "PIP_FIND_LINKS", "PIP_INDEX_URL", "SSL_CERT_FILE"}
    environment = {name: value for name, value in os.environ.items() if name in kept} | more
    words = [str(each) for each in command]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist."""
    folder = tmp_path_factory.mktemp("built")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean environment with what the locks have, and nothing of ours."""
    folder = tmp_path_factory.mktemp("elsewhere")
    program = Path(sys.base_prefix) / "bin" / "python3.11"
    assert run(program, "-m", "venv", folder / "venv", folder=folder).returncode == 0
    pip = (folder / "venv" / "bin" / "pip", "install", "-q", "--require-hashes", "--no-deps")
    for lock in ("building", "torch-cpu", "node"):
        wanted = ROOT / "locks" / f"{lock}.txt"
        done = run(*pip, "--no-build-isolation", "-r", wanted, folder=folder)
        if done.returncode and lock != "torch-cpu":  # else the index's own build, of node.txt
            pytest.skip(f"what {wanted.name} names can't be had: {done.stderr[-300:]}")
    return folder


@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"], ids=["wheel", "sdist"])
def test_what_is_built_installs_and_simulates_away_from_the_checkout(
    kind: str, built: Path, environment: Path
) -> None:
    (archive,) = built.glob(kind)
    bin_folder = environment / "venv" / "bin"
    pip = (bin_folder / "pip", "install", "-q", "--no-deps", "--no-build-isolation")
    done = run(*pip, "--force-reinstall", archive, folder=environment)
    assert done.returncode == 0, done.stderr
    where = run(
        bin_folder / "python", "-c", "import swarmnode; print(swarmnode.__file__)",
        folder=environment,
    )  # fmt: skip
    assert Path(where.stdout.strip()).is_relative_to(environment), where.stderr
    check = run(bin_folder / "pip", "check", folder=environment)
    assert check.returncode == 0, check.stdout
    home = {"SWARMNODE_HOME": str(environment / f"home-{archive.suffix}")}
    out = environment / f"out{archive.suffix}"
    done = run(
        bin_folder / "swarmnode", "simulate", *SMALL, "--out", out, folder=environment, **home
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout[-600:])
    lines = [line for each in out.rglob("rounds.jsonl") for line in each.read_text().splitlines()]
    assert len(lines) == 6, "two nodes, before the first round and two rounds each"
