"""Hostile values in every field of the wire, the whole way: codec, admission, real scorer, pool.

One field at a time of an honest announcement, header or group is replaced; the fields are those
that the honest one has, so that a field that is added is swept from then on. Each time something is
dropped for a reason that has a name, or what is pooled is worth what the honest answers are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import msgpack
import pytest

from swarmnode.clock import VirtualClock
from swarmnode.process import Child
from swarmnode.rewards.budget import ScorerBudget
from swarmnode.scored import NodeRewards
from swarmnode.selection.admission import Reason
from swarmnode.types import Completion, Group, PolicyInfo
from swarmnode.wire import group_record
from swarmproto import PROTOCOL_VERSION, Bundle, encode_group
from swarmproto.envelope import _ANNOUNCEMENT, _HEADER, _Form
from swarmproto.signing import sign
from tests.security.scorer_support import hostile_texts, scorer_child, scorer_of
from tests.unit.collecting_support import RELAY, SWARM, Stranger, honestly, scene, simulate

TASK, LEVEL = "basic_arithmetic", "easy"
BODY_AT = 133
EVERY_SHORT = 4
"""The short form tries one of so many values in each field."""
UNKNOWN_FIELDS = ("metadata", "verifier", "__class__", "source_dataset", "__import__('os')")
NOTHING = object()
"""Stands for a field that is left out."""

Body = dict[str, Any]
Place = tuple[str | int, ...]
"""The way to a field, from the outside in."""


def hostile_values(marker: Path) -> list[Any]:
    """What a stranger may write in place of any value, of any type."""
    code = [text for text in hostile_texts(marker) if str(marker) in text][:11]
    return [
        *code,
        *("", " ", "\x1b]0;x\x07\x1b[2J", "\x00", "\u202e", "\ud800", "NaN", "x" * 900, "9" * 400),
        *("gcd", "spiral_matrix", "default", "$(id)", "%n%s", "{0.__class__}", "../../etc/passwd"),
        *("/p2p/\x1b[2J", "/ip4/127.0.0.1/tcp/1/p2p/x", "http://169.254.169.254/", "\ufeff1"),
        *(0, 1, -1, 2, 255, 2**31, 2**32, 2**53, 2**63 - 1, 2**64 - 1, -(2**63), True, None),
        *(float("nan"), float("inf"), -float("inf"), -0.0, -1.5, 1e308, 5e-324),
        *(b"", bytes(16), b"\xff" * 32, b"\x00\xff\xff" * 3, code[0].encode(), b"a" * 800),
        *([], [[]], [None] * 3, ["x"] * 40, [[TASK, LEVEL]] * 2, [0], [bytes(32)] * 2),
        *({}, {"": ""}, {"metadata": code[0]}, {"name": code[0], "version": 0, "tokenizer": b""}),
        *(msgpack.ExtType(1, b"x"), msgpack.ExtType(64, b"\x91" * 8), msgpack.Timestamp(1, 1)),
        *([[[[[[[[]]]]]]]], NOTHING),
    ]


def places(value: object, at: Place = ()) -> Iterator[Place]:
    """Every field, containers included."""
    if at:
        yield at
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*at, key))
    if isinstance(value, list):
        for position, inner in enumerate(value):
            yield from places(inner, (*at, position))


def replaced(value: Any, place: Place, hostile: object) -> Any:
    """A copy with one value replaced, or left out."""
    first, *rest = place
    copy: Any = value.copy()
    if rest:
        copy[first] = replaced(value[first], tuple(rest), hostile)
    elif hostile is NOTHING:
        del copy[first]
    else:
        copy[first] = hostile
    return copy


def mutated(body: Body, marker: Path, every: int) -> Iterator[Body]:
    """Every field with every hostile value, or one in `every`, and fields that nobody knows."""
    values = hostile_values(marker)
    for number, place in enumerate(places(body)):
        for hostile in islice(values, number % every, None, every):
            yield replaced(body, place, hostile)
    for name in UNKNOWN_FIELDS:
        yield {**body, name: values[0]}


def sealed(form: _Form, author: Stranger, body: Body) -> bytes:
    """An envelope with whatever in it, lone surrogates included, rightly signed."""
    prefix = form.magic + bytes([PROTOCOL_VERSION]) + SWARM + author.key
    packed: bytes = msgpack.packb(body, unicode_errors="surrogatepass")
    return prefix + sign(author.private_key, form.domain, prefix, packed) + packed


def body_of(envelope: bytes) -> Body:
    body: Body = msgpack.unpackb(envelope[BODY_AT:])
    return body


@dataclass(frozen=True)
class Kind:
    """Where a body stands: how it is had from a bundle, and published in place of the honest."""

    body: Callable[[Stranger, Bundle], Body]
    published: Callable[[Stranger, Bundle, Body], tuple[bytes, Bundle]]


def with_header(author: Stranger, bundle: Bundle, body: Body) -> tuple[bytes, Bundle]:
    """A bundle under that header, and what announces it."""
    served = replace(bundle, header_bytes=sealed(_HEADER, author, body))
    return author.announcement(served), served


def with_group(author: Stranger, bundle: Bundle, body: Body) -> tuple[bytes, Bundle]:
    """A bundle of that group, under a header that names its hash."""
    group = msgpack.packb(body, unicode_errors="surrogatepass")
    header = {**body_of(bundle.header_bytes), "groups": [hashlib.sha256(group).digest()]}
    return with_header(author, replace(bundle, group_bytes=(group,)), header)


KINDS = {
    "announcement": Kind(
        lambda author, bundle: body_of(author.announcement(bundle, started=1)),
        lambda author, bundle, body: (sealed(_ANNOUNCEMENT, author, body), bundle),
    ),
    "header": Kind(lambda author, bundle: body_of(bundle.header_bytes), with_header),
    "group": Kind(lambda author, bundle: msgpack.unpackb(bundle.group_bytes[0]), with_group),
}


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    """The real scorer process."""
    with scorer_child() as child:
        yield child


@dataclass(frozen=True)
class Honest:
    """A group that is taken, its level's fingerprint, and when its bundle was made."""

    group: bytes
    fingerprint: bytes
    created: float

    def bundle(self, author: Stranger) -> Bundle:
        """The same every time, of an author who has made none."""
        return author.bundle(self.group, created=self.created)


async def honestly_made(child: Child, author: Stranger) -> Honest:
    """The first question of the author's stream, rightly and wrongly answered."""
    scorer = scorer_of(child)
    (fingerprint,) = await scorer.fingerprints([(TASK, LEVEL)])
    questions, _ = await scorer.draw(author.key, TASK, LEVEL, 0, 1)
    right = Completion(questions[0].answer, "stop", 2, logprobs=(-0.5, -0.5))
    wrong = Completion("wrong", "stop", 1, total_logprob=-1.0)
    label = PolicyInfo("tiny", 0, bytes(32))
    group = Group(questions[0], (right, wrong), author.key, label)
    return Honest(encode_group(group_record(group, fingerprint)), fingerprint, author.clock.now())


async def outcome(
    clock: VirtualClock, child: Child, honest: Honest, kind: Kind, body: Body
) -> tuple[set[Reason], bool]:
    """Why anything was dropped, and whether the group came into the pool at its honest worth."""
    author = Stranger(1, clock)
    rewards = NodeRewards(scorer_of(child), clock, lambda: 0.0, ScorerBudget(1.0, 10.0))
    here = scene(clock, rewards=rewards, fingerprints={(TASK, LEVEL): honest.fingerprint})
    announcement, served = kind.published(author, honest.bundle(author), body)
    here.transport.serving[author.address] = honestly(served)
    await here.look(announcement)
    pooled = here.pool.fresh(clock.now())
    assert [each.scores for each in pooled] in ([], [(1.0, 0.0)]), body
    assert {peer for peer, _ in here.muted} <= {author.name, RELAY}, body
    return set(here.collector.dropped), bool(pooled)


def sweep(child: Child, kind: Kind, marker: Path, every: int) -> tuple[set[Reason], int, int]:
    """All reasons that were met, and of how many bodies so many were pooled."""
    reasons: set[Reason] = set()
    tried = pooled = 0

    async def attack(clock: VirtualClock) -> None:
        nonlocal tried, pooled
        author = Stranger(1, clock)
        honest = await honestly_made(child, author)
        as_it_is = kind.body(author, honest.bundle(author))
        assert await outcome(clock, child, honest, kind, as_it_is) == (set(), True)
        for body in mutated(as_it_is, marker, every):
            met, came_in = await outcome(clock, child, honest, kind, body)
            assert met or came_in, body
            reasons.update(met)
            tried, pooled = tried + 1, pooled + came_in

    simulate(attack)
    assert not marker.exists()
    assert all(isinstance(reason, Reason) for reason in reasons)
    return reasons, tried, pooled


@pytest.mark.parametrize("name", KINDS)
def test_a_hostile_value_in_any_field_is_dropped_by_name_or_changes_nothing(
    child: Child, tmp_path: Path, name: str
) -> None:
    reasons, tried, pooled = sweep(child, KINDS[name], tmp_path / "marker", EVERY_SHORT)
    assert Reason.SCHEMA in reasons
    assert len(UNKNOWN_FIELDS) < pooled < tried / 5


@pytest.mark.real
@pytest.mark.parametrize("name", KINDS)
def test_every_hostile_value_in_every_field_is_dropped_by_name_or_changes_nothing(
    child: Child, tmp_path: Path, name: str
) -> None:
    reasons, tried, pooled = sweep(child, KINDS[name], tmp_path / "marker", 1)
    print(f"{name}: {tried} bodies, {pooled} pooled, dropped for {', '.join(sorted(reasons))}")
    assert Reason.SCHEMA in reasons
    assert len(UNKNOWN_FIELDS) < pooled < tried / 5
