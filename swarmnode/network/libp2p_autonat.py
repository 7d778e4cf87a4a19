"""AutoNAT's service on py-libp2p: whether a peer that asks can be dialled by others.

p2pd asks by it, and then looks for a relay; nodes on py-libp2p ask by `/swarmnode/dial-back/1`. As
there, a peer is tried at the address that it is connected from and no other, whatever it names, so
that it can't send us against third parties. Runs under trio. Source: libp2p's AutoNAT, version 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from swarmnode.network.addresses import tcp_part
from swarmnode.network.allowance import Allowance
from swarmnode.network.dialback import Probe, speaks_libp2p
from swarmnode.network.libp2p_host import GuardedHost
from swarmnode.network.libp2p_streams import is_relayed, read_message, write_message
from swarmnode.network.light_libp2p import AutoNatMessages, Multiaddr, trio
from swarmnode.network.trio_guest import Guest

AUTONAT_PROTOCOL: Final = "/libp2p/autonat/1.0.0"
ASK_SECONDS: Final = 10.0
PORTS_MAX: Final = 2
ADDRESSES_READ: Final = 32

_MESSAGE: Final = AutoNatMessages.Message


class AutoNat:
    """Of one host; a peer is tried as often as `tries` allows."""

    def __init__(
        self, guest: Guest, guarded: GuardedHost, tries: Allowance, probe: Probe = speaks_libp2p
    ) -> None:
        self._guest = guest
        self._tries = tries
        self._probe = probe
        guarded.host.set_stream_handler(AUTONAT_PROTOCOL, self._asked)

    async def _asked(self, stream: Any) -> None:
        """One question; what goes wrong is the host's guard's to catch."""
        with trio.fail_after(ASK_SECONDS):
            message = await read_message(stream, _MESSAGE)
            answer = _MESSAGE(type=_MESSAGE.DIAL_RESPONSE)
            connection = stream.muxed_conn
            remote = None if is_relayed(connection) else connection.get_remote_address()
            ports = _ports(message.dial.peer.addrs)
            if remote is None or not ports or not self._tries.spend(str(connection.peer_id), 1.0):
                answer.dialResponse.status = _MESSAGE.E_DIAL_REFUSED
            else:
                await self._try(remote[0], ports, answer.dialResponse)
            await write_message(stream, answer)
            await stream.close()

    async def _try(self, host: str, ports: Sequence[int], found: Any) -> None:
        found.status = _MESSAGE.E_DIAL_ERROR
        for port in ports:
            if await self._guest.host(self._probe(host, port)):
                kind = "ip6" if ":" in host else "ip4"
                found.status = _MESSAGE.OK
                found.addr = Multiaddr(f"/{kind}/{host}/tcp/{port}").to_bytes()
                return


def _ports(addresses: Sequence[bytes]) -> Sequence[int]:
    """TCP ports of binary multiaddrs, the first PORTS_MAX."""
    found: dict[int, None] = {}
    for address in addresses[:ADDRESSES_READ]:
        try:
            part = tcp_part(str(Multiaddr(address)))
        except Exception:  # its parser raises what it likes
            continue
        if part is not None and part[1]:
            found[part[1]] = None
    return tuple(found)[:PORTS_MAX]
