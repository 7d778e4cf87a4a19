"""The package of docs/extend.md: installed as anybody would, tested by itself, run in a swarm."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import swarmnode
import swarmproto

ROOT = Path(swarmnode.__file__).parent.parent
EXAMPLE = ROOT / "docs" / "examples" / "letters"
SMALL = (
    "policy.warm_start.base_steps=150",
    "policy.warm_start.steps=0",
    "simulation.hosts=1",
    "evaluation.questions_per_task=10",
)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the package installed by pip, offline, beside what is here already."""
    folder = tmp_path_factory.mktemp("environment")
    source = shutil.copytree(EXAMPLE, folder / "letters")
    packages = folder / "packages"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
    subprocess.run(
        [*pip, "--no-build-isolation", "--target", str(packages), str(source)], check=True
    )
    # The scorer is started without the environment, so that PYTHONPATH would not reach it.
    made = [sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")]
    subprocess.run(made, check=True)
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    # An editable installation is found by a hook that another environment doesn't have.
    ours = [str(ROOT), str(Path(swarmproto.__file__).parent.parent)]
    found = [str(packages), *ours, *filter(os.path.isdir, sys.path)]
    (site / "beside.pth").write_text("\n".join(found))
    return folder / "venv" / "bin" / "python"


def test_the_package_passes_its_own_tests_from_its_own_folder(python: Path) -> None:
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=python.parents[2] / "letters",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


@pytest.mark.timeout(400)  # twelve seconds of a processor, which a busy machine may not have
def test_a_swarm_trains_with_the_packages_task_filter_and_reward(
    python: Path, tmp_path: Path
) -> None:
    command = [str(python), "-m", "swarmnode", "simulate", "--config", str(EXAMPLE / "node.toml")]
    small = [word for each in SMALL for word in ("--set", each)]
    sizes = ["--nodes", "2", "--rounds", "4", "--mix", "4/2", "--seed", "1"]
    done = subprocess.run(
        [*command, *sizes, *small, "--out", str(tmp_path / "out")],
        env={**os.environ, "SWARMNODE_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (rows,) = (tmp_path / "out").rglob("rounds.jsonl")
    rounds = [json.loads(line) for line in rows.read_text().splitlines()]
    trained = [row for row in rounds if row["round"]]
    assert len(trained) == 2 * 4
    assert {task for row in trained for task in row["reward/local"]} == {"letter_order"}
    metrics = [row["metrics"] for row in trained]
    assert any(each["channels/std/few-commas"] > 0.0 for each in metrics)
    assert not any(each["channels/failed/few-commas"] for each in metrics)
    # Right and wrong answers by the package's verifier, and groups that its filter picked.
    assert any(each["mix/external_live_groups"] > 0.0 for each in metrics)


def test_the_page_shows_the_package_as_it_is() -> None:
    page = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```\w+\n# (docs/examples/\S+)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert {Path(path).suffix for path, _ in shown} == {".py", ".toml"}
    for path, text in shown:
        assert text in (ROOT / path).read_text(encoding="utf-8"), path
