"""What a mesh lost, or was too slow for, is told by name, asked for, and sent again.

Runs under trio. Told are a few who are in no mesh of ours, each second, and whoever may have missed
something: it came late, a stream to it failed, or there was no room for what was handed on.
Source: GossipSub's IHAVE and IWANT; recent_messages.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from swarmnode.network import libp2p_messages as messages
from swarmnode.network.libp2p_neighbour import Neighbour
from swarmnode.network.recent_messages import RecentMessages, Wanted

NAMES_TOLD_MAX: Final = 1000
ASKED_AT_ONCE: Final = 100
"""Messages in one request, whose answer is one RPC with Go, and has to be one that we read."""
YOUNG_SECONDS: Final = 0.5
"""Messages that are no older are not told by name: they are on their way."""
TOLD_SECONDS: Final = 4.0
"""That a message is told by name to some, each second."""


class Repair:
    """Beside the meshes of one host, whose recent messages it has."""

    def __init__(self, recent: RecentMessages, counts: Counter[str]) -> None:
        """`counts` has messages that were `told` by name, `asked` for, `answered` to others, and
        `came`, since they were asked for."""
        self._recent = recent
        self._counts = counts
        self._wanted = Wanted()

    def heard(
        self, neighbour: Neighbour, peer: str, control: Any, topics: Collection[str], now: float
    ) -> None:
        """What a peer says that it has, and asks for; of our topics alone."""
        names = [
            name
            for ihave in control.ihave
            if ihave.topicID in topics
            for name in ihave.messageIDs
            if len(name) == messages.NAME_BYTES and not self._recent.is_seen(name)
        ]
        self._ask(neighbour, self._wanted.told(names, peer, now))
        for iwant in control.iwant:
            for name in iwant.messageIDs:
                self._answer(neighbour, name, now)

    def came(self, name: bytes) -> None:
        """A message is here."""
        self._counts["came"] += self._wanted.came(name)

    def ask_again(self, neighbours: Mapping[str, Neighbour], now: float) -> None:
        """For what did not come. Once a second, as `tell`."""
        self._recent.expire(now)
        for peer, names in self._wanted.again(now, neighbours).items():
            self._ask(neighbours[peer], names)

    def tell(
        self, topic: str, listeners: Mapping[str, Neighbour], lazy: Collection[str], now: float
    ) -> None:
        """Name messages of a topic to those who listen, `lazy` of them in any case."""
        settled = now - YOUNG_SECONDS
        for peer in lazy:
            self._tell(listeners[peer], topic, now - TOLD_SECONDS, settled)
        for neighbour in listeners.values():
            since, _ = neighbour.lacks.get(topic, (now, now))
            if since < settled and not neighbour.is_slow:
                told = self._tell(neighbour, topic, since, settled)
                if told is not None:
                    neighbour.told(topic, told)

    def _tell(self, neighbour: Neighbour, topic: str, since: float, until: float) -> float | None:
        """Up to when the peer has been told; None where there was no room."""
        names, told = self._recent.names(topic, since, until, NAMES_TOLD_MAX)
        if names and not neighbour.say(messages.have(topic, names)):
            return None
        self._counts["told"] += len(names)
        return told

    def _ask(self, neighbour: Neighbour, names: Sequence[bytes]) -> None:
        self._counts["asked"] += len(names)
        for request in messages.want(names, ASKED_AT_ONCE):
            neighbour.say(request)

    def _answer(self, neighbour: Neighbour, name: bytes, now: float) -> None:
        kept = self._recent.kept(name)
        if kept is not None and neighbour.may_ask(now) and neighbour.say(kept):
            self._counts["answered"] += 1
