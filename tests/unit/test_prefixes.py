"""Address prefixes: from which connection which one follows, and what no claim changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pydantic import ValidationError

from swarmnode.clock import VirtualClock
from swarmnode.config.network import Network
from swarmnode.network.memory import MemoryNetwork
from swarmnode.network.supervised import LOOK_AGAIN_SECONDS
from swarmnode.prefixes import THROUGH_OTHERS, networks, own_prefix, prefix_of
from tests.unit.collecting_support import Stranger, scene, simulate
from tests.unit.dht_support import order, peers, run
from tests.unit.network_members import members, peer_id
from tests.unit.network_time import in_virtual_time

LOOPBACK = networks(Network().exempt_networks)


@pytest.mark.parametrize(
    ("address", "prefix"),
    [
        ("/ip4/203.0.113.77/tcp/4001/p2p/X", "203.0.113.0/24"),
        ("/ip4/203.0.113.1/udp/4001/quic-v1/p2p/X", "203.0.113.0/24"),
        ("/ip6/2001:db8:1:2:3::4/tcp/4001", "2001:db8:1::/48"),
        ("/ip6/2001:db8:1:ffff::1/tcp/4001", "2001:db8:1::/48"),
        ("/ip6/::ffff:203.0.113.9/tcp/4001", "203.0.113.0/24"),
        ("/ip6/fe80::1%eth0/tcp/4001", "fe80::/48"),
        ("/ip4/127.0.0.1/tcp/4001/p2p/X", "exempt:peer"),
        ("/ip6/::1/tcp/4001", "exempt:peer"),
        ("/ip6/::ffff:127.0.0.1/tcp/4001", "exempt:peer"),
        ("/ip4/203.0.113.7/tcp/1/p2p/RELAY/p2p-circuit/p2p/X", THROUGH_OTHERS),
        ("/ip4/127.0.0.1/tcp/1/p2p/RELAY/p2p-circuit/p2p/X", THROUGH_OTHERS),
        ("/dns4/example.org/tcp/4001", THROUGH_OTHERS),
        ("/ip4/999.0.0.1/tcp/4001", THROUGH_OTHERS),
        ("/ip4/127.0.0.1/..", "exempt:peer"),
        ("memory/3", THROUGH_OTHERS),
        ("", THROUGH_OTHERS),
    ],
)
def test_an_address_has_one_prefix_and_no_stranger_invents_one(address: str, prefix: str) -> None:
    assert prefix_of("peer", address, LOOPBACK) == prefix


def test_nothing_is_exempt_but_what_a_setting_says() -> None:
    assert prefix_of("peer", "/ip4/127.0.0.1/tcp/1") == "127.0.0.0/24"
    assert Network(exempt_networks=()).exempt_networks == ()
    with pytest.raises(ValidationError, match="has host bits set"):
        Network(exempt_networks=("10.0.0.1/8",))


def test_a_peer_counts_by_its_connection_and_not_by_what_it_announces(tmp_path: Path) -> None:
    async def scenario() -> None:
        lying = order(2, tmp_path, announce_addresses=("/ip4/203.0.113.7/tcp/4001",))
        async with peers(order(1, tmp_path), lying) as (one, other):
            assert any("203.0.113.7" in address for address in other.addresses)
            found = dict(await one.connected())
            assert found[other.peer_id].startswith("/ip4/127.0.0.1/tcp/")
            assert "203.0.113.7" not in repr(await one.connected())

    run(scenario)


def test_whoever_has_just_connected_is_asked_after_and_the_direct_connection_counts() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            one = await joining.join(1, exempt=())
            await joining.join(2, 1)
            peer, other, relayed = fake.peer(1), peer_id(2), "/ip4/203.0.113.9/tcp/1/p2p-circuit"
            listed = [(other, relayed)]

            async def connected() -> list[tuple[str, str]]:
                return listed

            peer.connected = connected  # type: ignore[method-assign]
            await asyncio.sleep(5)
            assert await one.prefixes_of([other, peer_id(3)]) == [THROUGH_OTHERS] * 2
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            listed += [(other, "/ip4/198.51.100.7/tcp/1"), (peer_id(3), "/ip4/192.0.2.1/tcp/1")]
            expected = ["198.51.100.0/24", "192.0.2.0/24"]
            assert await one.prefixes_of([other, peer_id(3)]) == expected
            # A second connection changes nothing, until the first is gone.
            listed.insert(0, (other, "/ip4/203.0.113.7/tcp/1"))
            await asyncio.sleep(5)
            assert one.doors.whereabouts.prefix_of(other) == "198.51.100.0/24"
            listed.remove((other, "/ip4/198.51.100.7/tcp/1"))
            await asyncio.sleep(5)
            assert one.doors.whereabouts.prefix_of(other) == "203.0.113.0/24"

    in_virtual_time(scenario)


def test_what_is_pooled_says_where_its_author_is_connected_from() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, one, two = scene(clock), Stranger(1, clock), Stranger(2, clock)
        here.transport.prefixes[one.name] = THROUGH_OTHERS
        await here.hears_of(one, 5)
        await here.hears_of(two, 6)
        pooled = {each.group.question.index: each.prefix for each in here.pool.fresh(clock.now())}
        assert pooled == {5: THROUGH_OTHERS, 6: own_prefix(two.name)}

    simulate(scenario)


def test_in_memory_every_node_is_a_prefix_unless_the_network_is_told_otherwise() -> None:
    async def scenario(clock: VirtualClock) -> None:
        apart = MemoryNetwork(clock, latency_seconds=0.0, loss=0.0, seed=1)
        assert await apart.endpoint("1").prefixes_of(["a", "b"]) == [own_prefix(p) for p in "ab"]
        near = MemoryNetwork(
            clock, latency_seconds=0.0, loss=0.0, seed=1, prefix_of=lambda _: "192.0.2.0/24"
        )
        assert await near.endpoint("1").prefixes_of(["a", "b"]) == ["192.0.2.0/24"] * 2

    simulate(scenario)
