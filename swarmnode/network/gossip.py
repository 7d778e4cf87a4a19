"""Announcements by gossip: heard seconds after they are made, on a topic that peers pass on.

Beside discovery, never instead of it: what is missed here is found by asking. A transport with a
DHT listens while its swarm is small, since everybody on a topic gets every announcement; one
without listens always. Knows the shape of a peer, no library.

Whoever publishes what isn't an announcement of its own is refused for a while, and hung up on. An
author's and an address prefix's share are bounded, and so is all together: above that the topic is
left for a minute. Source: network.md §1b, §3 and §4; protocol/README.md, section 10.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final

from swarmnode.buckets import Bucket, Rate
from swarmnode.clock import Clock
from swarmnode.keys import peer_id_of
from swarmnode.network.doors import Doors
from swarmnode.network.known import Known
from swarmnode.network.supervised import Supervised
from swarmproto import ANNOUNCEMENT_BYTES_MAX, Announcement

JOIN_BELOW: Final = 400.0
LEAVE_FROM: Final = 500.0
"""Nodes in the swarm: on a topic the traffic of each grows with them, on the DHT it doesn't."""
HEARD: Final = Rate(300.0, 3000.0)
"""Messages of all, good and bad, before the topic is left; a long one counts by its KiB."""
REST_SECONDS: Final = 60.0
FAULTS_MAX: Final = 5
"""Messages of one publisher that are none of its announcements, before it is refused."""
REFUSED_SECONDS: Final = 60.0
FAULTY_REMEMBERED: Final = 1024
LOOK_SECONDS: Final = 1.0


def topic_of(swarm_id: bytes) -> str:
    """The topic of a swarm's announcements."""
    return f"/swarmnode/announce/1/{swarm_id.hex()}"


class Gossip:
    """One membership's topic; `run` must be running for it to be listened to."""

    def __init__(
        self,
        *,
        swarm_id: bytes,
        peer: Supervised,
        known: Known,
        doors: Doors,
        clock: Clock,
        size: Callable[[], float],
    ) -> None:
        """`size` estimates the nodes in the swarm."""
        self._topic = topic_of(swarm_id)
        self._peer = peer
        self._known = known
        self._doors = doors
        self._clock = clock
        self._size = size
        self._heard = Bucket(HEARD.burst, clock.now())
        self._rest_until = 0.0
        self._faults: OrderedDict[str, int] = OrderedDict()
        self._to_hang_up_on: set[str] = set()
        self.listening = False
        self.counts: Counter[str] = Counter()
        """What became of messages: `new`, `known`, `refused`, `busy`, `size`, `faulty`, `another`
        (somebody else's announcement), `untimely`; and `rests`, times that the topic was left."""

    def heard(self, origin: str, data: bytes) -> bool:
        """Learn an announcement from the topic; whether it is worth passing on.

        `origin` is the id of the peer that published it, by whose key the message was verified.
        """
        now = self._clock.now()
        self._heard.refilled(HEARD, now)
        self._heard.left -= max(1.0, len(data) / ANNOUNCEMENT_BYTES_MAX)
        if self._doors.refuses(origin):
            self.counts["refused"] += 1
            return False
        if not self._doors.gossip.spend(origin, 1.0):
            self.counts["busy"] += 1
            return False
        if len(data) > ANNOUNCEMENT_BYTES_MAX:
            return self._fault(origin, "size")
        counts = self._known.counts
        untimely, new = counts["expired"] + counts["early"], counts["new"]
        announcement = self._known.learn(data, origin)
        if announcement is None:
            if counts["expired"] + counts["early"] == untimely:
                return self._fault(origin, "faulty")
            # By a clock that is wrong or a message that was long under way: nobody's fault.
            self.counts["untimely"] += 1
            return False
        if peer_id_of(announcement.public_key) != origin:
            return self._fault(origin, "another")
        self.counts["new" if counts["new"] > new else "known"] += 1
        return True

    async def publish(self, announcement: Announcement) -> int:
        """Make an announcement of ours known; to how many peers it was handed, 0 when resting."""
        if not self.listening:
            return 0
        return await self._peer.publish(self._topic, announcement.encoded)

    async def run(self) -> None:
        """Listen while that is wise, until cancelled."""
        while True:
            self._decide()
            for peer_id in self._to_hang_up_on:
                await self._peer.disconnect(peer_id)
            self._to_hang_up_on.clear()
            await self._clock.sleep(LOOK_SECONDS)

    def _decide(self) -> None:
        now = self._clock.now()
        if self._heard.refilled(HEARD, now) < 0.0:
            self._heard.left = HEARD.burst
            self._rest_until = now + REST_SECONDS
            self.counts["rests"] += 1
        most = LEAVE_FROM if self.listening else JOIN_BELOW
        crowded = self._peer.has_dht and self._size() >= most
        listening = not crowded and now >= self._rest_until
        if listening != self.listening:
            self.listening = listening
            self._peer.listen(self._topic, self.heard if listening else None)

    def _fault(self, origin: str, reason: str) -> bool:
        self.counts[reason] += 1
        self._faults[origin] = self._faults.get(origin, 0) + 1
        self._faults.move_to_end(origin)
        if len(self._faults) > FAULTY_REMEMBERED:
            self._faults.popitem(last=False)
        if self._faults.get(origin, 0) >= FAULTS_MAX:
            del self._faults[origin]
            self._doors.refuse(origin, REFUSED_SECONDS)
            self._to_hang_up_on.add(origin)
        return False
