"""A node that answers on its status socket, and the commands that ask it, in this process."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
import typer

from swarmnode import cli
from swarmnode.api.documents import (
    PeersDocument,
    PeerStatus,
    WhyDocument,
)
from swarmnode.api.status import Documents, StatusServer
from swarmnode.cli.doctor import doctor
from swarmnode.cli.export import export
from swarmnode.cli.logs import logs
from swarmnode.cli.peers import peers
from swarmnode.cli.rollouts import rollouts
from swarmnode.cli.status import status
from swarmnode.observe.facts import Facts, HealthWarning, Severity
from swarmnode.observe.health import warnings
from swarmnode.observe.log import start_logging
from swarmnode.observe.machine import ProcessStatus
from swarmnode.observe.network_status import BootstrapStatus, NetworkStatus
from swarmnode.observe.status import (
    CheckpointStatus,
    Mix,
    NodeStatus,
    PoolStatus,
    Reward,
    Rewards,
    RoundStatus,
    StatusDocument,
    SwarmStatus,
)
from swarmnode.store import PublishedBundle
from swarmproto import (
    AnnouncedGroup,
    AnnouncementDraft,
    CompletionRecord,
    GroupRecord,
    PolicyLabel,
    bundle_id,
    bundle_size,
    encode_group,
    seal_announcement,
    seal_bundle,
)

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e"

DOCUMENT = StatusDocument(
    version="0.1.0",
    started=1000.0,
    now=4000.0,
    node=NodeStatus(peer_id="12D3KooWAlice", public_key="ab" * 32, model="tiny"),
    swarm=SwarmStatus(id="cd" * 32, name=f"friends{HOSTILE}", size=7),
    round=RoundStatus(number=41, ended=3990.0, seconds=12.5),
    policy_version=40,
    rewards=Rewards(
        local=Reward(mean=0.5, by_task={f"task_{n}": 0.5 for n in range(9)}),
        held_out=Reward(mean=0.25, by_task={"task_0": 0.25}),
    ),
    mix=Mix(
        local_groups=4, external_groups=2, external_peers=2,
        wanted_local_groups=4, wanted_external_groups=4,
    ),
    pool=PoolStatus(groups=3, capacity=12, admitted=80, last_admitted_seconds=2.0),
    network=NetworkStatus(
        state="connected", state_seconds=300.0, peers=6, addresses=(f"/ip4/1.2.3.4/{HOSTILE}",),
        last_acknowledgement_seconds=3.0, bytes_in=1 << 20, bytes_out=2 << 20,
        bootstrap=(BootstrapStatus(address="/ip4/192.0.2.7/tcp/1", connected=False, failures=2),),
    ),
    dropped={"expired": 3, "wire": 9},
    processes=(ProcessStatus(name="policy", process_id=12, memory_bytes=1 << 30, restarts=1),),
    checkpoint=CheckpointStatus(policy_version=30, written=3700.0, bytes=12 << 20),
    warnings=(
        *warnings(Facts(disk_free_bytes=1, training_failures=1, training_error=HOSTILE)),
        HealthWarning("of-another-version", Severity.INFO, HOSTILE, HOSTILE, HOSTILE),
    ),
)  # fmt: skip


def in_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The commands of a home of a test's own."""
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
    for command in (status, peers, rollouts, doctor, logs):
        app.command()(command)
    app.add_typer(export, name="export")
    monkeypatch.setattr(cli, "app", app)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["swarmnode", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return int(caught.value.code or 0)


async def _documents(values: object) -> object:
    return values


@contextmanager
def node(home: Path, **answers: Any) -> Iterator[None]:
    """A node that answers; `answers` by request."""
    given: dict[str, Any] = {
        "status": DOCUMENT.as_json(), "peers": {"peers": []}, "rollouts": {"bundles": []}, **answers
    }  # fmt: skip
    documents = Documents(
        status=lambda: _documents(given["status"]),
        peers=lambda: _documents(given["peers"]),
        rollouts=lambda count: _documents({"bundles": given["rollouts"]["bundles"][:count]}),
        why=lambda peer: _documents(WhyDocument(peer=peer, lines=(f"wire{HOSTILE}",)).model_dump()),
    )
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(StatusServer.start(home / "status.sock", documents))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def safe(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


KNOWN = PeersDocument(
    peers=(
        PeerStatus(peer="12D3KooWBob", connected=True, seconds_connected=90.0, admitted=4),
        PeerStatus(peer=f"12D3KooWEve{HOSTILE}", dropped={"wire": 2}, muted_seconds=3600.0),
    )
).model_dump(mode="json")


def published(sequence: int = 5) -> PublishedBundle:
    record = GroupRecord(
        task="gcd", level="easy", index=0, fingerprint=bytes(32), question="gcd(4, 6)?",
        answer="2",
        completions=tuple(
            CompletionRecord(text, "stop", 2) for text in (f"2{HOSTILE}", "3")
        ),
    )  # fmt: skip
    private, swarm = bytes(range(32)), bytes(32)
    bundle = seal_bundle(
        private, swarm, sequence, 1000, PolicyLabel("tiny", 1, bytes(32)), [encode_group(record)]
    )
    draft = AnnouncementDraft(
        instance=bytes(16), bundle_id=bundle_id(bundle.header_bytes), size=bundle_size(bundle),
        groups=(AnnouncedGroup("gcd", "easy", 1, 2),), policy_version=1, created=1000,
        expires=2000, holders=("/ip4/127.0.0.1/tcp/1",),
    )  # fmt: skip
    return PublishedBundle(
        created=1.0, sequence=sequence, bundle_id=bundle_id(bundle.header_bytes),
        announcement=seal_announcement(private, swarm, draft), header=bundle.header_bytes,
        groups=bundle.group_bytes,
    )  # fmt: skip


def write_log(home: Path, process: str, *events: str) -> None:
    running = start_logging(home / "log", process)
    try:
        for event in events:
            structlog.get_logger().info(event)
    finally:
        running.close()
