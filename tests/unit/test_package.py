"""The built wheel, outside the checkout: each entry imports, and brings only what it may."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
HEAVY = ("torch", "transformers", "reasoning_gym", "matplotlib", "hivemind", "libp2p")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def run_outside(installed: Path, code: str) -> subprocess.CompletedProcess[str]:
    # Without the site module no .pth file is read, so the editable checkout stays unknown.
    packages = sysconfig.get_paths()["purelib"]
    return subprocess.run(
        [sys.executable, "-S", "-W", "error", "-c", code],
        cwd=installed.parent,
        env={"PYTHONPATH": f"{installed}:{packages}"},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("entry", "forbidden"),
    [
        ("swarmproto", (*HEAVY, "swarmnode", "numpy", "pydantic")),
        ("swarmnode.cli", (*HEAVY, "pydantic", "rich")),
        ("swarmnode.sim.study", HEAVY),
        ("swarmnode.node", HEAVY),
        ("swarmnode.policy.client", HEAVY),
        ("swarmnode.rewards.client", HEAVY),
        ("swarmnode.scoring", ("torch", "transformers", "matplotlib", "hivemind", "libp2p")),
        ("swarmnode.worker", ("reasoning_gym", "matplotlib", "hivemind", "libp2p")),
    ],
)
def test_an_entry_of_the_wheel_brings_only_what_it_may(
    installed: Path, entry: str, forbidden: tuple[str, ...]
) -> None:
    done = run_outside(
        installed,
        f"import sys, {entry}\n"
        f"print(sys.modules[{entry!r}].__file__)\n"
        f"print(*[name for name in {forbidden!r} if name in sys.modules])",
    )
    assert done.returncode == 0, done.stderr
    where, brought = done.stdout.splitlines()
    assert Path(where).is_relative_to(installed)
    assert brought == ""


def test_the_wheel_holds_both_packages_with_their_data_and_nothing_else(installed: Path) -> None:
    top = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert top == {"swarmnode", "swarmproto"}
    assert (installed / "swarmnode" / "policy" / "vocabulary.json").exists()
    assert (installed / "swarmproto" / "py.typed").exists()


def test_help_costs_little_more_than_starting_python(installed: Path) -> None:
    code = (
        "import resource, sys\n"
        "def spent():\n"
        "    usage = resource.getrusage(resource.RUSAGE_SELF)\n"
        "    return usage.ru_utime + usage.ru_stime\n"
        "before = spent()\n"
        "sys.argv = ['swarmnode', '--help']\n"
        "from swarmnode.cli import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as done:\n"
        "    assert done.code == 0\n"
        "print(spent() - before)"
    )
    costs = [float(run_outside(installed, code).stdout.splitlines()[-1]) for _ in range(5)]
    assert min(costs) <= 0.15
