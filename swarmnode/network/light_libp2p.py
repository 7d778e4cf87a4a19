"""The parts of py-libp2p that the network needs, with what a stranger could do to them mended.

The one module that knows py-libp2p by name; its version is pinned exactly. hivemind can't be
imported into the same process: both register the protobuf `crypto.pb`. Knows no announcements.
Importing it takes 0.8 s and 87 MB. Source: network.md section 2, and the sources of 0.8.1, which
decision 0030 names line by line.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Any, Final

import libp2p.transport.tcp.tcp as _tcp
import multiaddr
import trio as _trio
from libp2p.connection_types import ConnectionType as _ConnectionType
from libp2p.crypto.ed25519 import create_new_key_pair as _create_new_key_pair
from libp2p.crypto.x25519 import create_new_key_pair as _create_new_x25519_key_pair
from libp2p.host.autonat.pb import autonat_pb2 as _autonat
from libp2p.host.basic_host import BasicHost as _BasicHost
from libp2p.identity.identify.pb import identify_pb2 as _identify
from libp2p.io.trio import TrioTCPStream as _TrioTCPStream
from libp2p.network.auto_connector import AutoConnector as _AutoConnector
from libp2p.network.config import ConnectionConfig as _ConnectionConfig
from libp2p.network.config import RetryConfig as _RetryConfig
from libp2p.network.connection.raw_connection import RawConnection as _RawConnection
from libp2p.network.swarm import Swarm as _Swarm
from libp2p.peer.id import ID as _ID
from libp2p.peer.peerinfo import PeerInfo as _PeerInfo
from libp2p.peer.peerstore import PeerStore as _PeerStore
from libp2p.pubsub.pb import rpc_pb2 as _rpc
from libp2p.relay.circuit_v2.pb import circuit_pb2 as _circuit
from libp2p.relay.circuit_v2.pb import dcutr_pb2 as _dcutr
from libp2p.security.noise.transport import PROTOCOL_ID as _NOISE
from libp2p.security.noise.transport import Transport as _NoiseTransport
from libp2p.stream_muxer.yamux.yamux import PROTOCOL_ID as _YAMUX
from libp2p.stream_muxer.yamux.yamux import Yamux as _Yamux
from libp2p.tools.anyio_service import background_trio_service as _background_trio_service
from libp2p.transport.upgrader import TransportUpgrader as _TransportUpgrader
from libp2p.utils import encode_varint_prefixed as _encode_varint_prefixed

trio: Any = _trio
Multiaddr: Any = multiaddr.Multiaddr
AutoConnector: Any = _AutoConnector
BasicHost: Any = _BasicHost
ConnectionConfig: Any = _ConnectionConfig
PeerID: Any = _ID
PeerInfo: Any = _PeerInfo
RawConnection: Any = _RawConnection
Swarm: Any = _Swarm
GossipMessages: Any = _rpc
CircuitMessages: Any = _circuit
AutoNatMessages: Any = _autonat
IdentifyMessage: Any = _identify.Identify
PunchMessage: Any = _dcutr.HolePunch
RELAYED_CONNECTION: Any = _ConnectionType.RELAYED
background_service: Any = _background_trio_service
length_prefixed: Any = _encode_varint_prefixed

READ_AHEAD_BYTES: Final = 64 * 1024


class _Socket(_TrioTCPStream):  # type: ignore[misc]  # the library is not typed for us
    """See libp2p's, which asks the kernel for every length and header, and knows no IPv6 peer."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._held = memoryview(b"")
        self._remote: tuple[str, int] | None = None

    async def read(self, n: int | None = None) -> bytes:
        """At most so many bytes; none at the end."""
        if n == 0:
            return b""
        if not self._held:
            self._held = memoryview(await super().read(READ_AHEAD_BYTES))
        read, self._held = self._held[:n], self._held[n:] if n else memoryview(b"")
        return bytes(read)

    def get_remote_address(self) -> tuple[str, int] | None:
        """Host and port, None where the socket was closed before anybody asked."""
        if self._remote is None:
            with contextlib.suppress(OSError):
                host, port, *_ = self.stream.socket.getpeername()
                self._remote = str(host), int(port)
        return self._remote


_tcp.TrioTCPStream = _Socket

logging.getLogger("libp2p").setLevel(logging.CRITICAL)


def swarm_parts(private_key: bytes, connections: Any) -> dict[str, Any]:
    """What a Swarm of this Ed25519 seed is made of: TCP, noise and yamux, and nothing else.

    py-libp2p's own choice also takes connections without encryption, in which a stranger may call
    itself whom it likes.
    """
    keys = _create_new_key_pair(private_key)
    peer_id = _ID.from_pubkey(keys.public_key)
    noise = _NoiseTransport(keys, noise_privkey=_create_new_x25519_key_pair().private_key)
    peers = _PeerStore()
    peers.add_key_pair(peer_id, keys)
    upgrader = _TransportUpgrader(
        secure_transports_by_protocol={_NOISE: noise},
        muxer_transports_by_protocol={_YAMUX: _Yamux},
    )
    return {
        "peer_id": peer_id,
        "peerstore": peers,
        "upgrader": upgrader,
        "transports": [_tcp.TCP()],
        "retry_config": _RetryConfig(max_retries=0),
        "connection_config": connections,
    }
