"""The metrics alone, at an address of their own: what Prometheus on another machine is let in by.

The page stays where it is, mostly on loopback; who knows the secret of the metrics knows figures of
this node, and neither its peers nor its log. Bounded like the page (serving.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Self

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from swarmnode.api.dashboard import Guarded, shown_address
from swarmnode.api.guard import METRICS_PATH, metrics_refusal
from swarmnode.api.moment import Moment
from swarmnode.api.prometheus import CONTENT_TYPE, exposition
from swarmnode.api.serving import HttpServer, bound


class MetricsDoor:
    """Serves /metrics until `close`; made by `open`."""

    def __init__(self, server: HttpServer, address: str) -> None:
        self._server = server
        self.address = address
        """Where it is served: http://192.0.2.1:8471."""

    @classmethod
    async def open(
        cls, address: str, port: int, secret: str, look: Callable[[], Awaitable[Moment]]
    ) -> Self:
        """Listen and serve. Raises OSError where that can't be listened on.

        Another port would be of no use: whoever asks was told this one.
        """

        async def metrics(request: Request) -> Response:
            return Response(exposition(await look()), headers={"Content-Type": CONTENT_TYPE})

        within = Starlette(routes=[Route(METRICS_PATH, metrics)])
        listening = bound(address, port)
        server = HttpServer(Guarded(within, partial(metrics_refusal, secret=secret)), listening)
        return cls(server, shown_address(address, listening))

    async def close(self) -> None:
        """Stop listening."""
        await self._server.close()
