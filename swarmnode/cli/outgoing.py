"""`swarmnode rollouts --outgoing`: the exact bytes that left this machine, or what they say."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.running import reading

if TYPE_CHECKING:
    from swarmnode.api.documents import BundleDocument
    from swarmnode.home import Home
    from swarmnode.store.records import PublishedBundle

MOST = 100


def show_outgoing(home: Home, count: int, *, as_hex: bool) -> None:
    """Write the newest own bundles, newest first, one JSON object each. Raises Mistake."""
    if count > MOST:
        raise Mistake(f"--outgoing shows {MOST} bundles at most; give a smaller -n")
    for bundle in _bundles(home, count):
        shown = bundle.model_dump(mode="json") if as_hex else _decoded(bundle)
        # ASCII alone: a model's text reaches no terminal raw.
        sys.stdout.write(json.dumps(shown, indent=2) + "\n")


def _bundles(home: Home, count: int) -> Sequence[BundleDocument]:
    from pydantic import ValidationError

    from swarmnode.api.documents import BundleDocument, RolloutsDocument
    from swarmnode.api.status import NotRunning, SocketError, ask

    try:
        answer = ask(home.status_socket, f"rollouts {count}")
        return RolloutsDocument.model_validate(answer).bundles
    except NotRunning:
        return [BundleDocument.of(bundle) for bundle in _stored(home.database, count)]
    except SocketError as error:
        raise Mistake(f"the node gives no rollouts: {error}", Exit.FAILURE) from error
    except ValidationError as error:
        raise Mistake(
            "the node gives no rollouts: its answer is of another version; start it again",
            Exit.FAILURE,
        ) from error


def _stored(database: Path, count: int) -> Sequence[PublishedBundle]:
    """What a stopped node's store holds; it is only read."""
    from swarmnode.store.reading import stored_bundles

    if not database.exists():
        raise Mistake(
            f"nothing has left this machine: there is no {database}; start with `swarmnode run`",
            Exit.NOT_RUNNING,
        )
    with reading(database):
        return stored_bundles(database, count)


def _decoded(bundle: BundleDocument) -> Mapping[str, object]:
    from swarmnode.provenance import SWARM_ID
    from swarmproto import WireError, bundle_id, decode_group, open_announcement, open_header

    announcement, header = bytes.fromhex(bundle.announcement), bytes.fromhex(bundle.header)
    groups = [bytes.fromhex(group) for group in bundle.groups]
    try:
        return {
            "bundle_id": bundle_id(header).hex(),
            "bytes": len(announcement) + len(header) + sum(map(len, groups)),
            "announcement": _values(open_announcement(announcement, announcement[SWARM_ID])),
            "header": _values(open_header(header, header[SWARM_ID])),
            "groups": [_values(decode_group(group)) for group in groups],
        }
    except WireError as error:
        raise Mistake(f"a bundle does not decode: {error}; try --hex", Exit.FAILURE) from error


def _values(record: Any) -> Any:
    """A record as JSON values: bytes as hex, and without the copy of its own encoding."""
    return _plain_values({k: v for k, v in asdict(record).items() if k != "encoded"})


def _plain_values(value: object) -> object:
    match value:
        case bytes():
            return value.hex()
        case dict():
            return {name: _plain_values(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain_values(each) for each in value]
    return value
