"""What `swarmnode generate` says while the node won't have it: why, and that it tries again.

The door and its TLS are real, on loopback; nothing is sampled here.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from swarmnode import generating
from swarmnode.generating import Here, generate
from swarmnode.generator_key import make_key, tls_by
from swarmnode.remote_generators import Place
from swarmnode.stopping import Stopping
from tests.unit.test_remote_generators import guest, open_door, saying


class Once:
    """Stops as soon as the first try has said why it failed."""

    def __init__(self, logged: list[Any]) -> None:
        self._logged = logged

    async def unless(self, work: Coroutine[Any, Any, None]) -> bool:
        trying = asyncio.ensure_future(work)
        async with asyncio.timeout(60):
            while not self._whys():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        trying.cancel()
        await asyncio.gather(trying, return_exceptions=True)
        return False

    def _whys(self) -> list[str]:
        return [each["why"] for each in self._logged if each["event"] == "not with the node"]


async def tried(port: int, tls: ssl.SSLContext) -> str:
    """Why one try to generate for the node at this port ended."""
    with capture_logs() as logged:
        once = Once(logged)
        await generate(("127.0.0.1", port), tls, Here(), {}, cast("Stopping", once))
    (why,) = once._whys()
    return why


def test_a_node_with_another_key_or_without_a_place_is_told_apart(
    tmp_path: Path, told: Callable[[str], None]
) -> None:
    make_key(tmp_path / "other.pem")

    async def story() -> None:
        spot = Place("remote-1")
        async with open_door(tmp_path, [spot]) as door:
            key = tmp_path / "generators.pem"
            why = await tried(door.port, tls_by(tmp_path / "other.pem", serves=False))
            assert why.startswith("the node has another key (")
            told(why)
            careless = tls_by(tmp_path / "other.pem", serves=False)
            careless.verify_mode = ssl.CERT_NONE
            why = await tried(door.port, careless)
            assert "before it gave a place: take the key file that it has written" in why
            told(why)
            async with guest(door, key, saying()):
                await asyncio.wait_for(spot.begin(), 30)
                why = await tried(door.port, tls_by(key, serves=False))
                assert why == "all 1 places are taken (policy.remote_generators)"
                told(why)

    asyncio.run(story())


def test_a_node_of_another_version_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Callable[[str], None]
) -> None:
    monkeypatch.setattr(generating, "__version__", "0.0.1")

    async def story() -> None:
        async with open_door(tmp_path, [Place("remote-1")]) as door:
            why = await tried(door.port, tls_by(tmp_path / "generators.pem", serves=False))
            assert why.endswith("this generator 0.0.1: install the same on both")
            told(why)

    asyncio.run(story())


def test_a_machine_that_answers_nothing_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Callable[[str], None]
) -> None:
    make_key(tmp_path / "generators.pem")
    monkeypatch.setattr(generating, "CONNECT_SECONDS", 0.2)

    async def story() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            why = await tried(port, tls_by(tmp_path / "generators.pem", serves=False))
        assert why == "it does not answer"
        told(why)

    asyncio.run(story())
