"""py-libp2p's GossipSub: what is published on our topics, and heard, at a cost that is bounded.

Runs under trio. Messages are verified as their publisher's, then as worth hearing, and only then
passed on; those seen before cost nothing, and what one peer passes on beyond its share isn't
verified. Whose fault a message is, is its publisher's and no passer-on's, since p2pd passes on
whatever is signed. Knows no announcements.

Departures from py-libp2p's defaults: a heartbeat each second instead of every two minutes, none of
its own limits (ten messages a second are lost there, our own among them) but ours, a queue of 512,
no adapting (which sets the heartbeat back to 30 s), no peer exchange, no extensions. Messages are
named by publisher and number, as Go names them, counted in nanoseconds; by their content, whoever
is first to publish another's words under its own name could have them refused for good.
Source: network.md §2 and §3; decision 0030.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from swarmnode.network.doors import Doors
from swarmnode.network.length_prefixed import Messages
from swarmnode.network.light_libp2p import (
    GossipMessages,
    GossipSub,
    PeerID,
    Pubsub,
    background_service,
)
from swarmnode.network.peer import Heard

PROTOCOLS: Final = ("/meshsub/1.1.0", "/meshsub/1.0.0")
HEARTBEAT_SECONDS: Final = 1
DEGREE: Final = 4
DEGREE_LOW: Final = 3
DEGREE_HIGH: Final = 6
"""Neighbours that every message comes from: each copy costs a core milliseconds."""
DATA_BYTES_MAX: Final = 2048
"""Of one message: more than any announcement has, sealed or not."""
RPC_BYTES_MAX: Final = 256 * 1024
READ_BYTES: Final = 64 * 1024
TOPIC_CHARACTERS_MAX: Final = 256
SUBSCRIPTIONS_MAX: Final = 8
"""Topics of one peer."""
CONTROL_IDS_MAX: Final = 1024
"""Messages that one control message may speak of."""
_PUBLISHER_BYTES: Final = 38
"""The peer id of an Ed25519 key; others verify slower, and are nobody's of a swarm."""


def _router() -> Any:
    router = GossipSub(
        protocols=list(PROTOCOLS),
        degree=DEGREE,
        degree_low=DEGREE_LOW,
        degree_high=DEGREE_HIGH,
        heartbeat_interval=HEARTBEAT_SECONDS,
        adaptive_gossip_enabled=False,
        spam_protection_enabled=False,
        max_pending_messages_per_peer=32,
        px_peers_count=0,
    )
    router.max_iwant_requests_per_second = 50.0
    router.max_ihave_messages_per_second = 50.0
    return router


class GuardedPubsub(Pubsub):  # type: ignore[misc]
    """See libp2p's Pubsub, whose reading ends the host at the first message that it can't read."""

    def __init__(self, host: Any, doors: Doors | None) -> None:
        super().__init__(host, _router(), max_subscriptions_per_peer=SUBSCRIPTIONS_MAX)
        self.counter = time.time_ns()
        self._doors = doors
        self._open: set[Any] = set()

    async def stream_handler(self, stream: Any) -> None:
        """One peer's messages, until it ends or breaks the format."""
        peer_id = stream.muxed_conn.peer_id
        if peer_id in self._open:
            await stream.reset()
            return
        self._open.add(peer_id)
        try:
            messages = Messages(RPC_BYTES_MAX)
            while received := await stream.read(READ_BYTES):
                for message in messages.whole(received):
                    await self._take(peer_id, message)
        except Exception:  # a stranger's bytes must not end anything of ours
            with contextlib.suppress(Exception):
                await stream.reset()
        finally:
            self._open.discard(peer_id)

    def notify_subscriptions(self, publish_message: Any) -> None:
        """Nobody: the validator has heard it."""

    def passes(self, forwarder: Any) -> bool:
        """Whether this peer may still pass something on."""
        return self._doors is None or self._doors.forwarded.spend(str(forwarder), 1.0)

    async def _take(self, forwarder: Any, received: bytes) -> None:
        rpc = GossipMessages.RPC.FromString(received)
        for message in rpc.publish:
            await self._take_message(forwarder, message)
        if not (rpc.subscriptions or rpc.HasField("control")) or not self.passes(forwarder):
            return
        for subscription in rpc.subscriptions[:SUBSCRIPTIONS_MAX]:
            if len(subscription.topicid) <= TOPIC_CHARACTERS_MAX:
                self.handle_subscription(forwarder, subscription)
        if _bounded(rpc.control):
            # Addresses of peers to dial, by strangers' word.
            rpc.ClearField("senderRecord")
            for prune in rpc.control.prune:
                prune.ClearField("peers")
            await self.router.handle_rpc(rpc, forwarder)

    async def _take_message(self, forwarder: Any, message: Any) -> None:
        fits = len(message.data) <= DATA_BYTES_MAX and len(message.from_id) == _PUBLISHER_BYTES
        if not fits or not self._is_subscribed_to_msg(message) or self._is_msg_seen(message):
            return
        if not self.passes(forwarder):
            return
        publisher = str(PeerID(message.from_id))
        if self._doors is not None and self._doors.refuses(publisher):
            return
        await self.push_msg(forwarder, message)


def _bounded(control: Any) -> bool:
    named = [*control.ihave, *control.iwant, *getattr(control, "idontwant", ())]
    count = sum(len(each.messageIDs) for each in named)
    return count + len(control.graft) + len(control.prune) + len(named) <= CONTROL_IDS_MAX


class Gossiping:
    """The topics of one host, while `running` is entered."""

    def __init__(self, host: Any, doors: Doors | None) -> None:
        self._pubsub = GuardedPubsub(host, doors)
        self.bytes_in = 0
        self.bytes_out = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Until left."""
        async with (
            background_service(self._pubsub),
            background_service(self._pubsub.router),
        ):
            await self._pubsub.wait_until_ready()
            yield

    async def publish(self, topic: str, data: bytes) -> int:
        """See Peer: to how many it goes at once; others hear of it from those."""
        neighbours = len(self._pubsub.router.mesh.get(topic, ()))
        await self._pubsub.publish(topic, data)
        self.bytes_out += len(data) * neighbours
        return neighbours

    async def listen(self, topic: str, heard: Heard | None) -> None:
        """See Peer."""
        if heard is None:
            await self._pubsub.unsubscribe(topic)
            self._pubsub.remove_topic_validator(topic)
            return

        def worth_hearing(forwarder: Any, message: Any) -> bool:
            if forwarder == self._pubsub.my_id:
                return True
            self.bytes_in += len(message.data)
            return heard(str(PeerID(message.from_id)), message.data)

        self._pubsub.set_topic_validator(topic, worth_hearing, False)
        await self._pubsub.subscribe(topic)
