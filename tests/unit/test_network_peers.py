"""Addresses of peers: which are dialled when, which are remembered, and who can be dialled."""

from __future__ import annotations

import asyncio

import pytest

from swarmnode.network.addresses import (
    is_loopback,
    is_near,
    may_be_dialled,
    relay_in,
    tcp_part,
)
from swarmnode.network.dialback import DialBack, Reachability, speaks_libp2p
from swarmnode.network.doors import Doors
from swarmnode.network.saved_peers import (
    FIRST_WAIT_SECONDS,
    HEARD_MAX,
    HEARD_TRIES,
    SAVED_MAX,
    DialBook,
    SavedPeers,
)
from swarmnode.network.whereabouts import Whereabouts
from tests.unit.network_time import FixedClock


def at(number: int) -> str:
    return f"/ip4/192.0.2.1/tcp/{4000 + number}/p2p/peer{number}"


def test_the_newest_good_peers_are_remembered_one_address_each() -> None:
    saved = SavedPeers()
    for number in range(SAVED_MAX + 10):
        saved.good(at(number))
    saved.good("/ip4/192.0.2.9/tcp/1/p2p/peer20")
    saved.good("no peer id in here")
    saved.bad("peer59")
    assert len(saved.addresses) == SAVED_MAX - 1
    assert saved.addresses[0] == "/ip4/192.0.2.9/tcp/1/p2p/peer20"
    assert at(20) not in saved.addresses
    assert at(9) not in saved.addresses
    assert SavedPeers(saved.addresses).addresses == saved.addresses


def test_bootstrap_is_dialled_for_ever_with_waits_between_libp2ps_and_a_minute() -> None:
    book, now, waits = DialBook(), 0.0, []
    book.add(at(1), "bootstrap", now)
    for _ in range(50):
        (dial,) = book.due(now, (), 4)
        book.tried(dial.address, False, now)
        assert book.due(now, (), 4) == []
        waits.append(dial.next_at - now)
        now = dial.next_at
    assert waits[:4] == [7, 14, 28, 56]
    assert waits[-1] == 60
    assert min(waits) == FIRST_WAIT_SECONDS > 6


def test_the_wait_for_the_next_dial_is_that_of_the_bootstrap_peer_who_is_due_first() -> None:
    book = DialBook("peer3")
    assert book.wait_seconds(0.0, ()) is None
    for number in (1, 2, 3):
        book.add(at(number), "bootstrap", 0.0)
    book.add(at(4), "saved", 0.0)
    book.tried(at(1), False, 10.0)
    book.tried(at(2), False, 12.0)
    assert book.wait_seconds(13.0, ()) == FIRST_WAIT_SECONDS - 3.0
    assert book.wait_seconds(13.0, {"peer1"}) == FIRST_WAIT_SECONDS - 1.0
    assert book.wait_seconds(40.0, ()) == 0.0, "it is being dialled"
    assert book.wait_seconds(13.0, {"peer1", "peer2"}) is None


def test_the_connected_and_ourselves_are_not_dialled() -> None:
    book = DialBook("peer3")
    for number in (1, 2, 3):
        book.add(at(number), "bootstrap", 0.0)
    assert [dial.peer_id for dial in book.due(0.0, {"peer1"}, 4)] == ["peer2"]


def test_bootstrap_comes_first_and_what_was_heard_last() -> None:
    book = DialBook()
    book.add(at(1), "heard", 0.0)
    book.add(at(2), "saved", 0.0)
    book.add(at(3), "bootstrap", 0.0)
    book.add(at(3), "heard", 0.0)
    assert [dial.peer_id for dial in book.due(0.0, (), 2)] == ["peer3", "peer2"]


def test_a_success_forgets_failures_and_makes_an_address_worth_passing_on() -> None:
    book = DialBook()
    book.add(at(1), "heard", 0.0)
    book.tried(at(1), False, 0.0)
    assert book.dialable({"peer1"}) == []
    book.tried(at(1), True, 7.0)
    assert book.dialable({"peer1"}) == [at(1)]
    assert book.dialable(set()) == []
    assert book.due(14.0, (), 4)[0].failures == 0


def test_an_address_that_was_only_heard_of_is_dropped_in_the_end() -> None:
    book, now = DialBook(), 0.0
    book.add(at(1), "heard", now)
    for _ in range(HEARD_TRIES):
        assert book.due(now, (), 4)
        book.tried(at(1), False, now)
        now += 60
    assert book.due(now, (), 4) == []


def test_heard_addresses_are_bounded_and_working_ones_stay() -> None:
    book = DialBook()
    book.add(at(0), "heard", 0.0)
    book.tried(at(0), True, 0.0)
    for number in range(1, HEARD_MAX + 50):
        book.add(at(number), "heard", 0.0)
    assert len(book.of("heard")) == HEARD_MAX
    assert book.dialable({"peer0"}) == [at(0)]


def test_a_bad_peer_is_forgotten_unless_it_is_where_we_begin() -> None:
    book = DialBook()
    book.add(at(1), "heard", 0.0)
    book.add(at(2), "bootstrap", 0.0)
    book.forget("peer1")
    book.forget("peer2")
    assert [dial.peer_id for dial in book.due(0.0, (), 4)] == ["peer2"]


@pytest.mark.parametrize(
    ("address", "part"),
    [
        ("/ip4/192.0.2.1/tcp/4001/p2p/relay/p2p-circuit/p2p/x", None),
        ("/ip4/127.0.0.1/tcp/4001/p2p/x", ("127.0.0.1", 4001)),
        ("/ip6/::1/tcp/4001", ("::1", 4001)),
        ("/ip4/127.0.0.1/udp/4001/quic-v1", None),
        ("/ip4/999.0.0.1/tcp/1", None),
        ("/dns4/localhost/tcp/1", None),
        ("/ip4/127.0.0.1/tcp/٣", None),
        ("", None),
    ],
)
def test_the_tcp_part_of_an_address(address: str, part: tuple[str, int] | None) -> None:
    assert tcp_part(address) == part


@pytest.mark.parametrize(
    ("address", "loopback", "near"),
    [
        ("/ip4/127.0.0.1/udp/4001/quic-v1", True, True),
        ("/ip6/::1/tcp/4001", True, True),
        ("/ip4/192.168.1.20/tcp/4001", False, True),
        ("/ip4/169.254.3.4/tcp/4001", False, True),
        ("/ip6/fd00::1/tcp/4001", False, True),
        ("/ip4/100.64.0.1/tcp/4001", False, False),
        ("/ip4/192.0.2.1/tcp/4001", False, False),
        ("/ip4/8.8.8.8/tcp/4001/p2p/x", False, False),
        ("/ip4/127.0.0.1/tcp/4001/p2p/relay/p2p-circuit/p2p/x", True, False),
        ("/dns4/localhost/tcp/1", False, False),
    ],
)
def test_how_near_an_address_is(address: str, loopback: bool, near: bool) -> None:
    assert (is_loopback(address), is_near(address)) == (loopback, near)
    assert relay_in(address) == ("relay" if "p2p-circuit" in address else "")


AT_HOME = ("/ip4/192.168.1.20/tcp/4001/p2p/boot", "/ip4/127.0.0.1/tcp/50001/p2p/us")
ON_LOOPBACK = ("/ip4/127.0.0.1/tcp/4001/p2p/boot", "/ip6/::1/tcp/50001/p2p/us")
OUTSIDE = ("/ip4/9.9.9.9/tcp/4001/p2p/boot", *AT_HOME, *ON_LOOPBACK)
NAMED = ("/dns4/boot.example.org/tcp/4001/p2p/boot", *AT_HOME)
IN_A_VPN = ("/ip4/100.64.0.7/tcp/4001/p2p/boot", "/ip6/fd00::7/tcp/4001/p2p/us")


@pytest.mark.parametrize("places", [AT_HOME, ON_LOOPBACK, OUTSIDE, NAMED, IN_A_VPN, ()])
@pytest.mark.parametrize("met_outside", [False, True])
@pytest.mark.parametrize(
    ("host", "where"),
    [
        ("/ip4/8.8.8.8/tcp/1", "internet"),
        ("/ip6/2606:4700::1/udp/1/quic-v1", "internet"),
        ("/ip4/8.8.8.8/tcp/1/p2p/relay/p2p-circuit", "internet"),
        ("/ip4/127.0.0.1/tcp/8470", "loopback"),
        ("/ip6/::1/tcp/22", "loopback"),
        ("/ip4/127.9.9.9/tcp/1/p2p/relay/p2p-circuit", "loopback"),
        ("/ip6/::ffff:127.0.0.1/tcp/1", "loopback"),
        ("/ip4/192.168.1.1/tcp/80", "home"),
        ("/ip4/192.168.77.1/tcp/80/p2p/relay/p2p-circuit", "home"),
        ("/ip6/::ffff:192.168.1.1/tcp/80", "home"),
        ("/ip6/2002:c0a8:101::1/tcp/80", "home"),
        ("/ip4/100.100.100.100/tcp/53", "vpn"),
        ("/ip6/fdff::1/tcp/1", "vpn"),
        ("/ip4/10.0.0.1/tcp/22", "nowhere"),
        ("/ip4/172.16.0.1/tcp/22", "nowhere"),
        ("/ip4/169.254.169.254/tcp/80", "nowhere"),
        ("/ip6/fe80::1/tcp/80", "nowhere"),
        ("/ip6/fe80::1%eth0/tcp/80", "nowhere"),
        ("/ip6/fec0::1/tcp/80", "nowhere"),
        ("/ip4/0.0.0.0/tcp/8470", "nowhere"),
        ("/ip6/::/tcp/8470", "nowhere"),
        ("/ip4/224.0.0.251/udp/5353", "nowhere"),
        ("/ip4/255.255.255.255/tcp/1", "nowhere"),
        ("/ip4/240.0.0.1/tcp/1", "nowhere"),
        ("/ip4/198.51.100.1/tcp/1", "nowhere"),
        ("/ip6/ff02::fb/tcp/1", "nowhere"),
        ("/ip6/2001:db8::1/tcp/1", "nowhere"),
        ("/dns4/router.lan/tcp/80", "nowhere"),
        ("/dnsaddr/example.org", "nowhere"),
        ("/ip4/not.an.ip.address/tcp/80", "nowhere"),
        ("/p2p/relay/p2p-circuit", "nowhere"),
        ("", "nowhere"),
    ],
)
def test_where_the_word_of_a_stranger_may_send_us(
    host: str, where: str, places: tuple[str, ...], met_outside: bool
) -> None:
    expected = {"home": AT_HOME, "loopback": ON_LOOPBACK, "vpn": IN_A_VPN}
    inside = expected.get(where) == places and not met_outside
    allowed = may_be_dialled(f"{host}/p2p/x", places, met_outside)
    assert allowed == (where == "internet" or inside)


def test_whoever_came_from_the_internet_is_remembered_when_gone() -> None:
    listed, noted = Whereabouts(), Whereabouts()
    for near in ("/ip4/192.168.1.2/tcp/1/p2p/x", "/ip4/127.0.0.1/tcp/1/p2p/x", ""):
        listed.listed({"x": near})
        noted.note("x", near)
        assert not listed.met_outside | noted.met_outside
    listed.listed({"x": "/ip4/192.168.1.2/tcp/1", "y": "/ip4/8.8.8.8/tcp/1/p2p/y"})
    listed.listed({})
    noted.note("x", "/ip6/2606:4700::1/tcp/1/p2p/x")
    assert listed.met_outside & noted.met_outside


def dial_back(tried: list[tuple[str, int]], reached: bool = True) -> DialBack:
    async def connected() -> list[tuple[str, str]]:
        return [("a", "/ip4/192.0.2.1/tcp/55555/p2p/a"), ("b", "/ip4/192.0.2.2/tcp/1/p2p/b")]

    async def probe(host: str, port: int) -> bool:
        tried.append((host, port))
        return reached

    return DialBack(connected, Doors(FixedClock(), Whereabouts()).tries, probe)


def test_a_peer_is_dialled_back_at_the_address_it_is_connected_from_and_no_other() -> None:
    tried: list[tuple[str, int]] = []
    answer = asyncio.run(dial_back(tried).answer("a", (4001).to_bytes(2)))
    assert answer == b"\x01"
    assert tried == [("192.0.2.1", 4001)]
    assert asyncio.run(dial_back(tried, reached=False).answer("a", (1).to_bytes(2))) == b"\x00"
    assert asyncio.run(dial_back([]).answer("stranger", (1).to_bytes(2))) == b""


def test_dialling_back_is_limited_and_malformed_requests_get_nothing() -> None:
    tried: list[tuple[str, int]] = []
    back = dial_back(tried)

    async def scenario() -> list[bytes]:
        return [await back.answer("a", request) for request in [b"x", b"", *[b"\x00\x01"] * 9]]

    answers = asyncio.run(scenario())
    assert answers[:2] == [b"", b""]
    assert answers.count(b"\x01") == len(tried) == 4


def test_the_majority_of_peers_is_believed() -> None:
    found, seen = Reachability(), []
    for peer, reached in (("a", True), ("b", False), ("c", False), ("c", True)):
        seen.append(found.proven)
        found.vote(peer, reached)
    assert [*seen, found.proven] == [None, True, None, False, True]


def test_a_port_speaks_libp2p_only_if_it_answers_so() -> None:
    async def scenario(first_line: bytes) -> bool:
        async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(first_line)
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            return await speaks_libp2p("127.0.0.1", server.sockets[0].getsockname()[1])

    assert asyncio.run(scenario(b"\x13/multistream/1.0.0\n"))
    assert not asyncio.run(scenario(b"SSH-2.0-OpenSSH_9.9\r\n"))
    assert not asyncio.run(scenario(b""))
