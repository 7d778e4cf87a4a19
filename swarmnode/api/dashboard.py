"""The dashboard: the page, its events and the metrics over HTTP, in the node's own loop.

Only reads. Whoever asks has to know the secret in the address (guard.py), and whatever a client
does is bounded (serving.py); what is shown comes from one callable, and no failure of it or of a
client reaches the rest of the program.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib.resources import files
from typing import Self

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from swarmnode.api.guard import HEADERS, METRICS_PATH, Refusal, refusal
from swarmnode.api.live import MOST_PAGES, Live
from swarmnode.api.moment import Moment
from swarmnode.api.page import page_of
from swarmnode.api.prometheus import CONTENT_TYPE, exposition
from swarmnode.api.serving import HttpServer, listening_at
from swarmnode.config.dashboard import Dashboard as DashboardSettings

Guard = Callable[[str, str, Mapping[str, str]], Refusal | None]
"""From method, path and headers, with lower-case names, to a refusal or none."""
FILES: Mapping[str, str] = {
    "dashboard.css": "text/css; charset=utf-8",
    "dashboard.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "uplot.css": "text/css; charset=utf-8",
    "uplot.js": "text/javascript; charset=utf-8",
}


class Dashboard:
    """Serves the page until `close`; made by `open`."""

    def __init__(self, server: HttpServer, live: Live, address: str, *, elsewhere: bool) -> None:
        self._server = server
        self._live = live
        self.address = address
        """Where it is served, without the secret: http://127.0.0.1:8470."""
        self.elsewhere = elsewhere
        """Whether the port of the settings was taken."""

    @classmethod
    async def open(
        cls,
        settings: DashboardSettings,
        secret: str,
        metrics_secret: str,
        look: Callable[[], Awaitable[Moment]],
    ) -> Self:
        """Listen and serve. Raises OSError where nothing can be listened on."""
        listening, elsewhere = listening_at(settings.address, settings.port)
        live = Live(look)
        application = application_of(settings, secret, metrics_secret, live)
        address = shown_address(settings.address, listening)
        return cls(HttpServer(application, listening), live, address, elsewhere=elsewhere)

    @property
    def pages(self) -> int:
        """Pages that are open."""
        return self._live.pages

    @property
    def connections(self) -> int:
        """Connections that are open."""
        return self._server.connections

    async def close(self) -> None:
        """Let every page go, and stop listening."""
        await self._live.close()
        await self._server.close()


def application_of(
    settings: DashboardSettings, secret: str, metrics_secret: str, live: Live
) -> ASGIApp:
    """What answers, behind its guard."""
    texts = {name: (files("swarmnode.api") / "static" / name).read_bytes() for name in FILES}

    async def page(request: Request) -> Response:
        return Response(page_of(await live.moment()), media_type="text/html; charset=utf-8")

    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in texts:
            return PlainTextResponse("There is no such file.\n", 404)
        return Response(texts[name], media_type=FILES[name])

    async def events(request: Request) -> Response:
        if live.pages >= MOST_PAGES:
            return PlainTextResponse(f"{MOST_PAGES} pages are open already.\n", 503)
        return StreamingResponse(live.events(), media_type="text/event-stream")

    async def metrics(request: Request) -> Response:
        return Response(exposition(await live.moment()), headers={"Content-Type": CONTENT_TYPE})

    routes = [
        Route("/{secret}/", page),
        Route("/{secret}/events", events),
        Route(METRICS_PATH, metrics),
        Route("/{secret}" + METRICS_PATH, metrics),
        Route("/{secret}/{name}", file),
    ]
    hosts = frozenset(settings.hosts)
    guard = partial(refusal, secret=secret, metrics_secret=metrics_secret, hosts=hosts)
    return Guarded(Starlette(routes=routes), guard)


class Guarded:
    """Answers nobody who may not ask, and says to browsers what the answers may be used for."""

    def __init__(self, within: ASGIApp, guard: Guard) -> None:
        self._within = within
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        refused = self._guard(scope["method"], scope["path"], headers)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        answering = self._within if refused is None else PlainTextResponse(
            refused.text, refused.status
        )  # fmt: skip
        await answering(scope, receive, sending)


def shown_address(address: str, listening: socket.socket) -> str:
    """As a program on this machine asks for it."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)
    port = listening.getsockname()[1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
