"""Help, completion and the weight of both: what a person meets before anything is started."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from swarmnode.cli import _Commands, app, main

HEAVY = ("torch", "transformers", "numpy", "pydantic", "cryptography", "hivemind", "uvloop", "rich")
MOST_SECONDS = 0.15
"""Of processor time, that help takes beyond starting Python."""
TRIES = 12


def lines() -> Iterator[list[str]]:
    """Every command, as it is typed."""

    def visit(path: list[str], command: object) -> Iterator[list[str]]:
        yield path
        for name, child in getattr(command, "commands", {}).items():
            yield from visit([*path, name], child)

    yield from visit([], typer.main.get_command(app))


def groups() -> Iterator[list[str]]:
    """Lines that others go on from."""
    every = list(lines())
    return (each for each in every if any(each == other[:-1] for other in every if other))


def called(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["swarmnode", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    return int(caught.value.code or 0)


@pytest.mark.parametrize("line", list(lines()), ids=" ".join)
def test_every_command_has_help(
    line: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(monkeypatch, *line, "--help") == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(f"Usage: {' '.join(['swarmnode', *line])} ")
    assert shown.err == ""
    assert not re.search(r"^ +-.*list\[", shown.out, re.MULTILINE), "what an option takes, in words"
    assert "[[" not in shown.out


@pytest.mark.parametrize("line", list(groups()), ids=str)
def test_without_a_command_the_help_is_shown_and_all_is_well(
    line: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(monkeypatch, *line) == 0
    bare = capsys.readouterr()
    assert called(monkeypatch, *line, "--help") == 0
    assert bare == capsys.readouterr()
    assert "Commands:" in bare.out


@pytest.mark.parametrize("name", list(_Commands.ENTRIES))
def test_the_summary_of_a_command_is_the_first_line_of_its_help(name: str) -> None:
    command = _Commands(name="swarmnode").commands[name]
    assert _Commands.ENTRIES[name].summary == (command.help or "").splitlines()[0]


def processor_seconds(*arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("line", ["", "status", "rollouts", "swarm new", "config show"])
def test_help_takes_little_of_a_processor(line: str) -> None:
    # Whatever else the machine does only adds: the least of a few tries is what the help takes.
    bare, least = 1.0, 1.0
    for _ in range(TRIES):
        bare = min(bare, processor_seconds("-c", "pass"))
        least = min(least, processor_seconds("-m", "swarmnode", *line.split(), "--help"))
        if least - bare <= MOST_SECONDS:
            return
    pytest.fail(f"{least - bare:.3f} s more than Python alone")


@pytest.mark.parametrize(
    "line", ["", "run", "status", "rollouts", "swarm new", "reward-model train"]
)
def test_help_loads_nothing_heavy(line: str) -> None:
    code = (
        f"import sys; sys.argv = ['swarmnode', *{line.split()!r}, '--help']\n"
        "from swarmnode.cli import main\n"
        "try: main()\n"
        f"finally: sys.stderr.write(','.join(sys.modules.keys() & {{*{HEAVY!r}}}))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stderr == ""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Where `swarmnode` is a program, and its home knows two swarms."""
    program = tmp_path / "bin" / "swarmnode"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m swarmnode "$@"\n')
    program.chmod(0o755)
    home = tmp_path / "home"
    (home / "swarms").mkdir(parents=True)
    for name in ("friends", "family"):
        (home / "swarms" / f"{name}.toml").touch()
    path = f"{program.parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "SWARMNODE_HOME": str(home)}


CASES = [
    ("ro", ["rollouts"]),
    ("rollouts --su", ["--success"]),
    ("rollouts --success ", ["all", "some", "none"]),
    ("swarm le", ["leave"]),
    ("swarm leave f", ["family", "friends"]),
    ("run fr", ["friends"]),
    ("completion ", ["bash", "zsh", "fish"]),
]


@pytest.mark.parametrize(("typed", "offered"), CASES)
def test_bash_completes_what_was_typed(
    typed: str, offered: list[str], environment: dict[str, str]
) -> None:
    words = " ".join(f"'{word}'" for word in ["swarmnode", *typed.split(" ")])
    script = (
        'eval "$(swarmnode completion bash)"\n'
        f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        "f=$(complete -p swarmnode | sed 's/.*-F \\([^ ]*\\).*/\\1/'); $f swarmnode\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert done.stdout.split() == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_what_other_shells_are_told_has_the_same_words(
    shell: str, environment: dict[str, str]
) -> None:
    for typed, offered in CASES:
        asked = {
            **environment,
            "_SWARMNODE_COMPLETE": f"complete_{shell}",
            "_TYPER_COMPLETE_ARGS": f"swarmnode {typed}",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }
        done = subprocess.run(["swarmnode"], env=asked, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        assert all(word in done.stdout for word in offered), typed


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_takes_the_script(shell: str, environment: dict[str, str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    written = subprocess.run(
        ["swarmnode", "completion", shell], env=environment, capture_output=True, text=True
    )
    assert written.returncode == 0
    taken = subprocess.run(
        [shell, "-n"], input=written.stdout, capture_output=True, text=True, check=False
    )
    assert (taken.returncode, taken.stderr) == (0, "")
