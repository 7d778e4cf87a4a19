"""The commands that the pages show, and what holds each of them.

A command is a line of a fenced block without a language whose first line is one. Each is either
run by tests/unit/test_page_commands.py, or named here with the test that runs it, or with the
reason why none can.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
PAGES: Final = sorted(
    [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "protocol" / "README.md"]
)
ANY_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
PROGRAMS: Final = re.compile(
    r"(?:\S*/)?(swarmnode|python|pip|torchrun|ray|hf)"
    r"|make|git|cd|cp|mkdir|sed|sudo|docker|apt-get|useradd|systemctl|loginctl|launchctl|curl"
)
ASSIGNED: Final = re.compile(r"[A-Z_]+=\S+")


class Shown(NamedTuple):
    """A command of a page."""

    page: str
    line: str
    """As one line, without prompt and comment."""

    @property
    def parts(self) -> list[list[str]]:
        """The words of each program that it runs, without what sets a user or the environment."""
        return [bare(shlex.split(part)) for part in self.line.split(" && ")]


class Held(NamedTuple):
    """What holds the commands of a form."""

    form: str
    """A regular expression that the whole command has."""
    why: str
    """What the tests do, or why none can do it."""
    tests: tuple[str, ...] = ()
    """Files of tests/, each with a function if the file has others too."""


def commands(page: Path) -> Iterator[Shown]:
    """The commands of a page, in its order."""
    name = page.relative_to(ROOT).as_posix()
    for language, text in ANY_BLOCK.findall(page.read_text(encoding="utf-8")):
        lines = re.sub(r"\s*\\\n\s*", " ", text).splitlines()
        prompted = [line[2:] for line in lines if line.startswith("$ ")]
        if language not in ("", "sh", "bash") or not lines:
            continue
        if prompted or is_command(lines[0]):
            for line in prompted or filter(is_command, lines):
                yield Shown(name, re.split(r"\s+# ", line)[0].strip())


def is_command(line: str) -> bool:
    """Whether a line begins with a program that the pages use, whoever runs it."""
    words = line.split()
    while words and ASSIGNED.fullmatch(words[0]):
        words = words[1:]
    return bool(words) and PROGRAMS.fullmatch(words[0]) is not None


def bare(words: list[str]) -> list[str]:
    """The words without sudo and without variables."""
    while words and (words[0] == "sudo" or ASSIGNED.fullmatch(words[0])):
        words = words[3:] if words[:2] == ["sudo", "-u"] else words[1:]
    return words


RUN: Final = (
    r"swarmnode swarm new friends( --\S+ \S+| --private)*",
    r"swarmnode swarm join friends\.toml",
    r"swarmnode config (paths|show|check|init)\b.*",
)
"""Forms of commands that the test runs, each in a home and a folder of its own."""

ALONE = "a node alone, in tests/real"
HELD: Final = (
    Held("git clone .*|cd swarmnode", "what a reader has done who reads this here"),
    Held("make demo", "its figures and times", ("real/test_demo.py",)),
    Held("make test|make install|(sudo )?make install", "what .ci/run does anew each time"),
    Held("make bench .*", "studies of hours; their parts", ("unit/test_engine_benchmark.py",)),
    Held(
        r"swarmnode run( --lan| friends(\.toml)?| /ip4/\S+)( --\S+ \S+)*|swarmnode run",
        "nodes that find each other",
        ("real/test_real_swarm.py", "real/test_real_lan.py", "real/test_real_addresses.py"),
    ),
    Held(r"swarmnode run( --(task|mix|rounds) \S+)+", ALONE, ("real/test_real_alone.py",)),
    Held(
        r"swarmnode run( --set training\.\S+)+", "the presets", ("unit/test_training_presets.py",)
    ),
    Held(
        r"swarmnode run --solo.*--mode split.*|swarmnode run --mode split|torchrun .*",
        "several processes; the settings of each line are read here",
        ("real/test_real_split.py", "real/test_real_elsewhere.py"),
    ),
    Held(
        r"swarmnode run --solo .*tensorboard.*|pip install 'swarmnode-rl\[\w+\]'",
        "trackers with a node; pip would ask the package index",
        ("real/test_real_trackers.py",),
    ),
    Held(
        r"swarmnode run --solo.*", "a run alone, from start to export", ("real/test_real_solo.py",)
    ),
    Held(
        r"swarmnode (eval|compare|export model) .*",
        "checkpoints that a test has trained",
        ("unit/test_exam.py", "unit/test_compare.py", "unit/test_export.py"),
    ),
    Held(
        r"swarmnode (rollouts|export rollouts)\b.*",
        "a store that a test has filled",
        ("unit/test_rollouts.py", "unit/test_export.py"),
    ),
    Held(r"swarmnode (status|logs)\b.*", "a node that answers", ("unit/test_cli_status.py",)),
    Held(r"swarmnode doctor --bootstrap .*", "an address nobody has", ("unit/test_doctor.py",)),
    Held(r"swarmnode bootstrap friends.*", "bootstrap peers", ("real/test_real_swarm.py",)),
    Held(r"swarmnode simulate --attack .*", "each attack", ("unit/test_attacks_page.py",)),
    Held(
        r"swarmnode simulate --cluster ray.*|ray .*|swarmnode generate .*",
        "a Ray of its own, and generators that call home",
        ("real/test_real_cluster.py", "real/test_real_placed.py", "unit/test_remote_generators.py"),
    ),
    Held(
        r"swarmnode simulate --config docs/examples/.*|swarmnode (swarm new|run) spellers .*"
        r"|python -m pip install .* docs/examples/letters|cd docs/examples/letters && .*pytest",
        "the example's package, installed for it",
        ("unit/test_example_package.py",),
    ),
    Held(
        r"swarmnode simulate.*",
        "simulations take minutes; shorter ones",
        ("real/test_demo.py", "real/test_real_schedulers.py", "sim/test_simulation.py"),
    ),
    Held(r"swarmnode pretrain .*", "smaller texts", ("unit/test_pretraining.py",)),
    Held(r"swarmnode reward-model train .*", "a few pairs", ("unit/test_reward_model_cli.py",)),
    Held(r"swarmnode push .*|hf auth login", "a hub on loopback", ("unit/test_push.py",)),
    Held(
        r"docker .*|(sudo )?(useradd|systemctl|journalctl|apt-get) .*|cp (-r \.|docker/systemd/).*",
        "the same steps in a fresh Debian, by hand as root",
        ("real/container.py",),
    ),
    Held(
        r"mkdir -p ~/\.config/systemd.*|sudo git clone .*|sudo -u swarmnode .*",
        "a server of the reader's; the units are looked at",
        ("unit/test_docker.py",),
    ),
    Held(
        r"systemctl --user .*|loginctl .*|launchctl .*|sed .*launchd.*",
        "a user's session or a Mac, which are not here; the files are looked at",
        ("unit/test_docker.py",),
    ),
    Held(r"python -m tests\.\S+.*", "benchmarks of hours; the module is there"),
    Held(r"python -m pytest .*", "tests of tests/, named by folder"),
)
"""What holds the others, the first that fits."""


def form_of(command: Shown) -> str:
    """The command as the forms have it: programs without their folder."""
    return re.sub(r"(?<!\S)\S*/(?=(swarmnode|python|pip)( |$))", "", command.line)


def held_by(command: Shown) -> Held | None:
    """What holds a command; None where nothing does."""
    form = re.sub(r"^([A-Z_]+=\S+ )+", "", form_of(command))
    return next((each for each in HELD if re.fullmatch(each.form, form)), None)


def is_run(command: Shown) -> bool:
    """Whether the test runs it."""
    form = re.sub(r"^([A-Z_]+=\S+ )+", "", form_of(command))
    return any(re.fullmatch(each, form) for each in RUN)
