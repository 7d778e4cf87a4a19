"""M14: the metrics at an address of their own: who may read them, and that there is nothing else.

A real uvicorn under uvloop on loopback; the daemon's own wiring opens it.
"""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from swarmnode.api.metrics_door import MetricsDoor
from swarmnode.api.moment import Moment
from swarmnode.api.secret import shared_secret
from swarmnode.config.settings import Settings, SettingsError, load_settings
from swarmnode.home import Home
from swarmnode.showing import show
from tests.security.test_dashboard import Answer, answer_of, run_on_uvloop
from tests.unit.dashboard_support import PEER, moment

SECRET = "m" * 24


async def _moment() -> Moment:
    return moment()


async def asked(address: str, path: str, method: str = "GET", **headers: str) -> Answer:
    """One request over a connection of its own."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 22)
    given = {"Host": "node-1:8471", "Connection": "close", **headers}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    async with asyncio.timeout(20):
        received = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer_of(received)


def test_who_has_the_secret_reads_the_metrics_and_nothing_else_and_others_nothing() -> None:
    async def run() -> None:
        door = await MetricsDoor.open("127.0.0.1", 0, SECRET, _moment)
        right = {"Authorization": f"Bearer {SECRET}"}
        try:
            answer = await asked(door.address, "/metrics", **right)
            assert answer.status == 200
            assert "swarmnode_round 41.0" in answer.body
            assert PEER not in answer.body, "no peer's name leaves by this door"
            assert (await asked(door.address, "/metrics", "HEAD", **right)).body == ""
            for path in ("/metrics", f"/{SECRET}/metrics", f"/{SECRET}/", "/", "/events"):
                for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": SECRET}):
                    refused = await asked(door.address, path, **headers)
                    assert refused.status == 401, path
                    assert "swarmnode_round" not in refused.body
                    assert SECRET not in refused.body
            for path in ("/", f"/{SECRET}/", "/events", "/metrics/", "/dashboard.js"):
                assert (await asked(door.address, path, **right)).status == 404, path
            for method in ("POST", "PUT", "DELETE", "OPTIONS"):
                assert (await asked(door.address, "/metrics", method, **right)).status == 405
        finally:
            await door.close()

    run_on_uvloop(run())


def opened(settings: Settings, home: Home) -> list[dict[str, Any]]:
    """What the daemon's wiring says in the log when it opens what is set, and closes it again."""
    import structlog

    nothing: Any = None

    async def run() -> None:
        async with AsyncExitStack() as stack:
            assert await show(stack, settings, home, nothing, nothing, nothing, nothing) == ""

    with structlog.testing.capture_logs() as told:
        run_on_uvloop(run())
    return [dict(each) for each in told]


def metrics_alone(**metrics: str) -> Settings:
    assignments = [f"metrics.{name}={value}" for name, value in metrics.items()]
    return load_settings(assignments=["dashboard.enabled=false", "metrics.port=0", *assignments])


def test_a_node_without_a_page_opens_the_metrics_with_a_secret_of_its_user_alone(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    (told,) = opened(metrics_alone(address="127.0.0.1"), home)
    assert told["event"] == "metrics"
    assert told["served_at"].endswith("/metrics")
    assert stat.S_IMODE(home.metrics_secret.stat().st_mode) == 0o600
    assert home.metrics_secret.read_text().strip() not in str(told)


def test_without_an_address_nothing_is_opened_and_no_secret_drawn(tmp_path: Path) -> None:
    assert opened(metrics_alone(), Home(tmp_path)) == []
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", ["", "short", "with a space in the middle of it", "\x1b" * 20])
def test_a_shared_secret_that_is_none_is_no_open_door(tmp_path: Path, content: str) -> None:
    file = tmp_path / "shared"
    file.write_text(content)
    settings = metrics_alone(address="127.0.0.1", secret_file=str(file))
    (told,) = opened(settings, Home(tmp_path))
    assert told["event"] == "no metrics"
    assert "16 or more characters" in told["why"]
    file.write_text("a-secret-of-many-letters\n")
    assert shared_secret(file) == "a-secret-of-many-letters"
    assert opened(settings, Home(tmp_path))[0]["event"] == "metrics"


def test_an_address_of_another_machine_is_a_line_in_the_log(
    tmp_path: Path, told: Callable[[str], None]
) -> None:
    (entry,) = opened(metrics_alone(address="192.0.2.1"), Home(tmp_path))
    assert entry["event"] == "no metrics"
    told(entry["event"])
    with pytest.raises(SettingsError, match="give an IP address"):
        load_settings(assignments=["metrics.address=everywhere"])


def test_what_is_opened_beyond_this_machine_is_said() -> None:
    assert metrics_alone(address="0.0.0.0").metrics.open_addresses == ("0.0.0.0 (metrics)",)
    assert metrics_alone(address="127.0.0.1").metrics.open_addresses == ()
    assert Settings().metrics.open_addresses == ()
