"""The log: what is written of whatever is logged, and what no peer's text can do in it."""

from __future__ import annotations

import io
import json
import logging
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from swarmnode.observe import log as log_module
from swarmnode.observe.log import Logging, readable, start_logging
from swarmnode.observe.words import plain

HOSTILE = "\x1b[2J\x1b]0;owned\x07 a\nb\r\x9b31m \u202eevil\u2028 \x00"


@contextmanager
def logging_to(folder: Path, terminal: io.StringIO | None = None) -> Iterator[Logging]:
    logging_ = start_logging(folder, "daemon", terminal=terminal)
    try:
        yield logging_
    finally:
        logging_.close()


def entries(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "daemon.jsonl").read_text().splitlines()]


def test_an_entry_is_a_line_of_json_with_its_fields(tmp_path: Path) -> None:
    with logging_to(tmp_path):
        structlog.get_logger("round").info("round ended", round=41, reward=0.5, tasks=["gcd"])
    (entry,) = entries(tmp_path)
    assert list(entry)[:4] == ["time", "level", "process", "event"]
    assert (entry["level"], entry["process"]) == ("info", "daemon")
    assert (entry["event"], entry["round"], entry["tasks"]) == ("round ended", 41, ["gcd"])
    assert entry["time"].endswith("Z")


def test_what_other_packages_log_and_warn_lands_in_the_same_form(tmp_path: Path) -> None:
    with logging_to(tmp_path):
        logging.getLogger("another.package").warning("lost %s", HOSTILE)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("old", UserWarning, stacklevel=1)
    assert [entry["level"] for entry in entries(tmp_path)] == ["warning", "warning"]
    assert "UserWarning: old" in entries(tmp_path)[1]["event"]


def test_no_text_of_a_peer_brings_control_characters_into_file_or_terminal(tmp_path: Path) -> None:
    terminal = io.StringIO()
    with logging_to(tmp_path, terminal):
        logger = structlog.get_logger()
        logger.info(HOSTILE, peer=HOSTILE, nested={HOSTILE: [HOSTILE, {"deep": HOSTILE}]})
        logger.info("keys", **{HOSTILE: 1})
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            logger.exception("failed")
    written = (tmp_path / "daemon.jsonl").read_text()
    for text in (written, terminal.getvalue()):
        assert all(character.isprintable() for character in text.replace("\n", ""))
        assert "\\x1b" in text
    assert written.count("\n") == 3
    heads = [line for line in terminal.getvalue().splitlines() if not line.startswith("    ")]
    assert len(heads) == 3


def test_a_traceback_names_no_folder_of_the_user(tmp_path: Path) -> None:
    with logging_to(tmp_path):
        try:
            try:
                raise OSError(2, "No such file", str(Path.home() / "secret" / "key"))
            except OSError as error:
                raise RuntimeError("cannot start") from error
        except RuntimeError:
            structlog.get_logger().exception("failed", path=Path.home() / "secret")
    (entry,) = entries(tmp_path)
    assert entry["path"] == "~/secret"
    joined = "\n".join(entry["traceback"])
    assert "led to:" in joined
    assert "unit/test_log.py:" in joined
    assert "RuntimeError: cannot start" in joined
    assert str(Path.home()) not in joined
    assert str(Path(__file__).parent) not in joined


def test_an_exception_group_is_told_whole(tmp_path: Path) -> None:
    with logging_to(tmp_path):
        group = ExceptionGroup("both", [ValueError("first"), KeyError("second")])
        structlog.get_logger().error("failed", exc_info=group)
    joined = "\n".join(entries(tmp_path)[0]["traceback"])
    assert "ValueError: first" in joined
    assert "KeyError: 'second'" in joined


def test_values_are_cut_and_stay_json(tmp_path: Path) -> None:
    with logging_to(tmp_path):
        structlog.get_logger().info(
            "odd", long="x" * 10_000, many=list(range(1000)), raw=b"\x00\xff", no=float("nan"),
            some={1}, time="mine",
        )  # fmt: skip
    (entry,) = entries(tmp_path)
    assert len(entry["long"]) < 2100
    assert len(entry["many"]) < 100
    assert (entry["raw"], entry["no"], entry["some"], entry["time_"]) == (
        "00ff",
        "nan",
        [1],
        "mine",
    )


def test_files_are_the_users_alone_are_set_aside_when_full_and_few_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "LOG_FILE_BYTES", 1000)
    with logging_to(tmp_path / "log"):
        for number in range(60):
            structlog.get_logger().info("a line of the log that takes some room", number=number)
    files = sorted(path.name for path in (tmp_path / "log").iterdir())
    assert files == ["daemon.jsonl", *(f"daemon.jsonl.{n}" for n in range(1, 6))]
    assert {stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "log").iterdir()} == {0o600}
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o700
    assert entries(tmp_path / "log")[-1]["number"] == 59


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_disk_that_takes_nothing_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with logging_to(tmp_path) as running:
        handler = running.handlers[0]
        assert isinstance(handler, logging.StreamHandler)
        handler.stream.close()
        handler.stream = Path("/dev/full").open("w")  # noqa: SIM115
        structlog.get_logger().info("lost")
    assert capsys.readouterr().err == ""


def test_logging_leaves_the_system_as_it_was(tmp_path: Path) -> None:
    root = logging.getLogger()
    before = (root.level, root.handlers[:])
    with logging_to(tmp_path):
        assert root.handlers != before[1]
    assert (root.level, root.handlers[:]) == before
    assert not structlog.is_configured()


def test_an_entry_of_a_damaged_file_is_shown_safely() -> None:
    shown = readable({"time": HOSTILE, "event": HOSTILE, HOSTILE: HOSTILE, "traceback": [HOSTILE]})
    assert all(line.isprintable() for line in shown.split("\n"))
    assert shown.count("\n") == 1


def test_plain_text_stays_as_it_is() -> None:
    assert plain("3 · 4 = zwölf 模型 ✓") == "3 · 4 = zwölf 模型 ✓"
    assert plain("a\tb\ud800") == "a\\tb\\ud800"
    assert plain("x" * 50, limit=10) == "x" * 10 + "…"
