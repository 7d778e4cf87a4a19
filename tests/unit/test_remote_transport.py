"""The daemon's side of the network process, against one that is stopped, killed or never begins."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from swarmnode.clock import SystemClock
from swarmnode.network.order import NetworkOrder
from swarmnode.network.remote import RemoteTransport
from swarmnode.network.remote_process import Patience
from swarmnode.network.transport import Delivered, TransportError
from swarmproto import Bundle, BundleHeader, FetchRequest, PolicyLabel
from tests.unit.network_children import PORT

SWARM = b"s" * 32
REQUEST = FetchRequest(SWARM, b"b" * 32, (0,))
PATIENCE = Patience(
    start=20.0,
    between_looks=0.05,
    silence=0.6,
    quiet=0.25,
    first_pause=0.05,
    longest_pause=0.2,
    steady=0.5,
    between_saves=0.1,
    stop=5.0,
)


@dataclass
class Scene:
    transport: RemoteTransport
    folder: Path
    saved: list[tuple[str, ...]] = field(default_factory=list)

    def said(self, first: str) -> list[list[Any]]:
        """What was asked of all lives of the process, of one kind, without that word."""
        path = self.folder / "said"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line[1:] for line in map(json.loads, lines) if line[0] == first]

    async def state(self) -> str:
        return str((await self.transport.health())["state"])


def order(folder: Path, rules: bytes = b"rules") -> NetworkOrder:
    return NetworkOrder(
        private_key=b"k" * 32,
        swarm_id=SWARM,
        rules=rules,
        folder=str(folder),
        listen=("/ip4/127.0.0.1/tcp/0",),
        saved_peers=("an old peer",),
    )


@asynccontextmanager
async def scene(folder: Path, rules: bytes = b"rules") -> AsyncIterator[Scene]:
    saved: list[tuple[str, ...]] = []
    transport = RemoteTransport(
        order(folder, rules),
        SystemClock(),
        on_saved_peers=lambda peers: saved.append(tuple(peers)),
        patience=PATIENCE,
        module="tests.unit.network_children",
    )
    await transport.start()
    try:
        yield Scene(transport, folder, saved)
    finally:
        await transport.close()
    assert transport.process_id is None


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 30.0))


async def until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    while True:
        outcome = condition()
        if outcome if isinstance(outcome, bool) else await outcome:
            return
        await asyncio.sleep(0.01)


def bundle(groups: int) -> Bundle:
    header = BundleHeader(SWARM, b"p" * 32, 1, 1, PolicyLabel("tiny", 0, bytes(32)), ())
    return Bundle(header, b"header", tuple(b"group" for _ in range(groups)))


def lives(process_id: int) -> bool:
    try:
        status = Path(f"/proc/{process_id}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"


def test_every_method_reaches_the_network_process_and_its_answers_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with scene(tmp_path) as here:
            remote = here.transport
            assert (await remote.health())["state"] == "starting"
            assert await remote.begun() == ""
            assert remote.holders == ("a holder",)
            await remote.announce(b"announcement", bundle(2), time.time() + 100)
            await remote.hold(b"theirs", b"header", {3: b"group"}, time.time() + 100)
            assert here.said("announce") == [["announcement", 2]]
            assert here.said("hold") == [["theirs", [3]]]
            assert await remote.discover(2) == [Delivered(b"one", "a peer"), Delivered(b"two", "")]
            assert (await remote.fetch("somebody", REQUEST)).status == "missing"
            assert await remote.prefixes_of(["one", "two"]) == ["prefix of one", "prefix of two"]
            assert (await remote.peers())[0]["peer_id"] == "a peer"
            assert await remote.swarm_file(SWARM, "an address") == (b"rules", ["a bootstrap peer"])
            await remote.good_peer("an address")
            await remote.bad_peer("a peer", 60.0)
            assert here.said("verdict") == [
                [{"address": "an address"}],
                [{"peer_id": "a peer", "seconds": 60.0}],
            ]
            health = await remote.health()
            assert (health["state"], health["peers"], health["restarts"]) == ("connected", 3, 1)
            assert health["swarm_size"] == 0
            assert "A_SECRET" not in here.said("start")[0][3]
        assert here.said("stop") == [[]]
        assert here.saved[-1] == ("a good peer",)

    monkeypatch.setenv("A_SECRET", "1")
    run(scenario())


@pytest.mark.parametrize(
    ("holder", "message"), [("unreachable", "no answer"), ("nonsense", "no response")]
)
def test_a_fetch_that_fails_is_a_transport_error(tmp_path: Path, holder: str, message: str) -> None:
    async def scenario() -> None:
        async with scene(tmp_path) as here:
            await here.transport.begun()
            with pytest.raises(TransportError, match=message):
                await here.transport.fetch(holder, REQUEST)
            with pytest.raises(TransportError, match="no swarm file"):
                await here.transport.swarm_file(SWARM, "nonsense")

    run(scenario())


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_or_hanging_process_is_replaced_and_told_what_the_last_one_knew(
    tmp_path: Path, signal_number: signal.Signals
) -> None:
    async def scenario() -> None:
        async with scene(tmp_path, b"with a child") as here:
            remote = here.transport
            await remote.begun()
            await remote.announce(b"expired", bundle(1), time.time() - 1)
            await remote.announce(b"kept", bundle(1), time.time() + 100)
            await until(lambda: ("a good peer",) in here.saved)
            waiting = asyncio.ensure_future(remote.fetch("never", REQUEST))
            await asyncio.sleep(0)
            first = remote.process_id
            assert first is not None
            os.kill(first, signal_number)
            with pytest.raises(TransportError):
                await waiting
            await remote.announce(b"in between", bundle(1), time.time() + 100)
            await until(lambda: len(here.said("start")) == 2)
            assert remote.process_id != first
            await until(lambda: here.said("announce")[2:] == [["kept", 1], ["in between", 1]])
            assert here.said("start")[0][1:3] == [["/ip4/127.0.0.1/tcp/0"], ["an old peer"]]
            assert here.said("start")[1][1:3] == [
                [f"/ip4/127.0.0.1/tcp/{PORT}"],
                ["a good peer"],
            ]
            await until(lambda: _is(here, "connected"))
            assert (await remote.health())["restarts"] == 2
            assert not lives(first)
            assert not lives(here.said("child")[0][0])

    run(scenario())


async def _is(here: Scene, state: str) -> bool:
    return await here.state() == state


def test_a_silent_process_is_told_as_down_before_it_counts_as_hung(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scene(tmp_path) as here:
            await here.transport.begun()
            first = here.transport.process_id
            assert first is not None
            os.kill(first, signal.SIGSTOP)
            await until(lambda: _is(here, "down"))
            health = await here.transport.health()
            assert "has not answered for" in health["error"]
            assert health["down_since"] <= time.time()
            assert health["peers"] == 0
            await until(lambda: here.transport.process_id != first)

    run(scenario())


def test_a_start_that_fails_is_told_in_one_line_and_tried_again_while_nothing_waits(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with scene(tmp_path, b"port taken") as here:
            remote = here.transport
            assert await remote.begun() == "start: OSError: port 4001 is taken by process 7"
            health = await remote.health()
            assert health["state"] == "down"
            assert health["error"] == "start: OSError: port 4001 is taken by process 7"
            assert time.time() - 30 < health["down_since"] <= time.time()
            since = health["down_since"]
            await remote.announce(b"announcement", bundle(1), time.time() + 100)
            assert await remote.discover(10) == []
            assert await remote.peers() == []
            assert remote.holders == ()
            with pytest.raises(TransportError, match="port 4001 is taken"):
                await remote.fetch("somebody", REQUEST)
            await until(lambda: len(here.said("start")) == 3)
            health = await remote.health()
            assert health["restarts"] >= 2
            assert health["down_since"] == since

    run(scenario())


def test_a_process_whose_answers_have_no_shape_is_ended_and_tried_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scene(tmp_path, b"no shape") as here:
            assert "addresses" in await here.transport.begun()
            await until(lambda: len(here.said("start")) == 2)

    run(scenario())


def test_a_process_that_is_leaving_is_asked_nothing_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scene(tmp_path, b"slow to stop") as here:
            await here.transport.begun()
            await until(lambda: len(here.said("holders")) > 1)
        words = [json.loads(line)[0] for line in (tmp_path / "said").read_text().splitlines()]
        assert words[words.index("stop") :] == ["stop", "stopped"]

    run(scenario())


def test_closing_ends_a_process_that_hangs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with scene(tmp_path) as here:
            await here.transport.begun()
            process_id = here.transport.process_id
            assert process_id is not None
            os.kill(process_id, signal.SIGSTOP)
        assert not lives(process_id)

    run(scenario())


def test_closing_while_nothing_has_begun_or_nothing_was_started_leaves_no_process(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with scene(tmp_path) as here:
            await until(lambda: here.transport.process_id is not None)
            process_id = here.transport.process_id
        assert process_id is not None
        assert not lives(process_id)
        never = RemoteTransport(order(tmp_path), SystemClock(), on_saved_peers=lambda _: None)
        await never.close()

    run(scenario())


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
@pytest.mark.parametrize("stopped", [False, True])
def test_no_network_process_outlives_a_parent_that_is_killed(tmp_path: Path, stopped: bool) -> None:
    program = (
        "import asyncio\n"
        "from pathlib import Path\n"
        "from tests.unit.test_remote_transport import scene\n"
        "async def main():\n"
        f"    async with scene(Path({str(tmp_path)!r})) as here:\n"
        "        await here.transport.begun()\n"
        "        print(here.transport.process_id, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    process_id = int(parent.stdout.readline())
    if stopped:
        os.kill(process_id, signal.SIGSTOP)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 5
    while lives(process_id) and time.monotonic() < deadline:
        pass
    assert not lives(process_id)


def test_a_port_that_was_drawn_is_kept_where_it_is_clear_which() -> None:
    one = order(Path("folder"))
    addresses = ["/ip4/127.0.0.1/tcp/4001/p2p/x", "/ip4/10.0.0.2/tcp/4001/p2p/x"]
    assert one.with_drawn_port(addresses).listen == ("/ip4/127.0.0.1/tcp/4001",)
    assert one.with_drawn_port([*addresses, "/ip4/1.2.3.4/tcp/5/p2p/x"]) == one
    assert one.with_drawn_port([]) == one
    relay = "/ip4/192.0.2.1/tcp/4009/p2p/relay/p2p-circuit/p2p/x"
    assert one.with_drawn_port([*addresses, relay]).listen == ("/ip4/127.0.0.1/tcp/4001",)


def test_ports_are_drawn_by_protocol_and_on_local_networks_apart() -> None:
    one = order(Path("folder"))
    asked = ("/ip4/0.0.0.0/udp/0/quic-v1", "/ip6/::/tcp/0", "/ip4/0.0.0.0/tcp/4001")
    addresses = [
        "/ip4/192.0.2.1/udp/50001/quic-v1/p2p/x",
        "/ip4/127.0.0.1/udp/50001/quic-v1/p2p/x",
        "/ip6/2001:db8::1/tcp/50002/p2p/x",
        "/ip4/192.0.2.1/tcp/4001/p2p/x",
    ]
    drawn = replace(one, listen=asked).with_drawn_port(addresses).listen
    assert drawn == ("/ip4/0.0.0.0/udp/50001/quic-v1", "/ip6/::/tcp/50002", asked[2])
    near = ["/ip4/192.168.1.2/tcp/50003/p2p/x", "/ip4/127.0.0.1/tcp/9/p2p/x", addresses[3]]
    lan = replace(one, listen=(), lan=True)
    assert lan.with_drawn_port(near).lan_port == 50003
    assert lan.with_drawn_port([*near, "/ip4/10.0.0.1/tcp/4/p2p/x"]) == lan
