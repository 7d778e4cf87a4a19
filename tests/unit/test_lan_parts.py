"""What is said on a local network and by whom it is read: messages, sockets, interfaces, limits."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Network
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from zeroconf import DNSOutgoing, DNSPointer, DNSService, DNSText

from swarmnode.network.lan_links import GROUP, TAKEN, TOGETHER, MulticastLink
from swarmnode.network.lan_messages import (
    MESSAGE_BYTES_MAX,
    NODES_PER_MESSAGE_MAX,
    NOTHING,
    Heard,
    Language,
    Seen,
    service_type,
)
from swarmnode.network.neighbours import (
    RETRY_SECONDS,
    SHUN_SECONDS,
    TOLD_BY_HOST_MAX,
    TOLD_MAX,
    Neighbours,
)
from swarmnode.network.premises import LAST_RESORT, PLACES_MAX, Place, Premises, places_of
from swarmproto import SwarmSecret
from tests.unit.lan_support import LOOPBACK, peer_id, place_of
from tests.unit.network_made import SWARM

SERVICE = service_type(SWARM, None)
OURS = Language(SERVICE, "0" * 16)
THEIRS = Language(SERVICE, "1" * 16)


def made(text: bytes, *, ttl: int = 120, port: int = 4001, nodes: int = 1) -> bytes:
    """A response as zeroconf writes it, of which anything may be wrong."""
    said = DNSOutgoing(0x8400)
    for number in range(nodes):
        name = f"node{number}.{SERVICE}"
        said.add_answer_at_time(DNSPointer(SERVICE, 12, 1, ttl, name), 0)
        said.add_answer_at_time(DNSService(name, 33, 1, ttl, 0, 0, port, "host.local."), 0)
        said.add_answer_at_time(DNSText(name, 16, 1, ttl, text), 0)
    return bytes(said.packets()[0])


def entry(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def test_what_a_node_says_of_itself_is_understood_by_its_swarm_alone() -> None:
    answer = THEIRS.answer(peer_id(1), "192.168.1.2", 4001)
    assert OURS.heard(answer) == Heard(False, (Seen(peer_id(1), 4001),))
    assert OURS.heard(THEIRS.question()) == Heard(True, ())
    for other in (service_type(bytes(32), None), service_type(SWARM, SwarmSecret(bytes(32)))):
        stranger = Language(other, "2" * 16)
        assert stranger.heard(answer) == NOTHING
        assert stranger.heard(THEIRS.question()) == NOTHING
    assert len(answer) < 512
    host = socket.gethostname().encode()
    assert host not in answer, "no host name leaves"


def test_the_service_name_has_the_form_that_dns_sd_asks_for() -> None:
    name = SERVICE.removesuffix("._tcp.local.")
    assert name.startswith("_")
    assert len(name) <= 16
    assert set(name) <= set("_abcdefghijklmnopqrstuvwxyz0123456789-")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        entry(b"v=1"),
        entry(b"id=" + peer_id(1).encode()),
        entry(b"v=2") + entry(b"id=" + peer_id(1).encode()),
        entry(b"v=1") + entry(b"id=../../etc/passwd"),
        entry(b"v=1") + entry(b"id=" + b"\xff" * 52),
        entry(b"v=1") + entry(b"id=" + b"1" * 200),
        entry(b"v=1") + b"\xff" + b"id=" + peer_id(1).encode()[:40] + b"/p2p/x",
    ],
)
def test_a_node_without_a_proper_id_is_not_heard_of(text: bytes) -> None:
    assert OURS.heard(made(text)) == NOTHING


def test_of_a_message_no_more_is_read_than_a_few_nodes() -> None:
    text = entry(b"v=1") + entry(b"id=" + peer_id(1).encode())
    assert OURS.heard(made(text)).seen == (Seen(peer_id(1), 4001),)
    assert OURS.heard(made(text, port=0)) == NOTHING
    assert OURS.heard(made(text, ttl=0)) == NOTHING, "it takes its leave"
    assert len(OURS.heard(made(text, nodes=8)).seen) == NODES_PER_MESSAGE_MAX
    assert OURS.heard(made(text) + bytes(MESSAGE_BYTES_MAX)) == NOTHING


def test_bytes_of_any_kind_are_no_failure() -> None:
    rng = random.Random(0)
    answer = THEIRS.answer(peer_id(1), "192.168.1.2", 4001)
    for _ in range(3000):
        changed = bytearray(answer[: rng.randrange(1, len(answer) + 1)])
        for _ in range(rng.randrange(6)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        for seen in OURS.heard(bytes(changed)).seen:
            assert 0 < seen.port < 65536
            assert seen.peer_id.isalnum()


def test_hosts_take_turns_and_none_crowds_out_another() -> None:
    found = Neighbours(random.Random(0))
    found.told("honest", "192.168.1.2", 4001, 0.0)
    for number in range(1000):
        found.told(f"made-up{number}", "192.168.1.66", 1 + number, 0.0)
    due = found.due(0.0, (), 2)
    assert {each.host for each in due} == {"192.168.1.2", "192.168.1.66"}
    assert len(found.due(0.0, (), 100)) == 1 + TOLD_BY_HOST_MAX
    assert [each.peer_id for each in found.due(0.0, {each.peer_id for each in due}, 100)].count(
        "honest"
    ) == 0
    for number in range(1000):
        found.told("x", f"192.168.{2 + number // 250}.{number % 250}", 1, 0.0)
    assert len(found.due(0.0, (), 1000)) == TOLD_MAX


def test_who_is_not_there_is_tried_twice_and_then_shunned_for_a_while() -> None:
    found = Neighbours(random.Random(0))
    found.told("a", "192.168.1.2", 4001, 0.0)
    (each,) = found.due(0.0, (), 8)
    found.tried(each, False, 0.0)
    assert not found.due(RETRY_SECONDS - 1, (), 8)
    found.tried(each, False, RETRY_SECONDS)
    found.told("a", "192.168.1.2", 4001, RETRY_SECONDS + 1)
    assert not found.due(RETRY_SECONDS + 1, (), 8)
    found.told("a", "192.168.1.2", 4001, RETRY_SECONDS + SHUN_SECONDS)
    (again,) = found.due(RETRY_SECONDS + SHUN_SECONDS, (), 8)
    found.tried(again, True, 100.0)
    assert found.reached(["a", "b"]) == 1
    assert not found.due(1e9, (), 8)


def note(heard: list[bytes], message: bytes, _host: str) -> None:
    heard.append(message)


async def spoken(link_count: int, say: Any, seconds: float) -> list[list[bytes]]:
    """What so many links on the loopback hear; `say` gets the links and the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    heard: list[list[bytes]] = [[] for _ in range(link_count)]
    links = [MulticastLink(LOOPBACK, partial(note, mine), port) for mine in heard]
    try:
        await say(links, port)
        await asyncio.sleep(seconds)
    finally:
        for link in links:
            link.close()
            link.close()
    return heard


def test_what_is_said_on_a_link_is_heard_by_all_on_it_and_unicast_by_nobody() -> None:
    async def say(links: list[MulticastLink], port: int) -> None:
        links[0].say(b"hello")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.sendto(b"to this machine alone", ("127.0.0.1", port))
            interface = socket.inet_aton("127.0.0.1")
            other.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
            other.sendto(b"from another port", (GROUP, port))
        await asyncio.sleep(0.2)
        assert links[1].counts == {"other_port": 1}

    assert asyncio.run(spoken(2, say, 0.2)) == [[b"hello"], [b"hello"]]


def test_what_is_not_from_the_link_is_not_read() -> None:
    async def say(links: list[MulticastLink], _port: int) -> None:
        links[1]._place = replace(LOOPBACK, network=IPv4Network("192.168.1.0/24"))
        links[0].say(b"hello")
        await asyncio.sleep(0.2)
        assert links[1].counts == {"off_link": 1}

    assert asyncio.run(spoken(2, say, 0.0)) == [[b"hello"], []]


def test_a_flood_is_left_to_the_kernel_and_costs_next_to_nothing() -> None:
    sent = 0
    delays = []

    async def say(links: list[MulticastLink], _port: int) -> None:
        nonlocal sent
        end = time.monotonic() + 2.0
        while time.monotonic() < end:
            for _ in range(100):
                links[0].say(b"x" * 400)
            sent += 100
            before = time.monotonic()
            await asyncio.sleep(0)
            delays.append(time.monotonic() - before)
        assert links[1].counts["too_many"] > 0
        assert links[1].counts.total() <= TAKEN.burst + 4 * TAKEN.per_second

    heard = asyncio.run(spoken(2, say, 0.0))
    assert sent > 5 * TAKEN.burst
    # One source, so what it alone may say.
    assert 1 <= len(heard[1]) <= TOGETHER.burst / 2
    assert sorted(delays)[len(delays) // 2] < 0.05


def interfaces(monkeypatch: pytest.MonkeyPatch, **flags: str) -> None:
    """Each with an address of its own, 192.168.N.2, in the order given."""

    def address(host: str) -> Any:
        return SimpleNamespace(family=socket.AF_INET, address=host, netmask="255.255.255.0")

    hosts = {name: f"192.168.{number}.2" for number, name in enumerate(flags)}
    hosts |= {"public0": "203.0.113.5"} if "public0" in flags else {}
    monkeypatch.setattr(
        psutil, "net_if_addrs", lambda: {name: [address(host)] for name, host in hosts.items()}
    )
    stats = {name: SimpleNamespace(flags=each) for name, each in flags.items()}
    monkeypatch.setattr(psutil, "net_if_stats", lambda: stats)


def test_only_interfaces_of_a_local_network_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    up = "up,broadcast,running,multicast"
    interfaces(
        monkeypatch,
        wlan0=up,
        eth0=up,
        public0=up,
        down0="broadcast,multicast",
        tun0="up,pointopoint,running,multicast,broadcast",
        lo="up,loopback,running,multicast,broadcast",
        docker0="up,broadcast,multicast",
    )
    assert [place.interface for place in places_of()] == ["eth0", "wlan0"]
    (wlan,) = places_of(["wlan0"])
    assert wlan == Place("wlan0", "192.168.0.2", IPv4Network("192.168.0.0/24"))
    interfaces(monkeypatch, **{f"br{number}": up for number in range(100)})
    assert len(places_of()) == PLACES_MAX


def test_one_port_is_drawn_and_kept_while_it_can_be_had() -> None:
    present: list[Place] = []
    premises = Premises(lambda: present, 0)
    assert premises.settle(()) == (LAST_RESORT,), "on no network"
    present.append(LOOPBACK)
    (address,) = premises.settle(())
    assert premises.settle(("/ip4/192.0.2.1/tcp/1",)) == (address, "/ip4/192.0.2.1/tcp/1")
    with socket.create_server(("127.0.0.1", premises.port)):
        (other,) = premises.settle(())
        assert other != address
    fixed = Premises(lambda: present, 4001)
    assert fixed.settle(()) == ("/ip4/127.0.0.1/tcp/4001",)
    present.append(place_of(1))
    assert fixed.moved
    del present[0]
    present[0] = LOOPBACK
    assert not fixed.moved
