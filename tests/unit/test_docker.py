"""docker/: what its files promise of the program, compared with the program."""

from __future__ import annotations

import configparser
import difflib
import plistlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from swarmnode.cli.exits import Exit
from swarmnode.service import TELL_SECONDS

ROOT = Path(__file__).parent.parent.parent
DOCKER = ROOT / "docker"
UNITS = [DOCKER / "systemd" / kind / "swarmnode.service" for kind in ("system", "user")]
DOCKERFILES = [DOCKER / "Dockerfile", DOCKER / "Dockerfile.cuda"]


def unit(path: Path) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(path.read_text("utf-8"))
    return parser["Service"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.parent.name)
def test_a_unit_waits_for_readiness_and_doesn_t_repeat_mistakes(path: Path) -> None:
    service = unit(path)
    assert service["Type"] == "notify"
    assert service["ExecStart"].endswith("bin/swarmnode run")
    assert service["Restart"] == "on-failure"
    prevented = {int(code) for code in service["RestartPreventExitStatus"].split()}
    assert prevented == {Exit.USAGE, Exit.CONFIG}
    assert float(service["WatchdogSec"]) >= 20 * TELL_SECONDS


def test_the_system_unit_leaves_what_the_scorer_is_confined_by() -> None:
    calls = unit(UNITS[0])["SystemCallFilter"].split()
    landlock = {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"}
    assert {"seccomp", *landlock} <= set(calls)
    assert unit(UNITS[0])["ReadWritePaths"] == "/tmp"


def test_systemd_has_nothing_to_say_against_the_system_unit(tmp_path: Path) -> None:
    if not (analyze := shutil.which("systemd-analyze")):
        pytest.skip("no systemd here")
    text = UNITS[0].read_text("utf-8").replace("/opt/swarmnode/bin/swarmnode", "/bin/true")
    (tmp_path / "swarmnode.service").write_text(text)
    done = subprocess.run(
        [analyze, "verify", str(tmp_path / "swarmnode.service")], capture_output=True, text=True
    )
    assert "swarmnode" not in done.stderr
    assert "ignoring" not in done.stderr


def test_launchd_s_list_is_one() -> None:
    found = plistlib.loads((DOCKER / "launchd" / "swarmnode.plist").read_bytes())
    assert found["ProgramArguments"][1:] == ["run"]
    assert found["KeepAlive"] == {"SuccessfulExit": False}


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_a_container_installs_by_hash_and_runs_as_a_user(path: Path) -> None:
    text = path.read_text("utf-8").replace("\\\n", " ")
    installs = re.findall(r"pip install (.*)", text)
    assert [each for each in installs if "--require-hashes" not in each] == [
        "--no-deps --no-build-isolation ."
    ]
    for lock in re.findall(r"locks/[\w-]+\.txt", text):
        assert (ROOT / lock).is_file()
    assert re.search(r"^USER swarmnode$", text, re.MULTILINE)
    assert '["swarmnode", "doctor", "--quick"]' in text
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE)
    ignored = path.with_name(f"{path.name}.dockerignore").read_text("utf-8").splitlines()
    wanted = {name for line in copied for name in line.split()}
    assert {f"!{name}" for name in wanted} == {line for line in ignored if line[0] == "!"}


def test_the_two_images_differ_in_torch_alone() -> None:
    one, other = (path.read_text("utf-8").splitlines() for path in DOCKERFILES)
    changed = [
        line[2:]
        for line in difflib.ndiff(one, other)
        if line[0] in "+-" and not line[2:].startswith("#")
    ]
    assert len(changed) == 3
    assert all(re.search("TORCH_INDEX|torch-cpu|cuda", line) for line in changed)
