"""What goes wrong in the network process stands in the home's log, under its name."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
import structlog

from swarmnode.channel import CallFailed
from swarmnode.cli import main
from swarmnode.clock import SystemClock
from swarmnode.network.order import NetworkOrder
from swarmnode.network.remote import RemoteTransport
from swarmnode.networking import Networking
from swarmnode.observe.log import start_logging
from tests.unit.network_fake import FakeWorld
from tests.unit.network_made import RULES_BYTES, SWARM, private_key
from tests.unit.test_networking import in_process, order
from tests.unit.test_remote_transport import until


def logged(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[dict[str, object]]:
    """What `swarmnode logs` shows."""
    monkeypatch.setenv("SWARMNODE_HOME", str(home))
    monkeypatch.setattr(sys, "argv", ["swarmnode", "logs", "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_death_of_p2pd_stands_in_the_log_of_the_network_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o700)
    log_file = tmp_path / "log" / "network.jsonl"

    async def scenario() -> None:
        begin = NetworkOrder(
            private_key=private_key(1),
            swarm_id=SWARM,
            rules=RULES_BYTES,
            folder=str(tmp_path),
            listen=("/ip4/127.0.0.1/tcp/0",),
        )
        remote = RemoteTransport(
            begin, SystemClock(), on_saved_peers=lambda _: None, log_folder=tmp_path / "log"
        )
        await remote.start()
        try:
            assert await remote.begun() == ""
            assert remote.process_id is not None
            (p2pd,) = psutil.Process(remote.process_id).children()
            os.kill(p2pd.pid, signal.SIGKILL)
            await until(lambda: "p2pd ended" in log_file.read_text())
        finally:
            await remote.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))
    entries = logged(tmp_path, monkeypatch, capsys)
    assert {each["process"] for each in entries} == {"network"}
    assert {each["event"] for each in entries} == {"p2pd ended, or hung", "our peer is built anew"}
    assert log_file.stat().st_mode & 0o777 == 0o600


def test_a_fault_of_ours_in_a_method_is_logged_and_an_absent_peer_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_self: Networking, _payload: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Networking, "hold", broken)

    async def scenario() -> None:
        async with in_process(FakeWorld(SystemClock().now), []) as channel:
            await channel.call("start", order(1, tmp_path), 5)
            with pytest.raises(CallFailed, match="ZeroDivisionError"):
                await channel.call("hold", {}, 5)
            with pytest.raises(CallFailed, match="PeerUnreachable"):
                await channel.call("fetch", {"holder": "nobody", "request": b""}, 5)

    with structlog.testing.capture_logs() as entries:
        asyncio.run(asyncio.wait_for(scenario(), 30))
    (entry,) = entries
    assert (entry["event"], entry["method"], entry["exc_info"]) == ("failed", "hold", True)


def test_a_user_without_a_folder_of_its_own_can_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    logging = start_logging(tmp_path, "network")
    structlog.get_logger().info("begun")
    logging.close()
    assert json.loads((tmp_path / "network.jsonl").read_text())["event"] == "begun"
