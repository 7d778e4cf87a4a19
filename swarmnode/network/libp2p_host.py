"""py-libp2p's host, guarded: what strangers open costs a bounded part of us, and ends nothing.

Left to itself a handler that raises ends the whole host, each connection taken keeps its slot until
the host ends, and a peer may fill the buffers of streams that nobody reads. Runs under trio. Knows
no protocol of ours. Source: the sources of py-libp2p 0.8.1, decision 0030.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from swarmnode.buckets import Bucket, Buckets, Rate
from swarmnode.network.doors import Doors
from swarmnode.network.libp2p_streams import address_at
from swarmnode.network.light_libp2p import (
    AutoConnector,
    BasicHost,
    ConnectionConfig,
    Multiaddr,
    RawConnection,
    Swarm,
    background_service,
    swarm_parts,
    trio,
)
from swarmnode.network.ports import StartFailed

CONNECTIONS_LOW: Final = 96
CONNECTIONS_HIGH: Final = 128
CONNECTIONS_MAX: Final = 160
"""As p2pd has them."""
STREAMS_MAX: Final = 64
"""Open on one connection, by either side, before their protocols are known."""
BUFFERED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of one connection, come and not read yet."""
LOOK_SECONDS: Final = 0.25
HANDSHAKES: Final = Rate(5.0, 50.0)
HANDSHAKES_OF_ALL: Final = Rate(30.0, 200.0)
"""Connections begun by others, from one address and in all: each costs us some milliseconds."""
HANDSHAKERS_REMEMBERED: Final = 1024


class _NoDialling(AutoConnector):  # type: ignore[misc]  # the library is not typed for us
    """Whom to dial is ours to say."""

    async def maybe_connect(self) -> None:
        """Nobody."""


class GuardedSwarm(Swarm):  # type: ignore[misc]  # likewise
    """See libp2p's Swarm."""

    def __init__(self, private_key: bytes, doors: Doors | None) -> None:
        connections = ConnectionConfig(
            max_connections=CONNECTIONS_MAX,
            min_connections=0,
            low_watermark=CONNECTIONS_LOW,
            high_watermark=CONNECTIONS_HIGH,
        )
        super().__init__(**swarm_parts(private_key, connections))
        self.auto_connector = _NoDialling(swarm=self)
        self._doors = doors
        self._handshakes = Buckets(HANDSHAKES, HANDSHAKERS_REMEMBERED)
        self._handshakes_of_all = Bucket(HANDSHAKES_OF_ALL.burst, trio.current_time())

    async def _do_handle_inbound_connection(
        self, connection: Any, address: Any, _failure_event: Any
    ) -> None:
        """One connection, to its end: its slot is free then, not when the host ends."""
        raw = RawConnection(connection, False)
        remote = raw.get_remote_address()
        await self.take(raw, remote[0] if remote else "", address)

    async def take(self, raw: Any, come_from: str, address: Any = None) -> None:
        """A connection of a stranger, to its end; those that come from one place share a limit."""
        try:
            if self._takes(come_from):
                muxed = await self.upgrade_inbound_raw_conn(raw, address)
                await self._meets(muxed, raw.get_remote_address())
                await muxed.event_shutting_down.wait()
        except Exception:  # a stranger's connection must not end anything of ours
            return
        finally:
            await _closed(raw)

    async def upgrade_outbound_raw_conn(
        self, raw_conn: Any, peer_id: Any, pre_scope: Any = None
    ) -> Any:
        """A connection that we dialled, whose socket is closed as soon as it is of no use."""
        try:
            upgraded = await super().upgrade_outbound_raw_conn(raw_conn, peer_id, pre_scope)
        except BaseException:
            await _closed(raw_conn)
            raise
        self.manager.run_task(self._close_after, raw_conn, upgraded)
        return upgraded

    async def _close_after(self, raw: Any, upgraded: Any) -> None:
        try:
            await upgraded.muxed_conn.event_shutting_down.wait()
        finally:
            await _closed(raw)

    async def _meets(self, muxed: Any, remote: tuple[str, int] | None) -> None:
        """Somebody has connected from there."""
        if self._doors is None:
            return
        peer_id = str(muxed.peer_id)
        if remote is not None:
            host, port = remote
            self._doors.whereabouts.note(peer_id, address_at(host, port, peer_id))
        if self._doors.refuses(peer_id):
            await muxed.close()

    def _takes(self, come_from: str) -> bool:
        now = trio.current_time()
        mine = self._handshakes.of(come_from, now)
        if mine.left < 1.0 or self._handshakes_of_all.refilled(HANDSHAKES_OF_ALL, now) < 1.0:
            return False
        mine.left -= 1.0
        self._handshakes_of_all.left -= 1.0
        return True


def _readable(address: str) -> Any:
    try:
        return Multiaddr(address)
    except Exception:  # its parser raises what it likes
        raise StartFailed(f"not an address: {address} (try /ip4/127.0.0.1/tcp/0)") from None


async def _closed(raw: Any) -> None:
    """Not left to the collector, as py-libp2p does."""
    with trio.CancelScope(shield=True), contextlib.suppress(Exception):
        await raw.close()


class GuardedHost:
    """A host that listens while `running` is entered."""

    def __init__(
        self, private_key: bytes, announce_addresses: Sequence[str], doors: Doors | None
    ) -> None:
        self.swarm: Final = GuardedSwarm(private_key, doors)
        announced = [_readable(address) for address in announce_addresses]
        self.host: Final = BasicHost(
            network=self.swarm,
            announce_addrs=announced or None,
            disable_identify_address_discovery=True,
        )
        self._negotiate = self.swarm.common_stream_handler
        self.swarm.set_stream_handler(self._arrived)
        self._doors = doors

    @contextlib.asynccontextmanager
    async def running(self, listen: Sequence[str]) -> AsyncIterator[None]:
        """Raises StartFailed where an address can't be listened on."""
        async with background_service(self.swarm), trio.open_nursery() as nursery:
            for address in listen:
                if not await self.swarm.listen(_readable(address)):
                    raise StartFailed(f"can't listen on {address}")
            nursery.start_soon(self._watch)
            try:
                yield
            finally:
                nursery.cancel_scope.cancel()

    async def _arrived(self, stream: Any) -> None:
        """A stream of a stranger, whatever its protocol will be."""
        connection = stream.muxed_conn
        peer_id = str(connection.peer_id)
        crowded = len(getattr(connection, "streams", ())) > STREAMS_MAX
        try:
            if crowded or not (self._doors is None or self._doors.admits(peer_id)):
                await stream.reset()
            else:
                await self._negotiate(stream)
        except Exception:  # a stranger's stream must not end anything of ours
            with contextlib.suppress(Exception):
                await stream.reset()

    async def _watch(self) -> None:
        """Hang up on those who send what they were not asked for: yamux only warns of it."""
        while True:
            await trio.sleep(LOOK_SECONDS)
            for peer_id, connections in list(self.swarm.connections.items()):
                buffers = [each.muxed_conn.stream_buffers for each in connections]
                held = sum(len(data) for each in buffers for data in each.values())
                if held > BUFFERED_BYTES_MAX:
                    with contextlib.suppress(Exception):
                        await self.swarm.close_peer(peer_id)
