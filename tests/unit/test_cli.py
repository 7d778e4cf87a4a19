"""The command line before anything is started: every mistake is one line with its remedy."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from swarmnode.cli import main
from swarmnode.cli.opening import openness
from swarmnode.config.settings import load_settings
from swarmnode.home import Home
from swarmnode.swarm_files import load_swarm
from tests.unit.cli_support import node


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["swarmnode", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    code = caught.value.code or 0
    assert isinstance(code, int)
    return code


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--task", "base_conversoin"], 2, "did you mean 'base_conversion'"),
        (["--task", "bf:hard"], 2, "no level 'hard'; choose --task bf:paper or --task bf:easy"),
        (["--task", "gcd"], 2, "choose --task gcd:default"),
        (["--task", "n_queens"], 2, "refused"),
        (["--mix", "0/0"], 2, "take at least one group"),
        (["--mix", "four"], 2, "such as 4/4"),
        (["--mix", "²/4"], 2, "such as 4/4"),
        (["--mix", "65/0"], 2, "less than or equal to 64"),
        (["--mix", "0/8"], 2, "give --questions at least 1"),
        (["--questions", "0"], 2, "give --questions at least 1"),
        (["--compare", "8/0,65/0"], 2, "less than or equal to 64"),
        (["--compare", "4/4,8/0,4/4"], 2, "names 4/4 more than once"),
        (["--compare", "8/0,0/0"], 2, "take at least one group"),
        (["--mix", "4/4", "--compare", "8/0"], 2, "not both"),
        (["--seeds", "0"], 2, "--seeds must be 1 to"),
        (["--seeds", "1000000000"], 2, "--seeds must be 1 to"),
        (["--seed", "4294967295", "--seeds", "2"], 2, "beyond the last seed"),
        (["--filter", "best"], 2, "there are balanced, fresh"),
        (["--model", "gpt-5"], 2, "unknown model 'gpt-5'"),
        (["--skills", "juggling"], 2, "juggling is not among the tasks"),
        (["--cluster", "slurm"], 2, "simulation.cluster (from the command line)"),
        (["--cluster", "ray:head"], 2, "write it as ray, or as ray:HOST:PORT"),
        (["--cluster", "ray", "--real"], 2, "leave --real out"),
        (["--attack", "magic"], 2, "simulation.attack = 'magic'"),
        (["--attackers", "2"], 2, "--attackers needs --attack NAME"),
        (["--attack", "slow", "--attackers", "257"], 2, "less than or equal to 256"),
        (["--attack", "slow", "--real"], 2, "leave --real out"),
        (["--real", "--seeds", "2"], 2, "leave --compare and --seeds out"),
        (["--compare", "tasks.level=easy,paper"], 2, "run them one by one"),
        (["--compare", "scheduling.kind=uniform,"], 2, "write single values such as"),
        (["--attack", "loophole"], 2, "add --task propositional_logic:paper"),
        (["--nodes", "0"], 2, "simulation.nodes = 0"),
        (["--nodes", "some"], 2, "'--nodes': Input should be a valid integer"),
        (["--node", "8"], 2, "--nodes"),
        (["--config"], 2, "requires an argument"),
        (["--rounds", "0"], 2, "simulation.rounds = 0"),
        (["--set", "training.lr=1"], 2, "is no setting"),
        (["--set", "rounds.local_groups_per_round=0", "--set",
          "rounds.external_groups_per_round=0"], 2, "take at least one group"),
        (["--config", "/"], 3, "Is a directory"),
        (["--config", "absent.toml"], 3, "absent.toml cannot be read"),
        (["--out", "/proc/swarm"], 3, "choose another folder with --out"),
    ],
)  # fmt: skip
def test_a_mistake_gives_one_line_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    assert run(monkeypatch, "simulate", *arguments) == code
    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""


@pytest.mark.parametrize(
    ("assignments", "told"),
    [
        ([], ""),
        (['network.listen=["/ip4/127.0.0.1/tcp/4001", "/ip6/::1/tcp/4001"]'], ""),
        (['network.listen=["/ip4/0.0.0.0/tcp/4001"]'], "listening on /ip4/0.0.0.0/tcp/4001;"),
        (["network.public=true"], "offering itself to strangers;"),
        (["network.relay=true"], "relaying strangers' connections;"),
    ],
)
def test_what_is_open_beyond_this_machine_is_told_and_refused_nowhere(
    assignments: list[str], told: str
) -> None:
    line = openness(load_settings(assignments=assignments))
    assert line.startswith(told)
    assert bool(line) == bool(told)


ADDRESS = "/ip4/192.0.2.7/tcp/4001/p2p/12D3KooWJC2FpPvy3FA4EdmWMnLNSU6ukUgGABhkPxWscXSQYhAG"


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("run --mix four", 2, "such as 4/4"),
        ("run --mix 0/0", 2, "take at least one group"),
        ("run --mix 0/4", 2, "would ask anything"),
        ("run --set training.lr=1", 2, "is no setting"),
        ("run --config absent.toml", 3, "absent.toml cannot be read"),
        ("run --lisen x", 2, "--listen"),
        ("run friends --solo", 2, "give a swarm or --solo, not both"),
        ("run --lan --solo", 2, "give --lan or --solo, not both"),
        ("run --seed 3", 2, "--seed is for --solo"),
        ("run --out runs/first", 2, "--out is for --solo"),
        ("run --solo --out /proc/first", 3, "cannot be used"),
        ("run strangers", 3, "there are: friends"),
        ("run absent.toml", 3, "absent.toml cannot be read"),
        ("run friends --task bf:easy", 2, "does not ask bf:easy; leave --task out"),
        ("run --accept-risk", 2, "--accept-risk"),
        ("run --listen 4001", 2, "not an address to listen on: 4001 (try /ip4/"),
        ("bootstrap --listen /ip4/0.0.0.0", 2, "not an address to listen on: /ip4/0.0.0.0 (try"),
        ("bootstrap strangers", 3, "there are: friends"),
        ("bootstrap --config absent.toml", 3, "absent.toml cannot be read"),
        ("swarm new x --task base_conversoin", 2, "did you mean 'base_conversion'?"),
        ("swarm new x --task gcd:easy", 2, "has no level 'easy'; choose --task gcd:default"),
        ("swarm new x --bootstrap nonsense", 2, "is no bootstrap address; they look like"),
        ("swarm new x --out /proc/swarm.toml", 3, "/proc/swarm.toml cannot be written"),
        ("swarm join absent.toml", 3, "absent.toml cannot be read"),
        ("swarm join /", 3, "Is a directory"),
        ("swarm leave strangers", 3, "there are: friends"),
        ("swarm leave strangers --yes", 3, "there are: friends"),
        ("run --solo --mode both", 2, "policy.mode = 'both'"),
        ("run --solo --mode split --set policy.generators=0", 2, "needs a generator"),
        (
            "run --solo --set policy.remote_generators=1 "
            "--set policy.generators_address=127.0.0.1:0",
            2,
            "shared memory doesn't reach generators on other machines: set policy.weights.channel",
        ),
        (
            "run --solo --mode split --set selection.external_source=own_past",
            2,
            "own_past replays",
        ),
        ("swarm jion x", 2, "(see --help)"),
        ("key export copy", 3, "key cannot be read"),
        ("key import absent", 3, "absent cannot be read"),
        ("status", 4, "no node runs with the home"),
        ("status --json --watch", 4, "no node runs with the home"),
        ("peers", 4, "no node runs with the home"),
        ("peers --why 12D3", 4, "no node runs with the home"),
        ("rollouts", 4, "no rollouts are kept: there is no"),
        ("rollouts 7", 4, "no rollouts are kept: there is no"),
        ("rollouts --peer 12D3", 4, "no rollouts are kept: there is no"),
        ("rollouts seven", 2, "valid integer"),
        ("rollouts --success most", 2, "'--success'"),
        ("rollouts --round ten", 2, "--round ten: write a round such as 12"),
        ("rollouts --round 9-3", 2, "--round 9-3: write a round such as 12"),
        ("rollouts 7 --task bf", 2, "not both"),
        ("rollouts --hex", 2, "give --outgoing too"),
        ("rollouts --outgoing --task bf", 2, "--outgoing goes with -n and --hex alone"),
        ("rollouts --outgoing -n 101", 2, "shows 100 bundles at most"),
        ("rollouts --outgoing", 4, "nothing has left this machine"),
        ("rollouts --outgoing -n 0", 2, "greater than or equal to 1"),
        ("logs", 3, "there is no log in"),
        ("logs -n some", 2, "valid integer"),
        ("doctor --config absent.toml", 3, "absent.toml cannot be read"),
        ("doctor --load", 2, "say which model is to be loaded"),
        ("generate --of host --key k", 2, "write it as HOST:PORT"),
        ("generate --of host:1 --key k --device tpu", 2, "choose one of auto, cpu, cuda, mps"),
        ("generate --of host:1 --key k --places 2", 2, "--places needs --cluster ray:HOST:PORT"),
        ("generate --of host:1 --key k --cluster slurm", 2, "write it as ray, or as ray:HOST:PORT"),
        ("generate --of host:1 --key absent.pem", 3, "absent.pem cannot be read"),
    ],
)
def test_a_mistake_around_a_real_node_gives_one_line_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    line: str,
    code: int,
    words: str,
) -> None:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path / "home"))
    made = ["swarm", "new", "friends", "--task", "gcd:default", "--bootstrap", ADDRESS]
    assert run(monkeypatch, *made) == 0
    monkeypatch.setattr(
        "swarmnode.daemon.run", lambda *_arguments: pytest.fail("a node was started")
    )
    capsys.readouterr()
    assert run(monkeypatch, *line.split()) == code
    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""


def test_a_home_in_use_names_the_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path))
    home = Home(tmp_path)
    home.make()
    with home.lock():
        for command in ("run", "bootstrap", "key rotate"):
            assert run(monkeypatch, *command.split()) == 3
            shown = capsys.readouterr().err
            assert f"is in use by process {os.getpid()}" in shown
            assert shown.count("\n") == 1


def test_a_swarm_file_with_other_rules_than_its_id_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path))
    file = tmp_path / "friends.toml"
    assert run(monkeypatch, "swarm", "new", "friends", "--out", str(file)) == 0
    file.write_text(file.read_text().replace("completions_max = 64", "completions_max = 32"))
    capsys.readouterr()
    assert run(monkeypatch, "swarm", "join", str(file)) == 3
    assert "the rules are not those of the swarm that it names" in capsys.readouterr().err


def test_a_private_swarm_is_made_listed_and_joined_and_its_key_is_never_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path / "one"))
    made, file = ("swarm", "new", "friends", "--private"), tmp_path / "friends.toml"
    assert run(monkeypatch, *made, "--out", str(file)) == 0
    (key,) = [line for line in file.read_text().splitlines() if line.startswith("key = ")]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path / "two"))
    assert run(monkeypatch, "swarm", "join", str(file)) == 0
    kept = tmp_path / "two" / "swarms" / "friends.toml"
    assert kept.read_text() == file.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert run(monkeypatch, *made) == 0, "another one of the same name, with a key of its own"
    said = capsys.readouterr()
    assert f"{file} has the swarm's key: hand it to members alone" in said.err
    assert "/two/swarms/friends-" in said.err
    assert run(monkeypatch, "swarm", "list") == 0
    listed = capsys.readouterr().out
    assert listed.count("  private  ") == 2
    assert run(monkeypatch, "swarm", "list", "--json") == 0
    as_json = capsys.readouterr().out
    assert [each["private"] for each in json.loads(as_json)] == [True, True]
    for text in (said.out, said.err, listed, as_json):
        assert key.removeprefix('key = "')[:16] not in text
        assert "key =" not in text, "nor another's"


def test_leaving_says_what_is_deleted_and_asks_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path))
    for name, option in (("friends", ()), ("secrets", ("--private",))):
        assert run(monkeypatch, "swarm", "new", name, *option) == 0
    file = tmp_path / "swarms" / "friends.toml"
    capsys.readouterr()
    assert run(monkeypatch, "swarm", "leave", "friends") == 2
    told = capsys.readouterr().err
    assert f"deletes  {file} (" in told
    assert "keeps    key, checkpoints, store" in told
    assert told.endswith("nobody is there to answer; give --yes\n")
    assert file.exists()
    answers = iter((False, True))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda _question: next(answers))
    assert run(monkeypatch, "swarm", "leave", "friends") == 1
    assert file.exists()
    assert run(monkeypatch, "swarm", "leave", "friends") == 0
    assert not file.exists()
    capsys.readouterr()
    assert run(monkeypatch, "swarm", "leave", "secrets", "--yes") == 0
    said = capsys.readouterr()
    assert "with the swarm's key: without another copy" in said.err
    assert said.out == "left secrets\n"
    assert not list((tmp_path / "swarms").iterdir())


def test_leaving_says_that_a_node_still_runs_in_the_swarm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path))
    assert run(monkeypatch, "swarm", "new", "friends") == 0
    left = load_swarm(tmp_path / "swarms", "friends")
    for swarm_id, runs_in_it in ((left.swarm_id, True), (bytes(32), False)):
        status = {"swarm": {"id": swarm_id.hex()}}
        with node(tmp_path, status=status):
            assert run(monkeypatch, "swarm", "leave", "friends") == 2
        said = capsys.readouterr().err
        assert ("A node runs in it, and stays in it until it ends." in said) == runs_in_it


def test_a_private_swarms_file_without_its_key_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path))
    file = tmp_path / "friends.toml"
    assert run(monkeypatch, "swarm", "new", "friends", "--private", "--out", str(file)) == 0
    lines = [line for line in file.read_text().splitlines() if not line.startswith("key = ")]
    file.write_text("\n".join(lines))
    for command in (("swarm", "join"), ("run",), ("bootstrap",)):
        capsys.readouterr()
        assert run(monkeypatch, *command, str(file)) == 3
        assert "the swarm is private and its key is not there" in capsys.readouterr().err


def test_several_joined_swarms_must_be_told_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path))
    for name in ("friends", "strangers"):
        assert run(monkeypatch, "swarm", "new", name) == 0
    capsys.readouterr()
    assert run(monkeypatch, "run") == 2
    assert "several swarms were joined" in capsys.readouterr().err


def test_a_typo_in_toml_names_the_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "swarm.toml"
    file.write_text("[rounds]\ncompletions = 4\n")
    assert run(monkeypatch, "simulate", "--config", str(file)) == 3
    assert "swarm.toml" in capsys.readouterr().err


@pytest.mark.parametrize("file", [".", "runs"])
def test_a_file_in_the_place_of_a_results_folder_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, file: str
) -> None:
    out = tmp_path / "out"
    place = out if file == "." else out / file
    place.parent.mkdir(exist_ok=True)
    place.write_text("")
    assert run(monkeypatch, "simulate", "--out", str(out)) == 3
    shown = capsys.readouterr().err
    assert f"{place} cannot be written" in shown
    assert shown.count("\n") == 1


def test_an_unwritable_cache_is_told_before_anything_is_taught(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SWARMNODE_HOME", "/proc/home")
    assert run(monkeypatch, "simulate", "--out", str(tmp_path / "out")) == 3
    shown = capsys.readouterr().err
    assert "SWARMNODE_HOME" in shown
    assert shown.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_finished_run_with_other_settings_is_not_overwritten(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path))
    earlier = tmp_path / "out" / "runs" / "4-4-seed0"
    earlier.mkdir(parents=True)
    (earlier / "done").write_text("the digest of other settings")
    (earlier / "rounds.jsonl").write_text("{}\n")
    assert run(monkeypatch, "simulate", "--out", str(tmp_path / "out")) == 3
    assert "4-4-seed0 holds a finished run with other settings" in capsys.readouterr().err
    assert (earlier / "rounds.jsonl").read_text() == "{}\n"


def test_a_cluster_needs_ray_and_an_address_that_was_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert run(monkeypatch, "simulate", "--cluster", "ray") == 3
    assert "pip install 'swarmnode-rl[cluster]'" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: "there")
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert run(monkeypatch, "simulate", "--cluster", "ray") == 2
    shown = capsys.readouterr().err
    assert "unset RAY_ADDRESS" in shown
    assert shown.count("\n") == 1


def test_an_unknown_command_is_one_line_with_the_nearest_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "simulat") == 2
    shown = capsys.readouterr().err
    assert "'simulate'" in shown
    assert shown.count("\n") == 1


def test_without_arguments_the_help_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch) == 0
    assert "simulate" in capsys.readouterr().out


def test_the_version_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out.startswith("swarmnode 0.")


def test_a_study_stopped_before_its_first_round_says_that_there_is_no_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path))
    monkeypatch.setattr("swarmnode.sim.study.run_study", lambda *_, **__: ([], False))
    assert run(monkeypatch, "simulate", "--out", str(tmp_path / "out")) == 130
    assert "there is nothing to report" in capsys.readouterr().err
