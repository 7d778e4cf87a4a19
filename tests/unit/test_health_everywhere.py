"""Every health warning says the same in status, terminal, dashboard, log and metrics."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from swarmnode.api.page import page_of
from swarmnode.api.prometheus import exposition
from swarmnode.cli.status_screen import screen
from swarmnode.observe import health_log
from swarmnode.observe.facts import Facts, HealthWarning
from swarmnode.observe.health import WARNABLES, warnings
from swarmnode.observe.health_log import REPEAT_SECONDS, HealthLog
from swarmnode.observe.log import readable, start_logging
from swarmnode.observe.status import StatusDocument
from tests.unit.cli_support import DOCUMENT
from tests.unit.dashboard_support import moment
from tests.unit.test_health import CASES


def complaint(code: str) -> HealthWarning:
    (found,) = warnings(replace(Facts(), **CASES[code]))
    return found


def words(text: str) -> str:
    """What a person reads: without marks of code and where lines are broken."""
    return " ".join(text.replace("`", "").split())


@contextmanager
def logged(folder: Path) -> Iterator[list[Mapping[str, str]]]:
    """What the log of a daemon holds afterwards."""
    entries: list[Mapping[str, str]] = []
    logging = start_logging(folder, "daemon")
    try:
        yield entries
    finally:
        logging.close()
        entries += map(json.loads, (folder / "daemon.jsonl").read_text("utf-8").splitlines())


def test_a_case_stands_for_every_warning() -> None:
    assert {each.code for each in WARNABLES} == set(CASES)


@pytest.mark.parametrize("code", CASES)
def test_a_warning_is_the_same_wherever_it_is_told(code: str, tmp_path: Path) -> None:
    warning = complaint(code)
    status = DOCUMENT.model_copy(update={"warnings": (warning,)})

    (told,) = StatusDocument.from_json(json.loads(json.dumps(status.as_json()))).warnings
    assert told == warning

    console = Console(width=100, record=True, file=(tmp_path / "screen").open("w"))
    console.print(screen(status))
    console.file.close()
    seen = words(console.export_text())
    page = words(html.unescape(re.sub(r"<[^>]+>", "", page_of(moment(status)))))
    for where, shown in (("the terminal", seen), ("the dashboard", page)):
        assert words(warning.text) in shown, where
        assert words(warning.fix) in shown, where
        assert warning.severity.value in shown, where

    families = text_string_to_metric_families(exposition(moment(status)).decode())
    (family,) = [each for each in families if each.name == "swarmnode_warning"]
    applying = {(s.labels["code"], s.labels["severity"]) for s in family.samples if s.value == 1.0}
    assert applying == {(code, warning.severity.value)}
    assert len(family.samples) == len(WARNABLES), "what ends goes to 0 and does not vanish"

    with logged(tmp_path) as entries:
        HealthLog().heard([warning], 0.0)
    (entry,) = entries
    assert (entry["event"], entry["code"], entry["text"], entry["fix"], entry["level"]) == (
        "health", code, warning.text, warning.fix, warning.severity.value,
    )  # fmt: skip
    assert words(warning.fix) in words(readable(entry))


def test_the_log_tells_a_warning_once_its_end_once_and_no_flapping(tmp_path: Path) -> None:
    disk, clock = complaint("disk-low"), complaint("clock-off")
    heard = [
        (0.0, [disk]), (2.0, [disk]), (4.0, [disk, clock]), (6.0, [clock]), (8.0, [disk, clock]),
        (10.0, [clock]), (12.0, []), (REPEAT_SECONDS + 1.0, [disk]),
    ]  # fmt: skip
    with logged(tmp_path) as entries:
        told = HealthLog()
        for now, found in heard:
            told.heard(found, now)
    assert [(each["event"], each["code"]) for each in entries] == [
        ("health", "disk-low"),
        ("health", "clock-off"),
        ("health is better", "disk-low"),
        ("health is better", "clock-off"),
        ("health", "disk-low"),
    ]
    assert health_log.REPEAT_SECONDS >= 60
