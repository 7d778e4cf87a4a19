"""M14: the dashboard: who may read it, what a browser may do with it, and what clients may not do.

A real uvicorn under uvloop on loopback, spoken to over raw sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvloop

from swarmnode.api import live, serving
from swarmnode.api.dashboard import Dashboard
from swarmnode.api.guard import HEADERS
from swarmnode.api.moment import Moment
from swarmnode.api.secret import address_of, load_or_draw_secret, read_secret
from swarmnode.config.dashboard import Dashboard as Settings
from tests.unit.dashboard_support import MARKUP, evil_moment, history, moment, report

SECRET = "s" * 24
METRICS_SECRET = "m" * 24


def run_on_uvloop(main: Coroutine[Any, Any, Any]) -> None:
    """As the daemon does."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: str


async def _moment() -> Moment:
    return moment()


class Served(Dashboard):
    """A dashboard that knows its clients, so that none outlives its test."""

    clients: tuple[asyncio.StreamWriter, ...] = ()


@contextlib.asynccontextmanager
async def serving_it(
    look: Callable[[], Awaitable[Moment]] = _moment, **settings: Any
) -> AsyncIterator[Served]:
    given = Settings(**{"port": 0, **settings})
    dashboard = await Served.open(given, SECRET, METRICS_SECRET, look)
    try:
        yield dashboard
    finally:
        async with asyncio.timeout(10):
            await dashboard.close()
        for client in dashboard.clients:
            client.transport.abort()
        await asyncio.sleep(0)


def port_of(dashboard: Served) -> int:
    return int(dashboard.address.rpartition(":")[2])


async def connected(dashboard: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(dashboard), limit=1 << 22)
    dashboard.clients = (*dashboard.clients, writer)
    return reader, writer


async def asked(
    dashboard: Served, path: str, method: str = "GET", host: str = "", **headers: str
) -> Answer:
    """One request over a connection of its own."""
    reader, writer = await connected(dashboard)
    given = {"Host": host or f"127.0.0.1:{port_of(dashboard)}", "Connection": "close"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    async with asyncio.timeout(20):
        received = await reader.read()
    writer.close()
    return answer_of(received)


def answer_of(received: bytes) -> Answer:
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode().splitlines()
    told = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return Answer(int(first.split()[1]), told, body.decode("utf-8", "replace"))


def test_the_page_its_files_and_the_metrics_are_served_to_who_knows_the_secret() -> None:
    async def run() -> None:
        async with serving_it() as it:
            page = await asked(it, f"/{SECRET}/")
            assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
            assert "Training in a swarm of 7" in page.body
            for name in set(re.findall(r'(?:src|href)="([\w.]+)"', page.body)):
                file = await asked(it, f"/{SECRET}/{name}")
                assert (file.status, bool(file.body)) == (200, True)
            metrics = await asked(it, f"/{SECRET}/metrics")
            assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
            assert "swarmnode_round 41.0" in metrics.body
            assert (await asked(it, f"/{SECRET}/", "HEAD")).body == ""
            assert (await asked(it, f"/{SECRET}/../key")).status == 404
            assert (await asked(it, f"/{SECRET}/uplot.LICENSE")).status == 404

    run_on_uvloop(run())


@pytest.mark.parametrize(
    "path",
    ["/", "/metrics", "/favicon.ico", f"/{SECRET[:-1]}/", f"/{SECRET}x/", "/%73ecret/", "//",
     "/dashboard.css", "/x/events", "/x/metrics", f"/?{SECRET}", f"/x/{SECRET}/"],
)  # fmt: skip
def test_without_the_secret_nothing_is_told(path: str, told: Callable[[str], None]) -> None:
    async def run() -> None:
        async with serving_it() as it:
            answer = await asked(it, path)
            assert answer.status == 403
            told(answer.body)
            assert "swarmnode status" in answer.body
            assert SECRET not in answer.body

    run_on_uvloop(run())


def test_prometheus_may_give_the_secret_in_a_header() -> None:
    async def run() -> None:
        async with serving_it() as it:
            right = await asked(it, "/metrics", Authorization=f"Bearer {SECRET}")
            own = await asked(it, "/metrics", Authorization=f"bearer {METRICS_SECRET}")
            assert (own.status, own.body) == (200, right.body)
            wrong = await asked(it, "/metrics", Authorization="Bearer x")
            other = await asked(it, "/", Authorization=f"Bearer {SECRET}")
            assert (right.status, wrong.status, other.status) == (200, 403, 403)

    run_on_uvloop(run())


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"])
def test_nothing_can_be_changed_and_no_other_origin_is_ever_allowed(method: str) -> None:
    async def run() -> None:
        async with serving_it() as it:
            answer = await asked(it, f"/{SECRET}/", method, Origin="https://evil.example")
            assert answer.status == 405
            assert not [name for name in answer.headers if name.startswith("access-control")]

    run_on_uvloop(run())


@pytest.mark.parametrize(
    ("host", "status"),
    [("evil.example", 421), ("127.0.0.1.evil.example", 421), ("localhost.evil.example:8470", 421),
     ("", 200), ("localhost:9999", 200), ("LOCALHOST", 200), ("[::1]:8470", 200),
     ("192.0.2.7:8470", 200), ("node.example", 200), ("[::1", 421), ("a b", 421)],
)  # fmt: skip
def test_a_name_that_was_pointed_here_by_somebody_else_is_refused(
    host: str, status: int, told: Callable[[str], None]
) -> None:
    async def run() -> None:
        async with serving_it(hosts=("node.example",)) as it:
            answer = await asked(it, f"/{SECRET}/", host=host)
            assert answer.status == status
            if status == 421:
                told(answer.body)

    run_on_uvloop(run())


def test_a_request_without_a_host_is_refused() -> None:
    async def run() -> None:
        async with serving_it() as it:
            reader, writer = await connected(it)
            writer.write(f"GET /{SECRET}/ HTTP/1.0\r\n\r\n".encode())
            assert answer_of(await reader.read()).status == 421
            writer.close()

    run_on_uvloop(run())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "http://localhost:8470"}, 200),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "no-cors"}, 403),
        ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate",
          "Sec_Fetch_Dest": "iframe"}, 403),
        ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate",
          "Sec_Fetch_Dest": "document"}, 200),
        ({"Sec_Fetch_Site": "same-origin"}, 200),
        ({"Sec_Fetch_Site": "none"}, 200),
    ],
)  # fmt: skip
def test_what_another_page_asks_for_is_refused_even_with_the_secret(
    headers: dict[str, str], status: int
) -> None:
    async def run() -> None:
        async with serving_it() as it:
            answer = await asked(it, f"/{SECRET}/", host="localhost:8470", **headers)
            assert answer.status == status

    run_on_uvloop(run())


def test_every_answer_says_what_a_browser_may_do_with_it() -> None:
    async def run() -> None:
        async with serving_it() as it:
            for path in (f"/{SECRET}/", f"/{SECRET}/dashboard.js", "/", f"/{SECRET}/nothing"):
                answer = await asked(it, path)
                for name, value in HEADERS.items():
                    assert answer.headers[name.lower()] == value
                assert "server" not in answer.headers
        policy = HEADERS["Content-Security-Policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert "require-trusted-types-for 'script'" in policy

    run_on_uvloop(run())


async def _evil() -> Moment:
    return evil_moment()


def test_hostile_text_reaches_no_page_and_no_event_raw() -> None:
    async def run() -> None:
        async with serving_it(_evil) as it:
            page = (await asked(it, f"/{SECRET}/")).body
            assert MARKUP not in page
            assert "&lt;script&gt;" in page
            assert all(each.isprintable() or each == "\n" for each in page)
            reader, writer = await listening(it)
            sent = "".join([await line(reader) for _ in range(40)])
            assert MARKUP in sent
            assert all(each.isprintable() or each in "\r\n" for each in sent)
            writer.close()

    run_on_uvloop(run())


async def listening(it: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A page that listens to events."""
    reader, writer = await connected(it)
    writer.write(f"GET /{SECRET}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return reader, writer


async def line(reader: asyncio.StreamReader) -> str:
    async with asyncio.timeout(20):
        return (await reader.readline()).decode()


async def data_of(reader: asyncio.StreamReader, event: str) -> Any:
    """The data of the next such event."""
    async with asyncio.timeout(20):
        while (await reader.readline()).decode().strip() != f"event: {event}":
            pass
        return json.loads((await reader.readline()).decode().removeprefix("data: "))


def test_a_page_hears_of_all_there_is_and_then_of_what_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.02)
    told = history()
    looks = 0

    async def look() -> Moment:
        nonlocal looks
        looks += 1
        return moment(history=told)

    async def run() -> None:
        async with serving_it(look) as it:
            await asyncio.sleep(0.2)
            assert looks == 0
            reader, writer = await listening(it)
            assert (await data_of(reader, "history"))["round"] == list(range(12))
            assert "state" in await data_of(reader, "part")
            told.add(report(12), 1.0)
            assert (await data_of(reader, "points"))["round"] == [12]
            assert it.pages == 1
            writer.close()
            async with asyncio.timeout(10):
                while it.pages:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            seen = looks
            await asyncio.sleep(0.2)
            assert looks == seen

    run_on_uvloop(run())


def test_a_burst_of_rounds_is_a_few_looks_and_a_slow_page_is_owed_the_last_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(serving, "SEND_SECONDS", 120.0)
    told = history()
    looks = 0

    async def look() -> Moment:
        nonlocal looks
        looks += 1
        log = tuple({"event": f"after {told.added} {'x' * 2000}"} for _ in range(20))
        return moment(history=told, log=log)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with serving_it(look) as it:
            with socket.socket() as slow:
                await ask_for_events(slow, it)
                await until(lambda: it.pages == 1)
                begun = loop.time()
                for number in range(12, 312):
                    told.add(report(number), 1.0)
                    await asyncio.sleep(0.002)
                assert looks < 5 + (loop.time() - begun) / 0.05
                await until(lambda: looks > 20)
                # Nothing piled up for the page that did not read: it is sent what is, not what was.
                received = b""
                async with asyncio.timeout(30):
                    while f"after {told.added} ".encode() not in received:
                        chunk = await loop.sock_recv(slow, 1 << 16)
                        assert chunk, "the page was dropped"
                        received += chunk
                assert len(received) < 10 * 60_000

    run_on_uvloop(run())


async def ask_for_events(client: socket.socket, it: Served) -> None:
    """A page that reads when it is made to."""
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, ("127.0.0.1", port_of(it)))
    asking = f"GET /{SECRET}/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    await loop.sock_sendall(client, asking.encode())


def test_a_page_that_reads_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "SEND_SECONDS", 0.3)
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.02)
    looks = 0

    async def look() -> Moment:
        nonlocal looks
        looks += 1
        return moment(log=tuple({"event": f"{looks} {'x' * 3900}"} for _ in range(60)))

    async def run() -> None:
        async with serving_it(look) as it:
            with socket.socket() as dead:
                await ask_for_events(dead, it)
                await until(lambda: it.pages == 1)
                await until(lambda: it.pages == 0 and it.connections == 0)

    run_on_uvloop(run())


async def until(so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def test_a_client_that_asks_too_slowly_is_dropped_and_delays_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "REQUEST_SECONDS", 0.4)

    async def run() -> None:
        async with serving_it() as it:
            reader, writer = await connected(it)
            writer.write(b"GET / HTTP/1.1\r\nHost: loc")
            silent, _ = await connected(it)
            assert (await asked(it, f"/{SECRET}/")).status == 200
            for each in (reader, silent):
                with contextlib.suppress(ConnectionError):
                    assert await asyncio.wait_for(each.read(), 10) == b""
            writer.close()

    run_on_uvloop(run())


def test_connections_and_pages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 6)

    async def run() -> None:
        async with serving_it() as it:
            pages = [await listening(it) for _ in range(4)]
            for reader, _ in pages:
                await data_of(reader, "history")
            held = [await connected(it) for _ in range(6)]
            await until(lambda: it.connections <= 6)
            gone = 0
            for reader, _ in held:
                with contextlib.suppress(TimeoutError, ConnectionError):
                    gone += await asyncio.wait_for(reader.read(1), 0.3) == b""
            assert gone >= 4
            for _, writer in (*held, *pages):
                writer.close()
            await until(lambda: it.connections == 0)
            assert (await asked(it, f"/{SECRET}/")).status == 200

    run_on_uvloop(run())


def test_one_page_too_many_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with serving_it() as it:
            pages = [await listening(it) for _ in range(live.MOST_PAGES)]
            for reader, _ in pages:
                await data_of(reader, "history")
            assert (await asked(it, f"/{SECRET}/events")).status == 503
            assert (await asked(it, f"/{SECRET}/")).status == 200
            for _, writer in pages:
                writer.close()

    run_on_uvloop(run())


def test_rubbish_and_large_requests_are_refused() -> None:
    async def run() -> None:
        async with serving_it() as it:
            for sent in (b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\nX: " + b"a" * 40_000,
                         b"G" * 50_000):  # fmt: skip
                reader, writer = await connected(it)
                writer.write(sent + b"\r\n\r\n")
                with contextlib.suppress(ConnectionError):
                    async with asyncio.timeout(10):
                        assert answer_of(await reader.read()).status == 400
                writer.close()
            assert (await asked(it, f"/{SECRET}/")).status == 200

    run_on_uvloop(run())


def test_a_node_that_cannot_be_looked_at_costs_its_answers_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.02)
    broken = False

    async def look() -> Moment:
        if broken:
            raise RuntimeError("the store is gone")
        return moment()

    async def run() -> None:
        nonlocal broken
        async with serving_it(look) as it:
            reader, writer = await listening(it)
            await data_of(reader, "history")
            broken = True
            await asyncio.sleep(1.1)
            answer = await asked(it, f"/{SECRET}/metrics")
            assert (answer.status, "store" in answer.body) == (500, False)
            assert it.pages == 1
            broken = False
            assert (await asked(it, f"/{SECRET}/metrics")).status == 200
            writer.close()

    run_on_uvloop(run())


def test_a_port_in_use_means_another_one_and_the_next_start_has_the_first_again() -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            async with serving_it(port=port) as it:
                assert it.elsewhere
                assert port_of(it) != port
                assert (await asked(it, f"/{SECRET}/")).status == 200
        for _ in range(3):
            async with serving_it(port=port) as it:
                assert (it.elsewhere, port_of(it)) == (False, port)
                reader, _ = await listening(it)
                await data_of(reader, "history")

    run_on_uvloop(run())


def test_by_default_this_machine_alone_can_reach_it() -> None:
    assert Settings().open_addresses == ()
    assert Settings(address="0.0.0.0").open_addresses == ("0.0.0.0 (dashboard)",)
    assert Settings(address="0.0.0.0", enabled=False).open_addresses == ()
    with pytest.raises(ValueError, match="IP address"):
        Settings(address="localhost")

    async def run() -> None:
        async with serving_it(port=0) as it:
            assert it.address.startswith("http://127.0.0.1:")

    run_on_uvloop(run())


def test_the_secret_is_drawn_once_is_its_users_alone_and_is_drawn_anew_once_others_saw_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "secret"
    assert read_secret(path) == ""
    first = load_or_draw_secret(path)
    assert (len(first), stat.S_IMODE(path.stat().st_mode)) == (24, 0o600)
    assert load_or_draw_secret(path) == first
    path.chmod(0o644)
    assert read_secret(path) == ""
    second = load_or_draw_secret(path)
    assert second != first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("short\n")
    assert len(load_or_draw_secret(path)) == 24
    assert address_of("http://127.0.0.1:1", "abc") == "http://127.0.0.1:1/abc/"
