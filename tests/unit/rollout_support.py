"""Rollouts of a home: own ones that were published, and a peer's with the bytes it signed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from swarmnode.rollouts import RolloutRecorder
from swarmnode.store import Evidence, Limits, PublishedBundle, Store
from swarmnode.types import Completion, Group, PolicyInfo, Question, Scored, Trained, TrainedGroup
from swarmnode.wire import group_record, policy_label
from swarmproto import bundle_id, encode_group, public_key_of, seal_bundle
from tests.unit.cli_support import HOSTILE

SWARM = b"s" * 32
OWN, PEER = bytes(range(32)), bytes(range(1, 33))
OWN_KEY, PEER_KEY = public_key_of(OWN), public_key_of(PEER)
HOLDER = "/ip4/192.0.2.7/tcp/4001"


def scored(
    private_key: bytes,
    index: int,
    texts: Sequence[str],
    right: int,
    *,
    task: str = "gcd",
    at: float = 1000.0,
) -> Scored:
    """A group of which the first `right` completions succeed."""
    group = Group(
        Question(task, "easy", index, f"What is\nquestion {index}?{HOSTILE}", "42"),
        tuple(Completion(text, "stop", 2, logprobs=(-0.5, -0.5)) for text in texts),
        public_key_of(private_key),
        PolicyInfo("tiny", 7, bytes(32)),
    )
    scores = tuple(1.0 if at < right else 0.25 for at in range(len(texts)))
    source = "local" if private_key == OWN else "external"
    return Scored(group, scores, source, at)  # type: ignore[arg-type]


def sealed(private_key: bytes, *groups: Scored, number: int = 5) -> PublishedBundle:
    """The groups as their author publishes them."""
    bundle = seal_bundle(
        private_key, SWARM, number, int(groups[0].received * 1000),
        policy_label(groups[0].group.policy),
        [encode_group(group_record(each.group, bytes(32))) for each in groups],
    )  # fmt: skip
    return PublishedBundle(
        created=groups[0].received + 0.5, sequence=number,
        bundle_id=bundle_id(bundle.header_bytes), announcement=b"", header=bundle.header_bytes,
        groups=tuple(bundle.group_bytes),
    )  # fmt: skip


def evidence_of(bundle: PublishedBundle, position: int = 0) -> Evidence:
    return Evidence(HOLDER, bundle.header, bundle.groups[position])


def open_store(home: Path, limits: Limits | None = None) -> Store:
    return Store.open(home / "store.sqlite", home / "reserved.json", now=lambda: 1.0, limits=limits)


MINE = scored(OWN, 3, ("42", f"41{HOSTILE}"), 1)
UNPUBLISHED = scored(OWN, 4, ("1", "2"), 0, task="bf", at=1010.0)
THEIRS = scored(PEER, 9, ("42", "42", "Forty-Two"), 3, at=1020.0)


def fill(store: Store) -> None:
    """Round 1 trains on `MINE`; round 2 leaves out `UNPUBLISHED` and trains on `THEIRS`."""
    rounds = iter((1, 1, 2, 2, 2, 2, 2))
    recorder = RolloutRecorder(store, lambda: next(rounds))
    recorder.answered([MINE])
    store.record_bundle(sealed(OWN, MINE))
    recorder.learned([MINE], Trained({}, [TrainedGroup("own", "gcd", "none", "")], [(0.75, -0.5)]))
    recorder.answered([UNPUBLISHED])
    recorder.admitted(THEIRS, evidence_of(sealed(PEER, THEIRS)))
    recorder.learned(
        [UNPUBLISHED], Trained({}, [TrainedGroup("own", "bf", "out", "all rewards equal")])
    )
    recorder.learned(
        [replace(THEIRS, excluded=frozenset({2}))],
        Trained({}, [TrainedGroup(PEER_KEY[:8].hex(), "gcd", "full", "log-probs sent")],
                [(float("nan"), 0.0, 1.0)]),
    )  # fmt: skip
