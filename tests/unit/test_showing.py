"""What the dashboard looks at: gathered when asked, and served within the daemon's stack."""

from __future__ import annotations

import asyncio
import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from swarmnode.config.dashboard import Dashboard
from swarmnode.config.settings import Settings
from swarmnode.home import Home
from swarmnode.memories import Memories
from swarmnode.observe.history import History
from swarmnode.showing import IDLE_SECONDS, LOG_ENTRIES, Looking, show
from swarmnode.store.store import Store
from swarmnode.telling import ConnectedTransport
from swarmnode.vitals import Vitals
from tests.unit.dashboard_support import history, learned
from tests.unit.network_time import FixedClock
from tests.unit.test_vitals import vitals_of


class Near:
    async def health(self) -> Mapping[str, Any]:
        return {"state": "connected", "peers": 1, "addresses": (), "bootstrap": ()}

    async def peers(self) -> Sequence[Mapping[str, Any]]:
        return [{"peer_id": "12D3Near", "seconds_connected": 5.0}]


def looking(home: Path, settings: Settings, clock: FixedClock) -> tuple[Looking, Vitals]:
    vitals = vitals_of(settings, home)
    memories = Memories(cast("Store", None), clock)
    transport = cast("ConnectedTransport", Near())
    (home / "log").mkdir(exist_ok=True)
    return Looking(settings, vitals, memories, transport, home / "log", clock), vitals


def write(home: Path, count: int, process: str = "daemon") -> None:
    with (home / "log" / f"{process}.jsonl").open("a", encoding="utf-8") as file:
        for number in range(count):
            file.write(json.dumps({"time": f"{number:06}", "event": f"entry {number}"}) + "\n")


def test_a_moment_has_status_peers_rounds_answers_and_the_end_of_the_log(tmp_path: Path) -> None:
    look, vitals = looking(tmp_path, Settings(), FixedClock())
    write(tmp_path, 10_000)
    vitals.history = history(3)
    vitals.round_number = 3
    vitals.learned(*learned())
    try:
        first = asyncio.run(look.moment())
        assert first.status.network.state == "connected"
        assert [each.peer for each in first.peers] == ["12D3Near"]
        assert len(first.history.points) == 3
        assert [each.round for each in first.groups] == [3, 3, 3]
        assert [each["event"] for each in first.log][-1] == "entry 9999"
        assert len(first.log) == LOG_ENTRIES
        assert first.earlier is None
        write(tmp_path, 1, "network")
        second = asyncio.run(look.moment())
        assert [each["event"] for each in second.log][-1] == "entry 0"
        assert second.earlier == first.status
    finally:
        look.close()


def test_after_a_pause_the_log_is_read_from_near_its_end_again(tmp_path: Path) -> None:
    clock = FixedClock()
    look, _ = looking(tmp_path, Settings(), clock)
    write(tmp_path, 5)
    try:
        assert len(asyncio.run(look.moment()).log) == 5
        write(tmp_path, 100_000)
        clock.seconds += IDLE_SECONDS + 1.0
        begun = time.process_time()
        found = asyncio.run(look.moment()).log
        assert time.process_time() - begun < 0.5
        assert len(found) == LOG_ENTRIES
    finally:
        look.close()


def test_a_round_costs_the_dashboard_nothing_worth_speaking_of() -> None:
    vitals = History()
    begun = time.process_time()
    for number in range(500):
        vitals.add({"round": number, "reward/local": {"gcd": 0.5}, "metrics": {}}, 1.0)
    # A hundred rounds a second would take 5 % of a processor at the worst.
    assert (time.process_time() - begun) / 500 < 0.0005


def opened(home: Home, settings: Settings, within: Any) -> str:
    """Serve it, ask `within` the address, and end."""

    async def run() -> str:
        vitals = vitals_of(settings, home.path)
        memories = Memories(cast("Store", None), FixedClock())
        transport = cast("ConnectedTransport", Near())
        async with AsyncExitStack() as stack:
            address = await show(stack, settings, home, vitals, memories, transport, FixedClock())
            assert (address != "") == (vitals.dashboard != "")
            if address:
                assert address.startswith(f"{vitals.dashboard}/")
                await asyncio.to_thread(within, address)
        return address

    return asyncio.run(run())


def fetched(address: str) -> str:
    with urllib.request.urlopen(address, timeout=20) as answer:
        text: str = answer.read().decode()
    return text


def test_it_is_served_until_the_daemon_ends_and_has_the_same_secret_afterwards(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    home.make()
    settings = Settings(dashboard=Dashboard(port=0))
    seen: list[str] = []
    first = opened(home, settings, lambda address: seen.append(fetched(address)))
    assert "Starting." in seen[0]
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        fetched(first)
    second = opened(home, settings, lambda address: seen.append(fetched(f"{address}metrics")))
    assert "swarmnode_peers_connected" in seen[1]
    assert first.rsplit("/", 2)[1] == second.rsplit("/", 2)[1]


def test_switched_off_there_is_neither_a_page_nor_a_secret(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.make()
    off = Settings(dashboard=Dashboard(enabled=False))
    assert opened(home, off, fetched) == ""
    assert not home.dashboard_secret.exists()


def test_an_address_that_is_none_of_this_machine_costs_the_page_alone(
    tmp_path: Path, told: Callable[[str], None]
) -> None:
    home = Home(tmp_path)
    home.make()
    settings = Settings(dashboard=Dashboard(address="192.0.2.1"))
    with capture_logs() as logged:
        assert opened(home, settings, fetched) == ""
    (entry,) = logged
    assert entry["why"]
    told(entry["event"])


def test_a_taken_port_is_another_port(tmp_path: Path, told: Callable[[str], None]) -> None:
    home = Home(tmp_path)
    home.make()
    with socket.create_server(("127.0.0.1", 0)) as taken, capture_logs() as logged:
        port = taken.getsockname()[1]
        settings = Settings(dashboard=Dashboard(port=port))
        seen: list[str] = []
        address = opened(home, settings, lambda address: seen.append(fetched(address)))
        assert f":{port}/" not in address
    assert seen
    (entry,) = (each for each in logged if each.get("port") == port)
    told(entry["event"])
