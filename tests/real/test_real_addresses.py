"""Nodes that listen by QUIC alone, and over IPv6 alone, on loopback: the whole program."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.real.real_support import (
    assert_no_round_lost,
    exceptions,
    peers_of,
    place,
    wait_connected,
    wait_for_others,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


@pytest.mark.parametrize("listen", ["/ip4/127.0.0.1/udp/0/quic-v1", "/ip6/::1/tcp/0"])
def test_nodes_train_on_each_others_groups_over_quic_and_over_ipv6(
    tmp_path: Path, listen: str
) -> None:
    if "ip6" in listen and not _ipv6_here():
        pytest.skip("this machine has no IPv6 loopback")
    kind = listen.partition("/0")[0]
    with place(tmp_path) as here:
        opened = ("--listen", listen)
        bootstrap, address = here.bootstrap("bootstrap", *opened)
        assert address.startswith(kind)
        nodes = [here.run(name, address, *opened) for name in ("0", "1")]
        for node in nodes:
            wait_connected(node)
        for node in nodes:
            wait_for_others(node, seconds=90)
            near = [each.address for each in peers_of(node).peers if each.connected]
            assert near
            assert all(each.startswith(kind) for each in near), near
            assert_no_round_lost(node)
            assert exceptions(node) == []
        assert exceptions(bootstrap) == []


def _ipv6_here() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False
