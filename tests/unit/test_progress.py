"""How far something is: told from inside, over the socket of a child, and shown at the start."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from rich.console import Console

from swarmnode.cli import eval_screen, start_screen
from swarmnode.cli.start_screen import StartScreen
from swarmnode.config.policy import PolicySettings
from swarmnode.policy.hub import _telling
from swarmnode.policy.loading import load_policy
from swarmnode.policy.warm_start import WarmStartPlan, warm_start
from swarmnode.process import Child, ChildTimedOut
from swarmnode.progress import Step, advanced, listening
from tests.unit.cli_support import HOSTILE, safe
from tests.unit.resume_support import SMALL


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Step]]:
    """Every step of what runs here."""
    monkeypatch.setattr("swarmnode.progress.LEAST_SECONDS", 0.0)
    steps: list[Step] = []
    with listening(steps.append):
        yield steps


def test_only_who_listens_is_told_and_only_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter((0.0, 0.1, 0.3, 0.31, 0.32))
    monkeypatch.setattr("swarmnode.progress.time.monotonic", lambda: next(now))
    steps: list[Step] = []
    advanced("nobody hears this")
    with listening(steps.append):
        for done in (1, 2, 3, 4):
            advanced("a thing", done, 4)
        advanced("another")
    advanced("nor this")
    assert [(step.what, step.done) for step in steps] == [
        ("a thing", 1), ("a thing", 3), ("a thing", 4), ("another", 0),
    ]  # fmt: skip
    assert steps[1].in_words == "a thing, 75%"
    assert steps[3].in_words == "another"


def test_a_warm_start_says_how_far_it_is(heard: list[Step]) -> None:
    policy = load_policy(PolicySettings(tiny=SMALL), seed=0)
    plan = WarmStartPlan(steps=4, batch_size=2, learning_rate=0.01, weight_decay=0.0, seed=0)
    warm_start(policy, [("1 + 1 =", "2"), ("1 + 2 =", "3")], plan)
    assert [(step.done, step.total) for step in heard] == [(0, 4), (1, 4), (2, 4), (3, 4)]


def test_a_download_in_threads_says_how_many_bytes_have_come(heard: list[Step]) -> None:
    counting = _telling("some/model")
    bar = counting(total=100, unit="B", unit_scale=True)
    files = counting(total=3)
    threads = [threading.Thread(target=bar.update, args=(25,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    files.update(1)
    bar.total = 200
    bar.update(25)
    assert {step.what for step in heard} == {"downloading some/model"}
    assert [(step.done, step.total) for step in heard][-1] == (100, 200)
    assert len(heard) == 4, "files are not bytes"


SLOW = """
import sys, time
from swarmnode.process import inherited_socket, serve
from swarmnode.progress import advanced

def count(seconds):
    for done in range(4):
        advanced("counting", done, 4)
        time.sleep(seconds)
    return "counted"

serve({"count": count, "nothing": lambda _payload: "nothing"}, inherited_socket(sys.argv[1:]))
"""


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    (tmp_path / "slow_child.py").write_text(SLOW)
    path = {"PYTHONPATH": ":".join([str(tmp_path), *filter(None, sys.path)])}
    child = Child("slow_child", name="slow", environment=path)
    child.start()
    yield child
    child.close_now()


def test_a_child_says_how_far_it_is_before_it_answers(child: Child) -> None:
    async def asking() -> None:
        assert await child.call("nothing", None, 60.0) == "nothing"
        asked = asyncio.create_task(child.call("count", 0.3, 60.0))
        seen = set()
        while not asked.done():
            seen.add(child.step)
            await asyncio.sleep(0.02)
        assert await asked == "counted"
        assert seen & {Step("counting", done, 4) for done in range(4)}
        assert child.step is None
        assert await child.call("nothing", None, 60.0) == "nothing"

    asyncio.run(asking())


def test_a_child_that_only_says_how_far_it_is_is_hung_all_the_same(child: Child) -> None:
    async def asking() -> None:
        assert await child.call("nothing", None, 60.0) == "nothing"
        with pytest.raises(ChildTimedOut):
            await child.call("count", 0.5, 1.2)
        assert child.process_id is None

    asyncio.run(asking())


def test_the_start_is_a_line_now_and_then_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter((100.0, 101.0, 109.0, 111.0, 112.0))
    monkeypatch.setattr("swarmnode.cli.start_screen.time.monotonic", lambda: next(now))
    screen = StartScreen()
    for step in (Step("teaching", 1, 10), Step("teaching", 2, 10), Step("teaching", 3, 10),
                 Step("teaching", 5, 10), Step(f"more{HOSTILE}"), None):  # fmt: skip
        screen.show(step)
    said = capsys.readouterr().err
    assert safe(said)
    assert said.splitlines()[:2] == ["starting: teaching, 10%", "starting: teaching, 50%"]
    assert len(said.splitlines()) == 3


@pytest.mark.parametrize("colour", [True, False])
def test_the_start_is_a_bar_in_a_terminal_and_the_log_goes_above_it(
    monkeypatch: pytest.MonkeyPatch, colour: bool
) -> None:
    if not colour:
        monkeypatch.setenv("NO_COLOR", "1")
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=80, color_system="truecolor")
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(start_screen, "Console", lambda file: console)
    screen = StartScreen()
    screen.show(Step("teaching", 1, 4))
    screen.log.write("a line of the log\n")
    screen.show(Step("teaching", 3, 4))
    assert screen._bar is not None
    screen._bar.refresh()
    screen.show(None)
    screen.show(None)
    shown = terminal.getvalue()
    assert "teaching" in shown
    assert "75%" in shown
    assert "a line of the log" in shown
    assert ("\x1b[38;" in shown or "\x1b[3" in shown) == colour


def test_each_stretch_of_an_examination_has_a_name_and_a_measure_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=80)
    monkeypatch.setattr(eval_screen, "Console", lambda file: console)
    with eval_screen.Progressing() as progress:

        def shown() -> tuple[str, float | None, float]:
            [bar] = progress.tasks
            return bar.description, bar.total, bar.completed

        assert shown() == ("finding the questions", None, 0)
        progress.making()
        assert shown() == ("making the policy", None, 0)
        for done in (1, 2):
            progress.making(Step(f"teaching{HOSTILE}", done, 3))
            what, *share = shown()
            assert what.startswith("teaching")
            assert safe(what)
            assert share == [100, 100 * done // 3]
        progress.making(Step("loading"))
        assert shown() == ("loading", None, 0)
        progress.answering("A", 12)
        progress.answered("gcd", 4)
        assert shown() == ("A: gcd", 12, 4)
        progress.making()
        assert shown() == ("making the policy", None, 0)


DOWNLOADING = """
import sys
from swarmnode.policy.hub import hub_folder
from swarmnode.progress import listening
import swarmnode.progress
swarmnode.progress.LEAST_SECONDS = 0.0
steps = []
with listening(steps.append):
    folder = hub_folder("someone/small", "main")
print([path.name for path in sorted(folder.iterdir())])
print(*((step.what, step.done, step.total) for step in steps[-1:]))
"""
FILES = {"config.json": b"{}", "model.safetensors": bytes(300_000)}


class Hub(BaseHTTPRequestHandler):
    """As much of a hub as a download asks for."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        name = self.path.rsplit("/", 1)[-1]
        if self.path.startswith("/api/models/someone/small"):
            siblings = [{"rfilename": each, "size": len(body)} for each, body in FILES.items()]
            tree = [
                {"type": "file", "path": each, "size": len(body), "oid": "b" * 40}
                for each, body in FILES.items()
            ]
            model = {"id": "someone/small", "sha": "a" * 40, "siblings": siblings}
            body = json.dumps(tree if "/tree/" in self.path else model).encode()
        else:
            body = FILES.get(name, b"")
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{name}"')
        self.send_header("X-Repo-Commit", "a" * 40)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        pass


def test_a_real_download_says_how_far_it_is_and_shows_nothing_itself(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        done = subprocess.run(
            [sys.executable, "-c", DOWNLOADING],
            env={**os.environ, "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
                 "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        server.shutdown()
        thread.join()
    assert done.returncode == 0, done.stderr
    files, last = done.stdout.splitlines()
    assert files == "['config.json', 'model.safetensors']"
    total = sum(map(len, FILES.values()))
    assert last == str(("downloading someone/small", total, total))
    assert "%|" not in done.stderr
