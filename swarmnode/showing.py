"""What the dashboard is made of: looks at the running node whenever a page or a scrape asks.

Gathers; swarmnode.api makes the page. Costs nothing while nobody asks.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import structlog

from swarmnode.api.moment import Moment
from swarmnode.clock import Clock
from swarmnode.config.metrics import Metrics
from swarmnode.config.settings import Settings
from swarmnode.home import Home
from swarmnode.memories import Memories
from swarmnode.observe.log_reading import LogReader
from swarmnode.observe.status import StatusDocument
from swarmnode.telling import ConnectedTransport, peers_of, status_of
from swarmnode.vitals import Vitals

LOG_ENTRIES = 60
LOG_BYTES = 64 * 1024
"""Of each log file, before its end, when the first page is opened."""
IDLE_SECONDS = 60.0
"""After so long without a look the log is opened anew."""
EARLIER_SECONDS = 4.0
"""Over which processor time is counted, at least."""

log = structlog.get_logger()


class Looking:
    """Gathers moments."""

    def __init__(
        self,
        settings: Settings,
        vitals: Vitals,
        memories: Memories,
        transport: ConnectedTransport,
        log_folder: Path,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._vitals = vitals
        self._memories = memories
        self._transport = transport
        self._log_folder = log_folder
        self._clock = clock
        self._looked = -math.inf
        self._reader: LogReader | None = None
        self._entries: deque[Mapping[str, Any]] = deque(maxlen=LOG_ENTRIES)
        self._statuses: deque[StatusDocument] = deque()

    async def moment(self) -> Moment:
        """The node as it is now."""
        status = await status_of(self._vitals, self._transport, self._clock)
        peers = await peers_of(self._memories, self._transport, self._clock)
        await asyncio.to_thread(self._read_log, self._clock.now())
        while len(self._statuses) > 1 and status.now - self._statuses[1].now >= EARLIER_SECONDS:
            self._statuses.popleft()
        earlier = self._statuses[0] if self._statuses else None
        self._statuses.append(status)
        return Moment(
            status=status,
            earlier=earlier,
            peers=peers.peers,
            history=self._vitals.history,
            groups=self._vitals.groups,
            log=tuple(self._entries),
            guard_rails=self._settings.guard_rails,
        )

    def close(self) -> None:
        """Close the log's files."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _read_log(self, now: float) -> None:
        """What was written since the last look; no more than LOG_BYTES a file after a pause."""
        if now - self._looked > IDLE_SECONDS:
            self.close()
            self._entries.clear()
        self._looked = now
        if self._reader is None:
            self._reader = LogReader(self._log_folder, LOG_BYTES)
        self._entries.extend(self._reader.new(LOG_ENTRIES))


async def show(
    stack: AsyncExitStack,
    settings: Settings,
    home: Home,
    vitals: Vitals,
    memories: Memories,
    transport: ConnectedTransport,
    clock: Clock,
) -> str:
    """Serve dashboard and metrics until the stack unwinds; the page's whole address, or "".

    Nobody needs them to train: what keeps one from being served is told in one line.
    """
    looking = Looking(settings, vitals, memories, transport, home.log, clock)
    stack.callback(looking.close)
    if settings.metrics.address:
        await _show_metrics(stack, settings.metrics, home, looking)
    if not settings.dashboard.enabled:
        return ""
    # Here, so that a node without it loads no web server.
    from swarmnode.api.dashboard import Dashboard
    from swarmnode.api.secret import address_of, load_or_draw_secret

    try:
        secret = load_or_draw_secret(home.dashboard_secret)
        metrics_secret = _metrics_secret(settings.metrics, home)
        dashboard = await Dashboard.open(settings.dashboard, secret, metrics_secret, looking.moment)
    except OSError as error:
        log.error("no dashboard", why=error.strerror or str(error))
        return ""
    stack.push_async_callback(dashboard.close)
    if dashboard.elsewhere:
        taken = settings.dashboard.port
        log.warning("dashboard.port is taken", port=taken, served_at=dashboard.address)
    vitals.dashboard = dashboard.address
    return address_of(dashboard.address, secret)


async def _show_metrics(
    stack: AsyncExitStack, settings: Metrics, home: Home, looking: Looking
) -> None:
    from swarmnode.api.metrics_door import MetricsDoor

    try:
        secret = _metrics_secret(settings, home)
        door = await MetricsDoor.open(settings.address, settings.port, secret, looking.moment)
    except OSError as error:
        log.error("no metrics", why=error.strerror or str(error), file=error.filename or "")
        return
    stack.push_async_callback(door.close)
    log.info("metrics", served_at=f"{door.address}/metrics")


def _metrics_secret(settings: Metrics, home: Home) -> str:
    """Raises OSError."""
    from swarmnode.api.secret import load_or_draw_secret, shared_secret

    if settings.secret_file:
        return shared_secret(Path(settings.secret_file))
    return load_or_draw_secret(home.metrics_secret)
