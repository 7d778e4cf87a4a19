"""The few endpoints of a Hugging Face hub that an upload uses, on loopback; it remembers what came.

The form of requests and answers is that of huggingface_hub 2.4 without Xet: a repository is made,
the hub says which files go to the large-file store, these are put there, and one commit names all.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_right"


class Hub(ThreadingHTTPServer):
    """What was uploaded, and how."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.refuse: int | None = None
        """A status that every request gets instead."""
        self.garbled = False
        """Whether every answer is no JSON."""
        self.requests: list[str] = []
        self.visibility: dict[str, str] = {}
        self.stored: dict[str, bytes] = {}
        """Large files by SHA-256."""
        self.files: dict[str, bytes] = {}
        """The commit's files by path."""
        self.summary = ""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def hub() -> Iterator[Hub]:
    """A hub, until the block ends."""
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        self._answered()

    def do_POST(self) -> None:
        self._answered()

    def do_PUT(self) -> None:
        self._answered()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answered(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        self.server.requests.append(f"{self.command} {path}")
        if self.server.refuse:
            return self._send(self.server.refuse, {"error": "as told"})
        trusted = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if not trusted and not path.startswith("/put/"):
            return self._send(401, {"error": "Invalid credentials"})
        self._send(200, self._answer(path, body))

    def _answer(self, path: str, body: bytes) -> object:
        hub = self.server
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            hub.visibility[name] = asked["visibility"]
            return {"url": f"{hub.address}/{name}", "name": name, "id": "1"}
        if path.endswith("/preupload/main"):
            return {"files": [_mode(each["path"]) for each in json.loads(body)["files"]]}
        if path.endswith("/info/lfs/objects/batch"):
            return {"transfer": "basic", "objects": [self._place(each) for each in _objects(body)]}
        if path.startswith("/put/"):
            hub.stored[path.removeprefix("/put/")] = body
        if path.endswith("/commit/main"):
            for line in body.splitlines():
                self._committed(json.loads(line))
            name = path.removeprefix("/api/models/").removesuffix("/commit/main")
            url = f"{hub.address}/{name}/commit/1"
            return {"commitUrl": url, "commitOid": "1", "hookOutput": ""}
        return {}

    def _place(self, each: dict[str, Any]) -> dict[str, Any]:
        upload = {"href": f"{self.server.address}/put/{each['oid']}", "header": {}}
        return {**each, "authenticated": True, "actions": {"upload": upload}}

    def _committed(self, line: dict[str, Any]) -> None:
        value = line["value"]
        match line["key"]:
            case "header":
                self.server.summary = value["summary"]
            case "file":
                self.server.files[value["path"]] = base64.b64decode(value["content"])
            case "lfsFile":
                self.server.files[value["path"]] = self.server.stored[value["oid"]]

    def _send(self, status: int, value: object) -> None:
        body = b"<html>" if self.server.garbled else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _objects(body: bytes) -> list[dict[str, Any]]:
    objects: list[dict[str, Any]] = json.loads(body)["objects"]
    return objects


def _mode(path: str) -> dict[str, object]:
    large = path.endswith(".safetensors")
    return {"path": path, "uploadMode": "lfs" if large else "regular", "shouldIgnore": False}
