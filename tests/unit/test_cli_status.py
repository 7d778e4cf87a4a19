"""The commands that ask a running node, or read what a stopped one left."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from swarmnode.api.documents import (
    BundleDocument,
    PeersDocument,
    PeerStatus,
    RolloutsDocument,
)
from swarmnode.api.secret import load_or_draw_secret
from swarmnode.observe.log_reading import LogReader
from swarmnode.observe.status import (
    StatusDocument,
    SwarmStatus,
)
from swarmnode.store import Store
from tests.unit.cli_support import (
    DOCUMENT,
    HOSTILE,
    KNOWN,
    in_home,
    node,
    published,
    run,
    safe,
    write_log,
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return in_home(tmp_path, monkeypatch)


@pytest.mark.parametrize("arguments", [["status"], ["status", "--json"], ["status", "--watch"],
                                       ["peers"], ["peers", "--why", "x"]])  # fmt: skip
def test_where_no_node_runs_there_is_one_line_and_code_4(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert run(monkeypatch, *arguments) == 4
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert "swarmnode run" in shown.err


def test_status_is_one_screen_that_shows_strangers_text_escaped(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with node(home):
        assert run(monkeypatch, "status") == 0
    shown = capsys.readouterr().out
    assert safe(shown)
    assert "\\x1b[2J" in shown
    assert len(shown.splitlines()) <= 30
    for words in (
        "training in a swarm of 7, round 41", "12D3KooWAlice", "held out 0.25", "and 3 more",
        "wire 9, expired 3", "policy 12 (1.0 GiB, 1 restart)", "version 30, 5 min old", "Disk full",
        "Free some space", "no answer (2 attempts)",
    ):  # fmt: skip
        assert words in shown


def test_status_of_a_private_swarm_says_so_and_who_connected_has_no_key(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    swarm = SwarmStatus(id="cd" * 32, name="friends", private=True)
    network = DOCUMENT.network.model_copy(update={"strangers": 2})
    document = DOCUMENT.model_copy(update={"swarm": swarm, "network": network})
    with node(home, status=document.as_json()):
        assert run(monkeypatch, "status") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "private swarm friends, id cdcdcd" in shown
    assert "6 peers (2 without the key of this swarm)" in shown


def test_status_of_a_relay_says_what_it_carried_and_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    relayed = {"places": 1, "circuits": 3, "bytes": 2_000_000, "circuits_refused": 4}
    network = DOCUMENT.network.model_copy(update={"relayed": relayed})
    with node(home, status=DOCUMENT.model_copy(update={"network": network}).as_json()):
        assert run(monkeypatch, "status") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "relaying 1 place given, 3 circuits of 1.9 MiB carried, 4 refused, 0 failed" in shown


def test_status_as_json_is_the_document(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with node(home):
        assert run(monkeypatch, "status", "--json") == 0
    shown = capsys.readouterr().out
    assert safe(shown)
    assert StatusDocument.from_json(json.loads(shown)) == DOCUMENT


def test_watching_gives_a_line_each_time_and_ends_with_the_node(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[float] = []

    def sleep(seconds: float) -> None:
        calls.append(seconds)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    with node(home):
        assert run(monkeypatch, "status", "--watch") == 130
    assert capsys.readouterr().out == "training in a swarm of 7, round 41\n" * 2


def test_a_document_of_another_version_is_one_line(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with node(home, status={"summary": "fine"}):
        assert run(monkeypatch, "status") == 1
    assert "--json" in capsys.readouterr().err


def test_what_a_node_of_another_version_answers_is_one_line(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = RolloutsDocument(bundles=(BundleDocument.of(published()),)).as_json()
    document["bundles"][0]["header"] = "00" * 40
    for answers, command, line in (
        ({"peers": {"peers": [{"id": 7}]}}, "peers", "answer is of another version: try --json"),
        ({"rollouts": {"bundles": ["x"]}}, "rollouts --outgoing", "the node gives no rollouts: "),
        ({"rollouts": document}, "rollouts --outgoing", "a bundle does not decode: "),
    ):
        with node(home, **answers):
            assert run(monkeypatch, *command.split()) == 1
        told = capsys.readouterr()
        assert line in told.err
        assert "\\n" not in told.err
        assert told.err.count("\n") == 1


def test_peers_are_listed_with_what_was_dropped_and_why(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with node(home, peers=KNOWN):
        assert run(monkeypatch, "peers") == 0
        listed = capsys.readouterr().out
        assert run(monkeypatch, "peers", "--json") == 0
        as_json = capsys.readouterr().out
        assert run(monkeypatch, "peers", "--why", "Bob") == 0
        why = capsys.readouterr().out
    assert safe(listed)
    assert "90 s" in listed
    assert "wire 2" in listed
    assert "for 60 min" in listed
    assert safe(as_json)
    assert json.loads(as_json) == KNOWN
    assert safe(why)
    assert why.startswith("12D3KooWBob\n  wire\\x1b")


def test_peers_are_listed_with_their_prefix_their_quality_and_what_they_may_not_have(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flooding = PeerStatus(
        peer="F", connected=True, seconds_connected=90.0, prefix="203.0.113.0/24", quality=0.25,
        left={"calls": 0.9, "messages": 0.0}, turned_away=5431, refused=True,
    )  # fmt: skip
    near = PeerStatus(peer="N", connected=True, prefix="exempt:N", left={"calls": 1.0})
    muted = PeerStatus(peer="M", muted_seconds=60.0, refused=True, dropped={"hash": 1})
    document = PeersDocument(peers=(flooding, near, muted)).model_dump(mode="json")
    monkeypatch.setenv("COLUMNS", "200")
    with node(home, peers=document):
        assert run(monkeypatch, "peers") == 0
    rows = capsys.readouterr().out.splitlines()
    one, other, third = (" ".join(row.split()) for row in rows[1:])
    assert one == (
        "F 90 s, from 203.0.113.0/24 0 B 0 B 0, quality 0.25 - "
        "refused, 5431 turned away, messages 0%"
    )
    assert other == "N yes 0 B 0 B 0 - -"
    assert third == "M no 0 B 0 B 0 hash 1 for 60 s"


def test_a_part_of_an_id_that_two_peers_have_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with node(home, peers=KNOWN):
        assert run(monkeypatch, "peers", "--why", "12D3") == 2
    assert "2 peers have '12D3'" in capsys.readouterr().err


def test_a_node_without_peers_says_so(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with node(home):
        assert run(monkeypatch, "peers") == 0
    assert capsys.readouterr().out == "no peer is known yet\n"


def test_what_left_a_running_node_is_shown_decoded_and_as_its_exact_bytes(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = published()
    document = RolloutsDocument(bundles=(BundleDocument.of(bundle),)).as_json()
    with node(home, rollouts=document):
        assert run(monkeypatch, "rollouts", "--outgoing") == 0
        decoded = capsys.readouterr().out
        assert run(monkeypatch, "rollouts", "--outgoing", "--hex") == 0
        exact = json.loads(capsys.readouterr().out)
    assert safe(decoded)
    told = json.loads(decoded)
    assert told["header"]["sequence"] == 5
    assert told["announcement"]["holders"] == ["/ip4/127.0.0.1/tcp/1"]
    assert told["groups"][0]["completions"][0]["text"] == f"2{HOSTILE}"
    assert told["bytes"] == bundle.size
    assert bytes.fromhex(exact["header"]) == bundle.header
    assert [bytes.fromhex(group) for group in exact["groups"]] == list(bundle.groups)
    assert bytes.fromhex(exact["announcement"]) == bundle.announcement


def test_what_left_a_stopped_node_is_read_from_its_store_which_stays_as_it_was(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store.open(home / "store.sqlite", home / "reserved.json", now=lambda: 1.0)
    for sequence in (5, 6):
        store.record_bundle(published(sequence))
    assert store.close()
    before = (home / "store.sqlite").read_bytes()
    assert run(monkeypatch, "rollouts", "--outgoing", "-n", "1") == 0
    assert json.loads(capsys.readouterr().out)["header"]["sequence"] == 6
    assert (home / "store.sqlite").read_bytes() == before


def test_rollouts_of_a_home_that_published_nothing_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "rollouts", "--outgoing") == 4
    assert capsys.readouterr().err.count("\n") == 1


def test_the_doctor_ends_with_1_where_something_failed_and_with_0_otherwise(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home.chmod(0o700)
    assert run(monkeypatch, "doctor", "--no-train") == 0
    assert "0 failures" in capsys.readouterr().out
    home.chmod(0o755)
    assert run(monkeypatch, "doctor", "--json", "--no-train") == 1
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["home"]["result"] == "failed"
    assert "chmod 700" in found["home"]["fix"]


def test_the_doctor_tells_what_the_running_node_complains_of(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home.chmod(0o700)
    with node(home):
        assert run(monkeypatch, "doctor") == 1
    shown = capsys.readouterr().out
    assert "disk-full" in shown
    assert safe(shown)


def test_a_health_check_asks_the_running_node_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "doctor", "--quick") == 1
    shown = capsys.readouterr().out
    assert "none is running with the home" in shown
    assert "swarmnode run" in shown
    with node(home):
        assert run(monkeypatch, "doctor", "--quick", "--json") == 1
    found = [(each["name"], each["result"]) for each in json.loads(capsys.readouterr().out)]
    assert found[0] == ("node", "ok")
    assert ("disk-full", "failed") in found
    assert not {"python", "torch", "ports"} & {name for name, _ in found}


def test_the_doctor_tests_the_bootstrap_peers_of_swarm_files_and_names_broken_files(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home.chmod(0o700)
    (home / "swarms").mkdir()
    (home / "swarms" / "broken.toml").write_text("not = a = swarm")
    assert (
        run(monkeypatch, "doctor", "--no-train", "--json", "--bootstrap", "/ip4/127.0.0.1/tcp/1")
        == 1
    )
    found = [(each["name"], each["result"]) for each in json.loads(capsys.readouterr().out)]
    assert ("swarm-file", "failed") in found
    assert ("bootstrap", "failed") in found


def test_logs_show_the_newest_entries_of_all_processes_in_order(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(home, "daemon", "first", f"second{HOSTILE}")
    write_log(home, "network", "third")
    with (home / "log" / "daemon.jsonl").open("a") as damaged:
        damaged.write('{"time": "2099", "event": "cut o')
    assert run(monkeypatch, "logs", "-n", "2") == 0
    shown = capsys.readouterr().out
    assert safe(shown)
    assert ["second" in line or "third" in line for line in shown.splitlines()] == [True, True]
    assert run(monkeypatch, "logs", "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["process"] for line in lines] == ["daemon", "daemon", "network"]


def test_following_shows_what_comes_even_over_a_change_of_files(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(home, "daemon", "before")
    steps = iter(["second", "third", "end"])

    def sleep(_seconds: float) -> None:
        step = next(steps)
        if step == "end":
            raise KeyboardInterrupt
        if step == "third":
            (home / "log" / "daemon.jsonl").rename(home / "log" / "daemon.jsonl.1")
        write_log(home, "daemon", step)

    monkeypatch.setattr(time, "sleep", sleep)
    assert run(monkeypatch, "logs", "--follow", "-n", "0") == 130
    events = [line.split()[-1] for line in capsys.readouterr().out.splitlines()]
    assert events == ["second", "third"]


def test_a_home_without_a_log_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "logs") == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_a_reader_of_logs_finds_entries_that_were_set_aside(tmp_path: Path) -> None:
    write_log(tmp_path, "daemon", "old")
    (tmp_path / "log" / "daemon.jsonl").rename(tmp_path / "log" / "daemon.jsonl.1")
    write_log(tmp_path, "daemon", "new")
    reader = LogReader(tmp_path / "log")
    try:
        assert [entry["event"] for entry in reader.last(5)] == ["old", "new"]
        assert reader.new() == []
    finally:
        reader.close()


def test_a_reader_of_the_ends_of_logs_leaves_out_the_line_that_it_begins_in(tmp_path: Path) -> None:
    for number in range(200):
        write_log(tmp_path, "daemon", f"entry {number}")
    size = (tmp_path / "log" / "daemon.jsonl").stat().st_size
    reader = LogReader(tmp_path / "log", size // 10)
    try:
        found = [entry["event"] for entry in reader.new()]
        assert 10 <= len(found) <= 20
        assert found == [f"entry {number}" for number in range(200 - len(found), 200)]
        write_log(tmp_path, "daemon", "later")
        assert [entry["event"] for entry in reader.new()] == ["later"]
        for number in range(9):
            write_log(tmp_path, "daemon", f"much later {number}")
        newest = [entry["event"] for entry in reader.new(2)]
        assert newest == ["much later 7", "much later 8"]
        assert reader.new(2) == []
    finally:
        reader.close()


def test_status_has_the_whole_address_of_the_dashboard_and_json_no_secret(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = load_or_draw_secret(home / "dashboard-secret")
    document = DOCUMENT.model_copy(update={"dashboard": "http://127.0.0.1:8470"})
    with node(home, status=document.as_json()):
        assert run(monkeypatch, "status") == 0
        shown = capsys.readouterr().out
        assert f"http://127.0.0.1:8470/{secret}/" in shown
        assert run(monkeypatch, "status", "--json") == 0
        told = capsys.readouterr().out
    assert "http://127.0.0.1:8470" in told
    assert secret not in told
    with node(home):
        assert run(monkeypatch, "status") == 0
    assert "dashboard" not in capsys.readouterr().out


@pytest.mark.parametrize("colour", [True, False])
def test_a_terminal_is_shown_the_same_facts_anew_and_no_colour_where_none_is_wanted(
    home: Path, colour: bool
) -> None:
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "60"}
    environment.pop("NO_COLOR", None)
    if not colour:
        environment["NO_COLOR"] = "1"
    ours, theirs = pty.openpty()
    with node(home):
        watching = subprocess.Popen(
            [sys.executable, "-m", "swarmnode", "status", "--watch"],
            env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        shown = b""
        # The second picture has come when the first line of it has.
        while shown.count(b"by task") < 2:
            shown += os.read(ours, 65536)
        watching.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # Linux says so where the other end is closed.
            while more := os.read(ours, 65536):
                shown += more
        assert watching.wait(60) == 130
    os.close(ours)
    assert b"\x1b[?1049h" in shown, "a screen of its own"
    for fact in ("12D3KooWAlice", "7 nodes", "local 0.50, held out 0.25", "wire 9"):
        assert fact.encode() in shown
    assert (re.search(rb"\x1b\[[0-9;]*3[0-7]m", shown) is not None) == colour
    assert HOSTILE.encode() not in shown
