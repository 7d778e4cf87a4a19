"""Rollouts that are kept: what is stored, how they are found, and that signatures are checked."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow.parquet import read_table

from swarmnode.cli.rollout_files import write_parquet
from swarmnode.clock import VirtualClock
from swarmnode.keys import peer_id_of
from swarmnode.provenance import found_in, signed
from swarmnode.rollouts import RolloutRecorder
from swarmnode.store import Limits
from swarmnode.store.reading import stored_rollouts
from swarmnode.store.rollout_rows import Wanted
from swarmproto import open_header
from tests.unit.cli_support import HOSTILE, in_home, run, safe
from tests.unit.collecting_support import Stranger, scene, simulate
from tests.unit.rollout_support import (
    HOLDER,
    MINE,
    OWN,
    OWN_KEY,
    PEER,
    PEER_KEY,
    THEIRS,
    UNPUBLISHED,
    evidence_of,
    fill,
    open_store,
    scored,
    sealed,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with three rollouts, whose node still has the store open."""
    in_home(tmp_path, monkeypatch)
    store = open_store(tmp_path)
    fill(store)
    assert store.close()
    store = open_store(tmp_path)
    yield tmp_path
    assert store.close()


def listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *options: str
) -> list[int]:
    """The numbers of what `rollouts` finds, as JSON and as lines alike."""
    assert run(monkeypatch, "rollouts", *options, "--json") == 0
    values = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert run(monkeypatch, "rollouts", *options) == 0
    lines = capsys.readouterr().out.splitlines()
    numbers = [each["id"] for each in values]
    assert [int(line.split()[0]) for line in lines[1:]] == numbers
    return numbers


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ("", [3, 2, 1]),
        ("-n 2", [3, 2]),
        ("--task gcd", [3, 1]),
        ("--task bf:easy", [2]),
        ("--task bf:hard", []),
        ("--peer own", [2, 1]),
        ("--peer others", [3]),
        (f"--peer {peer_id_of(PEER_KEY)[:14]}", [3]),
        (f"--peer {PEER_KEY[:8].hex()}", [3]),
        (f"--peer {OWN_KEY.hex()[:6]}", [2, 1]),
        ("--success all", [3]),
        ("--success some", [1]),
        ("--success none", [2]),
        ("--round 1", [1]),
        ("--round 1-2", [3, 2, 1]),
        ("--round 3", []),
        ("--text FORTY-two", [3]),
        ("--text question", [3, 2, 1]),
        ("--trained", [3, 1]),
        ("--trained --peer own --round 1", [1]),
    ],
)
def test_rollouts_are_found_by_what_they_are(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: str,
    numbers: list[int],
) -> None:
    assert listed(monkeypatch, capsys, *options.split()) == numbers


def test_a_peers_rollout_is_shown_in_full_with_where_it_comes_from(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "rollouts", "3", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["peer_id"] == peer_id_of(PEER_KEY)
    assert (told["task"], told["level"], told["index"]) == ("gcd", "easy", 9)
    assert (told["own"], told["round"], told["trained_in"]) == (False, 2, 2)
    assert (told["correction"], told["why"]) == ("full", "log-probs sent")
    assert told["policy"] == {"name": "tiny", "version": 7}
    assert told["question"] == THEIRS.group.question.text
    assert told["served_by"] == HOLDER
    assert [each["advantage"] for each in told["completions"]] == [None, 0.0, 1.0]
    assert [each["excluded"] for each in told["completions"]] == [False, False, True]
    assert told["completions"][0] == {
        "text": "42", "finish_reason": "stop", "tokens": 2, "score": 1.0, "success": True,
        "advantage": None, "excluded": False,
    }  # fmt: skip
    signature = told["signature"]
    assert signature["verified"]
    assert (signature["sequence"], signature["sent_completions"]) == (5, 3)
    assert signature["swarm_id"] == (b"s" * 32).hex()
    assert run(monkeypatch, "rollouts", "3") == 0
    shown = capsys.readouterr().out
    assert safe(shown)
    assert "\\x1b[2J" in shown, "what a stranger wrote is there, as escapes"
    assert "signature   verified: Ed25519, bundle " in shown
    assert "  What is\n  question 9?" in shown
    assert "completion 3: right, score 1.00, 2 tokens, advantage +1.000, kept out" in shown


def test_an_own_rollout_is_found_in_the_bundle_that_it_left_in(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "rollouts", "1", "--json") == 0
    published = json.loads(capsys.readouterr().out)
    assert published["signature"]["verified"]
    assert published["signature"]["bundle_id"] == sealed(OWN, MINE).bundle_id.hex()
    assert [each["advantage"] for each in published["completions"]] == [0.75, -0.5]
    assert run(monkeypatch, "rollouts", "2") == 0
    shown = capsys.readouterr().out
    assert "signature   none is kept: it was not published" in shown
    assert "training    left out of the step that it was chosen for (all rewards equal)" in shown


def test_hostile_text_reaches_no_terminal_raw(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for options in ((), ("--json",), ("1",), ("1", "--json")):
        assert run(monkeypatch, "rollouts", *options) == 0
        shown = capsys.readouterr().out
        assert safe(shown)
        assert HOSTILE not in shown


def test_a_rollout_that_is_not_kept_is_one_line(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "rollouts", "99") == 3
    assert "no rollout 99 is kept" in capsys.readouterr().err
    assert run(monkeypatch, "rollouts", "--peer", "12D3KooWNobody") == 3
    assert "a peer whose id begins with '12D3KooWNobody'" in capsys.readouterr().err


def test_a_store_of_an_earlier_version_holds_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_home(tmp_path, monkeypatch)
    assert open_store(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as connection:
        connection.execute("DROP TABLE rollouts")
    assert run(monkeypatch, "rollouts") == 0
    assert capsys.readouterr().err == "none is kept of which this is true\n"
    for task, words in (
        ("gdc", "unknown task 'gdc'; did you mean 'gcd'"),
        ("gcd:hard", "task 'gcd' has no level 'hard'; choose default"),
    ):
        assert run(monkeypatch, "rollouts", "--task", task) == 0
        told = capsys.readouterr().err
        assert told.startswith(f"none is kept of which this is true: {words}")
        assert told.count("\n") == 1
    assert run(monkeypatch, "rollouts", "--peer", "12") == 3


def test_the_newest_rollouts_stay_within_the_limit(tmp_path: Path) -> None:
    store = open_store(tmp_path, Limits(rollout_bytes=10_000))
    recorder = RolloutRecorder(store, lambda: 1)
    for index in range(200):
        recorder.answered([scored(OWN, index, ("x" * 300, "y"), 1)])
    assert store.close()
    kept = [each.rollout.question for each in stored_rollouts(tmp_path / "store.sqlite", Wanted())]
    assert 5 < len(kept) < 20
    assert kept == list(range(199, 199 - len(kept), -1))


def test_nothing_is_kept_where_the_limit_is_none(tmp_path: Path) -> None:
    store = open_store(tmp_path, Limits(rollout_bytes=0))
    fill(store)
    assert store.close()
    assert list(stored_rollouts(tmp_path / "store.sqlite", Wanted())) == []


def test_what_the_collector_admits_comes_with_what_its_author_signed() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, one = scene(clock), Stranger(1, clock)
        await here.hears_of(one, 5, 6)
        assert len(here.admitted) == 2
        for pooled, evidence in here.admitted:
            header = open_header(evidence.header, b"s" * 32)
            assert header.public_key == pooled.group.publisher
            assert evidence.holder == one.address
            new = RolloutRecorder(None, lambda: 4)._new(pooled, evidence)  # type: ignore[arg-type]
            assert signed(new, evidence.header, evidence.group).verified

    simulate(scenario)


def test_a_signature_says_nothing_of_other_bytes_texts_or_authors() -> None:
    recorder = RolloutRecorder(None, lambda: 1)  # type: ignore[arg-type]
    bundle = sealed(PEER, THEIRS)
    evidence = evidence_of(bundle)
    good = recorder._new(THEIRS, evidence)
    header, encoded = evidence.header, evidence.group

    def problem(rollout: object = good, header: bytes = header, encoded: bytes = encoded) -> str:
        found = signed(rollout, header, encoded)  # type: ignore[arg-type]
        assert found.verified == (not found.problem)
        return found.problem

    assert problem() == ""
    assert problem(header=header[:-1] + bytes([header[-1] ^ 1]))
    assert problem(header=b"junk")
    assert "does not name these bytes" in problem(encoded=encoded + b"x")
    assert "somebody else" in problem(replace(good, publisher=OWN_KEY))
    assert "not say" in problem(replace(good, question=10))
    texts = [{**each, "text": "other"} for each in good.content["completions"]]
    assert "not say" in problem(replace(good, content={**good.content, "completions": texts}))
    assert "not say" in problem(replace(good, content={**good.content, "answer": "43"}))
    fewer = {**good.content, "completions": good.content["completions"][1:]}
    assert problem(replace(good, content=fewer)) == "", "a larger group is cut when it is pooled"
    assert found_in(recorder._new(UNPUBLISHED, None), [sealed(OWN, MINE)]) is None


def test_rollouts_are_exported_alike_as_json_lines_and_as_parquet(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("swarmnode.cli.rollout_files.ROWS_AT_ONCE", 2)
    assert run(monkeypatch, "rollouts", "--json") == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for name in ("rollouts.jsonl", "rollouts.parquet"):
        assert run(monkeypatch, "export", "rollouts", "--out", str(home / name)) == 0
        assert capsys.readouterr().out == f"3 rollouts: {home / name}\n"
    written = [json.loads(line) for line in (home / "rollouts.jsonl").read_text().splitlines()]
    assert written == shown
    assert read_table(home / "rollouts.parquet").to_pylist() == shown
    chosen = home / "one.parquet"
    assert run(monkeypatch, "export", "rollouts", "--success", "all", "--out", str(chosen)) == 0
    assert capsys.readouterr().out == f"1 rollout: {chosen}\n"
    assert read_table(chosen).column("id").to_pylist() == [3]
    assert not list(home.glob(".*.parquet.*"))


def test_an_export_of_rollouts_overwrites_nothing_and_says_what_is_missing(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = home / "rollouts.jsonl"
    taken.write_text("mine")

    def refused(out: Path, code: int) -> str:
        assert run(monkeypatch, "export", "rollouts", "--out", str(out)) == code
        line = capsys.readouterr().err
        assert line.count("\n") == 1
        return line

    assert "not overwritten" in refused(taken, 3)
    assert taken.read_text() == "mine"
    assert "cannot be written: No such file" in refused(home / "absent" / "a.jsonl", 3)
    assert "name it .jsonl or .parquet" in refused(home / "rollouts.csv", 2)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert "pip install 'swarmnode-rl[parquet]'" in refused(home / "a.parquet", 3)


def test_a_text_that_utf_8_cannot_have_is_exported_all_the_same(tmp_path: Path) -> None:
    written = write_parquet(tmp_path / "odd.parquet", [{"id": 1, "question": "a\ud800b\0"}])
    assert written == 1
    assert read_table(tmp_path / "odd.parquet").column("question").to_pylist() == ["a?b\0"]
