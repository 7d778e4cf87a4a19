"""A network process without a network: `python -m tests.unit.network_children FD`.

What is asked of it is appended to the file `said` in the order's folder, a JSON list a line. The
order's rules tell how it behaves.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from swarmnode.channel import Channel
from swarmnode.process import die_with_parent, inherited_socket
from swarmproto import FetchResponse, encode_fetch_response

PORT = 40_123
METHODS = (
    "start",
    "announce",
    "hold",
    "prefixes_of",
    "discover",
    "fetch",
    "health",
    "holders",
    "saved_peers",
    "peers",
    "swarm_file",
    "stop",
)


def sleeping_child() -> int:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid


class Network:
    """Answers for a swarm of which only this process knows."""

    def __init__(self) -> None:
        self._said = Path(os.devnull)
        self._left = asyncio.Event()
        self._stop_seconds = 0.0

    def say(self, *words: object) -> None:
        with self._said.open("a") as said:
            said.write(json.dumps(words) + "\n")

    async def start(self, order: dict[str, Any]) -> dict[str, object]:
        self._said = Path(order["folder"]) / "said"
        self.say("start", os.getpid(), order["listen"], order["saved_peers"], sorted(os.environ))
        match order["rules"]:
            case b"port taken":
                raise OSError("port 4001 is taken\nby process 7")
            case b"no shape":
                return {}
            case b"slow to stop":
                self._stop_seconds = 0.5
            case b"with a child":
                self.say("child", sleeping_child())
        address = f"/ip4/127.0.0.1/tcp/{PORT}/p2p/ourselves"
        return {"peer_id": "ourselves", "addresses": [address]}

    async def announce(self, payload: dict[str, Any]) -> dict[str, object]:
        self.say("announce", payload["announcement"].decode(), len(payload["groups"]))
        return {"acknowledged": True, "offered": []}

    async def hold(self, payload: dict[str, Any]) -> None:
        self.say("hold", payload["announcement"].decode(), list(payload["groups"]))

    async def discover(self, payload: dict[str, Any]) -> list[object]:
        return [[b"one", "a peer"], [b"two", ""], ["no bytes", ""], [b"three", "a peer"]]

    async def fetch(self, payload: dict[str, Any]) -> bytes:
        match payload["holder"]:
            case "unreachable":
                raise OSError("no answer from unreachable")
            case "never":
                await asyncio.Event().wait()
            case "nonsense":
                return b"nonsense"
        return encode_fetch_response(FetchResponse("missing", None, ()))

    async def health(self, _payload: object) -> dict[str, object]:
        return {"state": "connected", "peers": 3, "restarts": 1, "peer_id": "ourselves"}

    async def prefixes_of(self, payload: dict[str, Any]) -> list[str]:
        return [f"prefix of {peer}" for peer in payload["peers"]]

    async def holders(self, _payload: object) -> list[str]:
        self.say("holders")
        return ["a holder"]

    async def saved_peers(self, _payload: object) -> list[str]:
        return ["a good peer"]

    async def peers(self, _payload: object) -> list[object]:
        return [{"peer_id": "a peer", "address": "an address"}]

    async def verdict(self, payload: dict[str, Any]) -> None:
        self.say("verdict", payload)

    async def swarm_file(self, payload: dict[str, Any]) -> dict[str, object]:
        if payload["address"] == "nonsense":
            return {"rules": "text"}
        return {"rules": b"rules", "bootstrap": ["a bootstrap peer"]}

    async def stop(self, _payload: object) -> None:
        self.say("stop")
        await asyncio.sleep(self._stop_seconds)
        self.say("stopped")
        self._left.set()

    async def run(self, arguments: list[str]) -> None:
        handlers = {method: getattr(self, method) for method in METHODS}
        handlers |= {"good_peer": self.verdict, "bad_peer": self.verdict}
        channel = await Channel.over(inherited_socket(arguments), handlers)
        serving = asyncio.ensure_future(channel.run())
        leaving = asyncio.ensure_future(self._left.wait())
        await asyncio.wait({serving, leaving}, return_when=asyncio.FIRST_COMPLETED)
        await channel.close()


if __name__ == "__main__":
    die_with_parent()
    asyncio.run(Network().run(sys.argv[1:]))
