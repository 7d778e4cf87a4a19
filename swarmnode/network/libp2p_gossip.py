"""GossipSub on py-libp2p's streams: what is published on our topics, and heard, at a bounded cost.

Runs under trio. Messages are verified as their publisher's, then as worth hearing, and only then
passed on; those seen before cost nothing. Of a peer that passes on more than its share no more is
read for a while, and yamux lets it say no more: what is late arrives late, and only who goes on
for longer than anything is kept loses by it. What could not be handed to a peer is told to it by
name once it can. Whose fault a message is, is its publisher's and no passer-on's, since p2pd
passes on whatever is signed. Knows no announcements.

py-libp2p's own router is not used: decision 0036. Source: network.md §2 and §3; mesh.py.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from swarmnode.network import libp2p_messages as messages
from swarmnode.network.doors import Doors
from swarmnode.network.length_prefixed import Messages
from swarmnode.network.libp2p_neighbour import Neighbour
from swarmnode.network.libp2p_repair import Repair
from swarmnode.network.libp2p_streams import Reader
from swarmnode.network.light_libp2p import GossipMessages, PeerID, trio
from swarmnode.network.mesh import DEGREE, REST_SECONDS, Mesh
from swarmnode.network.peer import Heard
from swarmnode.network.recent_messages import KEPT_SECONDS, RecentMessages

PROTOCOLS: Final = ("/meshsub/1.1.0", "/meshsub/1.0.0")
BEAT_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 0.25
RPC_BYTES_MAX: Final = 256 * 1024
TOPIC_CHARACTERS_MAX: Final = 256
SUBSCRIPTIONS_MAX: Final = 8
"""Topics of one peer."""
CONTROL_IDS_MAX: Final = 1024
"""Messages that one control message may speak of."""
IN_FLIGHT_SECONDS: Final = 30.0
"""That a message which was said may not have been read, when the stream fails."""
SHORT_SECONDS: Final = 0.05
"""Between two looks at whether a peer may pass something on."""
VERIFIED_AT_ONCE: Final = 8


class Gossiping:
    """The topics of one host, while `running` is entered."""

    def __init__(self, host: Any, private_key: bytes, doors: Doors | None) -> None:
        self._host = host
        self._own = str(host.get_id())
        self._doors = doors
        self._signer = messages.Signer(private_key)
        self._rng = random.Random()
        self._heard: dict[str, Heard] = {}
        self._meshes: dict[str, Mesh] = {}
        self._recent = RecentMessages()
        self._neighbours: dict[str, Neighbour] = {}
        self._nursery: Any = None
        self._verified = 0
        for protocol in PROTOCOLS:
            host.set_stream_handler(protocol, self._hear)
        self.bytes_in = 0
        self.bytes_out = 0
        self.counts: Counter[str] = Counter()
        """What became of messages: `heard`, `refused` (by who listens), `seen` (copies), `forged`,
        `missed` (no room to hand them on), and those of Repair; `short`, times that a peer had to
        wait for its share; `failed`, streams of ours."""
        self._repair = Repair(self._recent, self.counts)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Until left."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._keep_looking)
            nursery.start_soon(self._keep_beating)
            try:
                yield
            finally:
                nursery.cancel_scope.cancel()

    def mesh_of(self, topic: str) -> Sequence[str]:
        """Ids of those who get each message of a topic at once."""
        return list(self._meshes[topic].members) if topic in self._meshes else []

    def listeners(self, topic: str) -> Sequence[str]:
        """Ids of the connected peers that listen to a topic."""
        return [peer for peer, each in self._neighbours.items() if topic in each.topics]

    async def publish(self, topic: str, data: bytes) -> int:
        """See Peer: to how many it goes at once; others hear of it from those."""
        message = self._signer.message(topic, data)
        name = messages.name_of(message)
        if name is None:
            raise ValueError("longer than any announcement")
        members, listeners = self.mesh_of(topic), self.listeners(topic)
        # Before there is a mesh, or where there is none since we don't listen.
        others = [peer for peer in listeners if peer not in members]
        more = self._rng.sample(others, min(len(others), max(0, DEGREE - len(members))))
        return self._hand_on(name, message, topic, [*members, *more])

    async def listen(self, topic: str, heard: Heard | None) -> None:
        """See Peer."""
        if heard is not None:
            self._heard[topic] = heard
            if topic in self._meshes:
                return
            self._meshes[topic] = Mesh(self._rng)
            self._say_to_all(messages.subscriptions([topic], on=True))
            self._fill(topic, trio.current_time())
        elif self._heard.pop(topic, None) is not None:
            mesh = self._meshes.pop(topic)
            for peer in mesh.members:
                self._neighbours[peer].say(messages.prune(topic, REST_SECONDS))
            self._say_to_all(messages.subscriptions([topic], on=False))

    def _hand_on(self, name: bytes, message: Any, topic: str, to: Sequence[str]) -> int:
        """Keep a message and say it to peers; how many there were."""
        now = trio.current_time()
        self._recent.see(name, now)
        said = messages.framed(publish=[message])
        self._recent.keep(name, topic, said, now)
        for peer in to:
            if not self._neighbours[peer].hand_on(topic, said, now):
                self.counts["missed"] += 1
        self.bytes_out += len(said) * len(to)
        return len(to)

    def _say_to_all(self, data: bytes) -> None:
        for neighbour in self._neighbours.values():
            neighbour.say(data)

    # Who is there.

    async def _keep_looking(self) -> None:
        """Speak to whom we are connected to, and to nobody else."""
        while True:
            connected = {str(peer): peer for peer in self._host.get_network().connections}
            for peer_id in list(self._neighbours.keys() - connected.keys()):
                self._neighbours.pop(peer_id).end()
                for mesh in self._meshes.values():
                    mesh.forget(peer_id)
            for peer in connected.values():
                self._neighbour(peer)
            await trio.sleep(LOOK_SECONDS)

    def _neighbour(self, peer: Any) -> Neighbour:
        neighbour = self._neighbours.get(str(peer))
        if neighbour is None:
            neighbour = Neighbour(peer, trio.current_time())
            self._neighbours[str(peer)] = neighbour
            self._nursery.start_soon(self._speak, neighbour)
        return neighbour

    async def _speak(self, neighbour: Neighbour) -> None:
        async def opened() -> Any:
            if not self._host.get_network().get_connections(neighbour.peer):
                raise ConnectionError("not connected")  # else it would be dialled
            return await self._host.new_stream(neighbour.peer, PROTOCOLS)

        def hello() -> bytes:
            return messages.subscriptions(list(self._meshes), on=True)

        def lost() -> None:
            self.counts["failed"] += 1
            now = trio.current_time()
            for topic in neighbour.topics:
                neighbour.may_lack(topic, now - IN_FLIGHT_SECONDS, now)

        await neighbour.speak(opened, hello, lost)

    # What they say.

    async def _hear(self, stream: Any) -> None:
        """One peer's messages, until it ends, breaks the format, or speaks on another stream."""
        peer = stream.muxed_conn.peer_id
        neighbour = self._neighbour(peer)
        before, neighbour.heard_on = neighbour.heard_on, stream
        if before is not None:
            await before.reset()
        try:
            reader, read = Reader(stream), Messages(RPC_BYTES_MAX)
            while True:
                received = await reader.read()
                self.bytes_in += len(received)
                for message in read.whole(received):
                    await self._take(neighbour, str(peer), message)
        except Exception:  # a stranger's bytes must not end anything of ours
            with contextlib.suppress(Exception):
                await stream.reset()
        finally:
            if neighbour.heard_on is stream:
                neighbour.heard_on = None

    async def _take(self, neighbour: Neighbour, peer: str, received: bytes) -> None:
        rpc = GossipMessages.RPC.FromString(received)
        for message in rpc.publish:
            await self._take_message(peer, message)
        if not (rpc.subscriptions or rpc.HasField("control")):
            return
        await self._has_share(peer)
        if self._neighbours.get(peer) is not neighbour:
            raise ConnectionError("gone meanwhile")
        now = trio.current_time()
        for subscription in rpc.subscriptions[:SUBSCRIPTIONS_MAX]:
            self._subscribed(neighbour, peer, subscription, now)
        if _bounded(rpc.control):
            self._controlled(neighbour, peer, rpc.control, now)

    async def _take_message(self, peer: str, message: Any) -> None:
        name = messages.name_of(message)
        if name is None or message.topicIDs[0] not in self._meshes:
            return
        if self._recent.is_seen(name):
            self.counts["seen"] += 1
            return
        await self._has_share(peer)
        self._verified += 1
        if self._verified % VERIFIED_AT_ONCE == 0:
            await trio.lowlevel.checkpoint()
        topic = message.topicIDs[0]
        publisher = str(PeerID(message.from_id))
        if topic not in self._meshes or publisher == self._own or self._recent.is_seen(name):
            return
        if self._doors is not None and self._doors.refuses(publisher):
            return
        if not messages.is_its_publishers(message):
            self.counts["forged"] += 1
            return
        self._repair.came(name)
        if topic not in self._heard:
            return
        if self._heard[topic](publisher, message.data):
            self.counts["heard"] += 1
            members = [each for each in self.mesh_of(topic) if each not in (peer, publisher)]
            self._hand_on(name, message, topic, members)
        else:
            self.counts["refused"] += 1
            self._recent.see(name, trio.current_time())

    async def _has_share(self, peer: str) -> None:
        """Wait until a peer may pass something on: meanwhile nothing of it is read."""
        if self._doors is None:
            return
        while not self._doors.forwarded.spend(peer, 1.0):
            self.counts["short"] += 1
            await trio.sleep(SHORT_SECONDS)

    def _subscribed(self, neighbour: Neighbour, peer: str, said: Any, now: float) -> None:
        topic = said.topicid
        if not said.subscribe:
            neighbour.topics.discard(topic)
            if topic in self._meshes:
                self._meshes[topic].gone(peer)
        elif len(topic) <= TOPIC_CHARACTERS_MAX and len(neighbour.topics) < SUBSCRIPTIONS_MAX:
            if topic in self._meshes and topic not in neighbour.topics:
                neighbour.may_lack(topic, now - KEPT_SECONDS, now)
            neighbour.topics.add(topic)
            if topic in self._meshes:
                self._fill(topic, now)

    def _controlled(self, neighbour: Neighbour, peer: str, control: Any, now: float) -> None:
        for graft in control.graft:
            mesh = self._meshes.get(graft.topicID)
            if mesh is not None and not mesh.asked(peer, now):
                neighbour.say(messages.prune(graft.topicID, REST_SECONDS))
        for prune in control.prune:
            if prune.topicID in self._meshes:
                self._meshes[prune.topicID].left(peer, prune.backoff, now)
        self._repair.heard(neighbour, peer, control, self._meshes, now)

    # What is done every second.

    async def _keep_beating(self) -> None:
        while True:
            await trio.sleep(BEAT_SECONDS)
            now = trio.current_time()
            self._repair.ask_again(self._neighbours, now)
            for topic, mesh in self._meshes.items():
                self._fill(topic, now)
                for peer in mesh.pruned(now):
                    self._neighbours[peer].say(messages.prune(topic, REST_SECONDS))
                listeners = {peer: self._neighbours[peer] for peer in self.listeners(topic)}
                self._repair.tell(topic, listeners, mesh.lazy(listeners), now)

    def _fill(self, topic: str, now: float) -> None:
        for peer in self._meshes[topic].chosen(self.listeners(topic), now):
            self._neighbours[peer].say(messages.graft(topic))


def _bounded(control: Any) -> bool:
    named = [*control.ihave, *control.iwant, *getattr(control, "idontwant", ())]
    count = sum(len(each.messageIDs) for each in named)
    return count + len(control.graft) + len(control.prune) + len(named) <= CONTROL_IDS_MAX
