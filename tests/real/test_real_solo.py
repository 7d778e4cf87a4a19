"""A node without a swarm is a trainer: it ends after its rounds, goes on, is examined and exported.

Real processes, as a person would start them; the exported folder is read by a program that knows
nothing of ours.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from safetensors.torch import load_file

from swarmnode.home import Home
from swarmnode.hosted_policy import HostedPolicy
from swarmnode.policy.described import describe
from swarmnode.policy.weights import weights_digest
from swarmnode.reports import report_from_json
from swarmnode.sim.real import real_environment
from swarmnode.store.reading import stored_bundles, stored_rounds
from tests.real.real_support import (
    QUICK,
    adopting,
    orphans,
    patience,
    quick_settings,
    until,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(1200)]

TASKS = ("basic_arithmetic", "fraction_simplification")
SETTINGS = (
    *QUICK,
    # Enough that some answers are right, and so many that every few rounds have a live group.
    "policy.warm_start.base_steps=250",
    "rounds.local_groups_per_round=12",
    "evaluation.questions_per_task=10",
    "daemon.sample_seconds=0",
)
RUN = (
    "run",
    "--solo",
    "--out",
    "trained",
    *(word for each in SETTINGS for word in ("--set", each)),
)
READING = """
import json, sys
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, questions = sys.argv[1], json.loads(sys.argv[2])
assert not [name for name in sys.modules if name.startswith("swarm")]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder)
for question in questions:
    chat = [{"role": "user", "content": question}]
    asked = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt")
    answered = model.generate(**asked, max_new_tokens=8)[0, asked["input_ids"].shape[1] :]
    print(json.dumps(tokenizer.decode(answered, skip_special_tokens=True)))
"""
QUESTIONS = ["Calculate 23 + 45.", "Calculate 78 - 33.", "Calculate 11 + 12."]


class Here:
    """A folder in which commands are given."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = Home(folder / "trained")
        self.environment = real_environment(
            {**os.environ, "SWARMNODE_HOME": str(folder / "no-home")}, folder / "cache"
        )

    def start(self, *arguments: str, largest_file_bytes: int = 0) -> subprocess.Popen[str]:
        """`largest_file_bytes` stands for a full disk."""

        def limit() -> None:
            if largest_file_bytes:
                limits = (largest_file_bytes, largest_file_bytes)
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)

        return subprocess.Popen(
            [sys.executable, "-m", "swarmnode", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=limit,
        )

    def said(self, *arguments: str) -> tuple[str, str]:
        """What a command that succeeds writes to its streams."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=patience(180))
        assert process.returncode == 0, err
        return out, err

    def rounds(self) -> list[int]:
        return sorted(each.number for each in stored_rounds(self.home.database))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Here:
    return Here(tmp_path_factory.mktemp("solo"))


def checkpoints(here: Here) -> Sequence[Path]:
    return sorted(here.home.checkpoints.glob("step-*"), key=lambda each: int(each.name[5:]))


def test_it_ends_after_its_rounds_with_a_checkpoint_and_no_network(here: Here) -> None:
    with adopting() as known:
        process = here.start(*RUN, "--rounds", "3")
        seen: set[str] = set()

        def ended() -> bool:
            for child in psutil.Process(process.pid).children(recursive=True):
                try:
                    seen.add(" ".join(child.cmdline()[:3]))
                except psutil.Error:
                    continue
            return process.poll() is not None

        until(ended, patience(180), "the run has ended", 0.1)
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert not orphans(known)
    assert {"swarmnode.worker", "swarmnode.scoring"} <= {each.split()[-1] for each in seen if each}
    assert not [each for each in seen if "network" in each or "p2pd" in each]
    assert here.rounds() == [0, 1, 2, 3]
    assert len(checkpoints(here)) == 1
    assert "round 0 to 3, 20 questions of 2 tasks" in out
    assert err.count(" answers ") == 3
    assert not (here.folder / "no-home").exists()
    assert not stored_bundles(here.home.database, 10)


def test_the_same_command_goes_on(here: Here) -> None:
    before = describe(checkpoints(here)[-1])
    _, err = here.said(*RUN, "--rounds", "6")
    assert f"version={before.version}" in err
    assert here.rounds() == list(range(7))
    newest = describe(checkpoints(here)[-1])
    assert newest.version > before.version
    assert newest.extra["round"] == 6


def test_a_run_that_is_finished_says_so_and_writes_nothing(here: Here) -> None:
    written = checkpoints(here)
    out, _ = here.said(*RUN, "--rounds", "6")
    assert "round 0 to 6, 20 questions of 2 tasks" in out
    assert checkpoints(here) == written
    assert here.rounds() == list(range(7))


def test_a_run_whose_checkpoint_finds_no_room_says_what_is_lost(here: Here) -> None:
    untaught = ("policy.warm_start.base_steps=0", "policy.warm_start.steps=0")
    process = here.start(
        *("run", "--solo", "--out", "full", "--rounds", "1", *RUN[4:]),
        *(word for each in untaught for word in ("--set", each)),
        largest_file_bytes=1 << 18,
    )
    _, err = process.communicate(timeout=patience(180))
    assert process.returncode == 1, err
    last = err.splitlines()[-1]
    assert last.startswith("swarmnode: what was learned last is lost: ")
    assert "File too large" in last


def test_it_is_examined_beside_its_start(here: Here) -> None:
    out, _ = here.said("eval", "trained", "--questions", "10", "--samples", "4", "--json")
    told = json.loads(out)
    assert told["checkpoint"]["round"] == 6
    assert list(told["tasks"]) == list(TASKS)
    assert {*told["mean"]} == {"pass@1", "pass@2", "pass@4", "greedy"}
    # The greedy answers at the start are those of the run's own evaluation: it is the same start.
    evaluated = {
        each.number: report_from_json(each.report).evaluation
        for each in stored_rounds(here.home.database)
    }
    for name, evaluation in (("start", evaluated[0]), ("now", evaluated[6])):
        assert evaluation
        for task, success in evaluation.held_out_greedy.by_task.items():
            assert told["tasks"][task]["greedy"][name]["mean"] == pytest.approx(success)
    table, _ = here.said("eval", "trained", "--questions", "2", "--samples", "1")
    assert "beside the start of its run" in table


def test_the_exported_model_answers_as_the_node_does(here: Here) -> None:
    here.said("export", "model", "trained", "--out", "model")
    read = subprocess.run(
        [sys.executable, "-c", READING, str(here.folder / "model"), json.dumps(QUESTIONS)],
        cwd=here.folder,
        capture_output=True,
        text=True,
        timeout=patience(120),
        check=True,
    )
    theirs = [json.loads(line) for line in read.stdout.splitlines()]
    settings = quick_settings()
    node = HostedPolicy(
        {
            "policy": {
                **settings.policy.model_dump(),
                "warm_start": {"base_steps": 0, "steps": 0},
            },
            "training": settings.training.model_dump(),
            "channels": settings.rewards.channels.model_dump(),
            "log_prob_gate": settings.selection.log_prob_gate.model_dump(),
            "seed": 0,
            "sampling_seed": 0,
            "shared_seed": 0,
            "base_pairs": [],
            "skill_pairs": [],
            "cache_folder": None,
            "examples": {},
        }
    )
    node.open(str(checkpoints(here)[-1]))
    ours = [text for text, _, _, _ in node.answer(QUESTIONS, greedy=True, seed=0)]
    assert theirs == ours
    assert any(ours)


def test_a_seed_makes_the_same_run_again_and_another_one_does_not(here: Here) -> None:
    digests = []
    for out, seed in (("one", "3"), ("again", "3"), ("other", "4")):
        here.said(*RUN, "--out", out, "--seed", seed, "--rounds", "2")
        newest = max(Home(here.folder / out).checkpoints.glob("step-*"))
        # Of the values: the file's own metadata comes in any order.
        digests.append(weights_digest(load_file(newest / "model.safetensors")))
    assert digests[0] == digests[1] != digests[2]
