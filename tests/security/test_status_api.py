"""M14: the status socket: whose it is, what is left of dead ones, and what clients may not do.

No browser can speak to it; what serves HTTP is the dashboard alone (test_dashboard.py).
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import errno
import json
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from swarmnode.api import status as api
from swarmnode.api.status import Documents, NotRunning, SocketError, StatusServer, ask


def run_on_uvloop(main: Coroutine[Any, Any, Any]) -> None:
    """As the daemon does."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


async def _told(*arguments: object) -> object:
    return {"asked": list(arguments)}


DOCUMENTS = Documents(
    status=lambda: _told("status"),
    peers=lambda: _told("peers"),
    rollouts=lambda count: _told("rollouts", count),
    why=lambda peer: _told("why", peer),
)


@contextlib.asynccontextmanager
async def serving(path: Path, documents: Documents = DOCUMENTS) -> AsyncIterator[StatusServer]:
    server = await StatusServer.start(path, documents)
    try:
        yield server
    finally:
        await server.close()


async def asked(path: Path, request: str, timeout_seconds: float = 10.0) -> object:
    return await asyncio.to_thread(ask, path, request, timeout_seconds)


async def open_connections(server: StatusServer, count: int) -> None:
    """Wait until so many are open."""
    async with asyncio.timeout(10):
        while server.connections != count:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def within(path: Path, scenario: Callable[[Path], object]) -> None:
    async def run() -> None:
        async with serving(path):
            await asyncio.to_thread(scenario, path)

    run_on_uvloop(run())


@pytest.mark.parametrize(
    ("request_line", "answer"),
    [
        ("status", ["status"]),
        ("peers", ["peers"]),
        ("rollouts 7", ["rollouts", 7]),
        ("why 12D3KooW", ["why", "12D3KooW"]),
    ],
)
def test_each_request_gets_its_document(
    tmp_path: Path, request_line: str, answer: list[object]
) -> None:
    within(
        tmp_path / "s",
        lambda path: _equal(ask(path, request_line), {"asked": answer}),
    )


def _equal(found: object, wanted: object) -> None:
    assert found == wanted


@pytest.mark.parametrize(
    "line", ["", "stop", "status now", "rollouts", "rollouts 0", "rollouts 101", "rollouts -1",
             "why", "x" * 1000, "\x1b[2J"]
)  # fmt: skip
def test_any_other_request_is_an_error_that_shows_nothing_of_it_raw(
    tmp_path: Path, line: str
) -> None:
    def scenario(path: Path) -> None:
        with pytest.raises(SocketError) as caught:
            ask(path, line)
        assert str(caught.value).isprintable()

    within(tmp_path / "s", scenario)


def test_the_socket_is_its_users_alone_and_goes_with_the_server(tmp_path: Path) -> None:
    path = tmp_path / "s"
    before = os.umask(0)
    try:
        within(path, lambda there: _equal(stat.S_IMODE(there.stat().st_mode), 0o600))
    finally:
        os.umask(before)
    assert not path.exists()


def test_a_socket_of_a_dead_process_is_swept_and_one_of_a_living_process_is_kept(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()

    async def run() -> None:
        async with serving(path):
            with pytest.raises(SocketError, match="another process answers"):
                await StatusServer.start(path, DOCUMENTS)
            assert await asked(path, "status") == {"asked": ["status"]}

    run_on_uvloop(run())


def test_what_is_no_socket_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("precious")
    with pytest.raises(SocketError, match="in the way"):
        run_on_uvloop(StatusServer.start(path, DOCUMENTS))
    assert path.read_text() == "precious"


def test_a_path_that_no_socket_can_have_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SocketError, match="shorter path"):
        run_on_uvloop(StatusServer.start(tmp_path / ("x" * 120), DOCUMENTS))


def test_a_node_that_is_another_users_cannot_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(_socket: socket.socket, _path: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def scenario(path: Path) -> None:
        monkeypatch.setattr(socket.socket, "connect", closed)
        with pytest.raises(SocketError, match="cannot be asked: Permission denied; do it as the"):
            ask(path, "status")
        monkeypatch.undo()

    within(tmp_path / "s", scenario)


def test_nobody_there_is_told_apart_from_a_bad_answer(tmp_path: Path) -> None:
    with pytest.raises(NotRunning):
        ask(tmp_path / "absent", "status")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead"))
    with pytest.raises(NotRunning):
        ask(tmp_path / "dead", "status")


def test_a_failing_hanging_or_unserialisable_document_is_an_error_of_that_answer_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "DOCUMENT_SECONDS", 0.05)

    async def fails() -> object:
        raise RuntimeError("the \x1b[31mstore is gone")

    async def hangs() -> object:
        await asyncio.Event().wait()
        return None

    async def odd(_count: int) -> object:
        return object()

    async def run() -> None:
        documents = Documents(status=fails, peers=hangs, rollouts=odd, why=DOCUMENTS.why)
        async with serving(tmp_path / "s", documents):
            for request, told in (
                ("status", r"RuntimeError: the \\x1b\[31mstore is gone"),
                ("peers", "no answer within"),
                ("rollouts 1", "TypeError"),
            ):
                with pytest.raises(SocketError, match=told):
                    await asked(tmp_path / "s", request)
            assert await asked(tmp_path / "s", "why x") == {"asked": ["why", "x"]}

    run_on_uvloop(run())


def test_clients_that_say_nothing_are_dropped_and_delay_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "REQUEST_SECONDS", 0.3)
    path = tmp_path / "s"

    async def run() -> None:
        async with serving(path):
            silent = [await asyncio.open_unix_connection(path) for _ in range(8)]
            assert await asked(path, "status") == {"asked": ["status"]}
            for reader, writer in silent:
                with contextlib.suppress(ConnectionError):
                    assert await asyncio.wait_for(reader.read(), 10) == b""
                writer.close()

    run_on_uvloop(run())


def test_a_client_that_reads_nothing_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "SEND_SECONDS", 0.2)
    path = tmp_path / "s"
    large = "x" * 4_000_000

    async def much() -> object:
        return large

    async def run() -> None:
        async with serving(path, Documents(much, much, DOCUMENTS.rollouts, DOCUMENTS.why)) as it:
            with socket.socket(socket.AF_UNIX) as slow:
                slow.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(slow, str(path))
                await loop.sock_sendall(slow, b"status\n")
                assert await asked(path, "peers") == large
                await open_connections(it, 0)

    run_on_uvloop(run())


@pytest.mark.parametrize("size", range(100_000, 400_000, 30_000))
def test_a_client_that_reads_late_gets_the_whole_answer(tmp_path: Path, size: int) -> None:
    path = tmp_path / "s"

    async def much() -> object:
        return "x" * size

    async def run() -> None:
        loop = asyncio.get_running_loop()
        documents = Documents(much, much, DOCUMENTS.rollouts, DOCUMENTS.why)
        async with serving(path, documents):
            with socket.socket(socket.AF_UNIX) as late:
                late.setblocking(False)
                await loop.sock_connect(late, str(path))
                await loop.sock_sendall(late, b"status\n")
                for _ in range(50):
                    await asyncio.sleep(0)
                received = b""
                while chunk := await loop.sock_recv(late, 1 << 16):
                    received += chunk
        assert len(json.loads(received)) == size

    run_on_uvloop(run())


def test_connections_beyond_the_limit_are_closed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s"

    async def run() -> None:
        async with serving(path) as server:
            held = [await asyncio.open_unix_connection(path) for _ in range(api.MAX_CONNECTIONS)]
            await open_connections(server, api.MAX_CONNECTIONS)
            with pytest.raises(SocketError, match="gives no answer, or is busy; try again") as told:
                await asked(path, "status")
            assert "Expecting value" not in str(told.value)
            assert "swarmnode logs" in str(told.value)
            for _reader, writer in held:
                writer.close()
            await open_connections(server, 0)
            assert await asked(path, "status") == {"asked": ["status"]}

    run_on_uvloop(run())


def test_an_answer_that_is_too_large_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "MAX_ANSWER_BYTES", 30)

    def scenario(path: Path) -> None:
        with pytest.raises(SocketError, match="too large; ask for less"):
            ask(path, "why " + "x" * 100)

    within(tmp_path / "s", scenario)


def test_an_answer_is_one_line_of_json(tmp_path: Path) -> None:
    def scenario(path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(b"status\n")
            received = b""
            while chunk := client.recv(4096):
                received += chunk
        assert received.endswith(b"\n")
        assert json.loads(received) == {"asked": ["status"]}

    within(tmp_path / "s", scenario)


def test_nothing_in_the_package_serves_http_but_the_dashboard_and_the_metrics() -> None:
    serving: set[str] = set()
    servers = {"http", "aiohttp", "starlette", "uvicorn", "websockets", "wsgiref", "socketserver"}
    folder = Path(api.__file__).parent.parent
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if {name.split(".")[0] for name in names} & servers:
                serving.add(str(path.relative_to(folder)))
    assert serving == {"api/dashboard.py", "api/metrics_door.py", "api/serving.py"}
