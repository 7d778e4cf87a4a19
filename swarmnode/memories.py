"""What a node remembers of its peers over its death: their standing, and the bundles accepted.

Between the selection room, which knows what is remembered, and the store, which knows rows.
"""

from __future__ import annotations

from swarmnode.clock import Clock
from swarmnode.selection.quality import Quality
from swarmnode.selection.remembered import Remembered
from swarmnode.selection.standing import Standing
from swarmnode.store.records import PeerRecord
from swarmnode.store.store import Store
from swarmproto import ReplayWindow

KEPT_EVERY_SECONDS = 30.0
MOST_PEERS = 4096


class Memories:
    """Standing and replay windows, restored once and kept from then on."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._kept: dict[str, list[object]] = {}
        self.standing = Standing()
        self.remembered = Remembered()
        self.quality = Quality()
        """Not kept over a death."""

    async def restore(self) -> None:
        """Take back what an earlier life knew."""
        records = await self._store.peers(MOST_PEERS)
        values = [
            [record.peer, record.mutes, record.muted_until, dict(record.counts)]
            for record in reversed(records)
        ]
        self.standing = Standing.from_values(values)
        self._kept = {str(value[0]): value for value in values}
        windows = await self._store.windows()
        self.remembered.restore_windows({key: each.to_bytes() for key, each in windows.items()})

    async def keep(self) -> None:
        """Keep what changed, again and again, until cancelled."""
        while True:
            await self._clock.sleep(KEPT_EVERY_SECONDS)
            self.keep_now()

    def keep_now(self) -> None:
        """Keep what changed since the last time."""
        now, values = self._clock.now(), self.standing.to_values()
        # Names are free: those that the standing forgot are forgotten here too.
        self._kept = {name: self._kept[name] for name, *_ in values if name in self._kept}
        for value in values:
            peer, mutes, muted_until, counts = value
            assert isinstance(peer, str)
            assert isinstance(mutes, int)
            assert isinstance(muted_until, float)
            assert isinstance(counts, dict)
            if self._kept.get(peer) == value:
                continue
            self._kept[peer] = value
            why = " ".join(self.standing.why(peer, now))
            self._store.record_peer(PeerRecord(peer, now, now, counts, mutes, muted_until, why))
        for key, window in self.remembered.changed_windows().items():
            self._store.keep_window(key, ReplayWindow.from_bytes(window))
