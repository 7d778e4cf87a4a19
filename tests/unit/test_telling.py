"""What a node tells of its peers: the list, and why one of them is treated as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from swarmnode.api.status import Documents
from swarmnode.memories import Memories
from swarmnode.prefixes import THROUGH_OTHERS, own_prefix
from swarmnode.selection.admission import Reason
from swarmnode.store.store import Store
from swarmnode.telling import ConnectedTransport, documents_of
from swarmnode.vitals import Vitals
from tests.unit.network_made import NOW
from tests.unit.network_time import FixedClock

NEAR: Mapping[str, Any] = {
    "peer_id": "12D3Near", "address": "/ip4/203.0.113.7/tcp/1", "prefix": "203.0.113.0/24",
    "seconds_connected": 5.0, "fetched_bytes": 1, "served_bytes": 2, "missed_pings": 0,
    "left": {"messages": 0.25, "offers": 1.0}, "turned_away": 12, "refused": True,
}  # fmt: skip
HERE: Mapping[str, Any] = {
    "peer_id": "12D3Here", "prefix": own_prefix("12D3Here"), "seconds_connected": 5.0,
}  # fmt: skip
GONE: Mapping[str, Any] = {
    "peer_id": "12D3Gone", "address": "", "seconds_connected": None, "prefix": THROUGH_OTHERS,
    "turned_away": 300, "refused": True,
}  # fmt: skip


class Near:
    async def peers(self) -> Sequence[Mapping[str, Any]]:
        return [NEAR, HERE, GONE]


@pytest.fixture
def told(tmp_path: Path) -> Documents:
    store = cast("Store", None)  # nothing here asks it for anything
    memories = Memories(store, FixedClock())
    memories.quality.note("12D3Near", NOW, fetched=8, held=6, live=2, admitted=2)
    memories.standing.note("12D3Far", Reason.HASH, NOW)
    transport = cast("ConnectedTransport", Near())
    return documents_of(cast("Vitals", None), memories, transport, store, FixedClock())


def test_the_list_has_who_is_connected_and_who_is_remembered(told: Documents) -> None:
    document = cast("dict[str, Any]", asyncio.run(cast("Any", told.peers())))
    near, here, gone, far = document["peers"]
    assert (gone["connected"], gone["turned_away"]) == (False, 300)
    assert (near["prefix"], near["turned_away"], near["refused"]) == ("203.0.113.0/24", 12, True)
    assert near["left"] == {"messages": 0.25, "offers": 1.0}
    assert near["quality"] == pytest.approx(0.3)
    assert (here["quality"], here["refused"]) == (None, False)
    assert (far["connected"], far["prefix"], far["muted_seconds"]) == (False, "", 3600.0)


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        (
            "12D3Near",
            [
                "Nothing is held against it.",
                "Quality 0.30, by what came of it lately: of 8.0 groups (older ones count less) "
                "75% held, 25% were live, 25% were admitted. Nobody is muted for this.",
                "Connected from 203.0.113.0/24, with whose peers it shares what they may have of "
                "us.",
                "Left to it: messages 25%, offers 100%.",
                "Messages turned away unread, since they were too many: 12.",
                "It went on sending what was turned away, and is refused for a minute.",
            ],
        ),
        (
            "12D3Here",
            [
                "Nothing is held against it.",
                "Connected from a network of network.exempt_networks: it shares with nobody.",
            ],
        ),
        (
            "12D3Gone",
            [
                "Nothing is held against it.",
                "Not connected: it shares with all whom we know through others.",
                "Messages turned away unread, since they were too many: 300.",
                "It went on sending what was turned away, and is refused for a minute.",
            ],
        ),
    ],
)
def test_an_operator_is_told_what_happened_to_a_peer(
    told: Documents, peer: str, expected: list[str]
) -> None:
    document = cast("dict[str, Any]", asyncio.run(cast("Any", told.why(peer))))
    assert document == {"peer": peer, "lines": expected}


def test_of_one_that_is_muted_and_gone_an_operator_is_told_the_reason(told: Documents) -> None:
    document = cast("dict[str, Any]", asyncio.run(cast("Any", told.why("12D3F"))))
    assert document["peer"] == "12D3Far"
    assert document["lines"][0].startswith("Muted until ")
    assert document["lines"][2].startswith("hash, once: ")
    assert document["lines"][-1].startswith("Not connected: ")
