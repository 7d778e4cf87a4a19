"""The store: no number twice, no damage that stops a node, nothing that makes a round wait."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import os
import random
import resource
import signal
import sqlite3
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from swarmnode.store import (
    Event,
    Limits,
    PeerRecord,
    PublishedBundle,
    SequenceNumbers,
    Store,
    StoredRound,
    StoreError,
    tables,
)
from swarmnode.store.migrations import MIGRATIONS, StrangeDatabase, migrate
from swarmnode.store.writer import Job
from swarmproto import ReplayWindow

KEY, SWARM = b"k" * 32, b"s" * 32
ROUND = StoredRound(1, 5.0, {"node": 0, "metrics": {"loss": 0.5}})
BUNDLE = PublishedBundle(7.0, 8, b"i" * 32, b"announcement", b"header", (b"one", b"two"))
PEER = PeerRecord("12D3KooWx", 1.0, 2.0, {"accepted": 3, "wire": 1}, 1, 9.0, "a bad signature")
EVENT = Event(3.0, "joined", "a swarm")
WINDOW = ReplayWindow().accepting(5, b"b" * 32)

Result = TypeVar("Result")


@dataclass(frozen=True)
class Places:
    folder: Path

    @property
    def database(self) -> Path:
        return self.folder / "store.sqlite"

    @property
    def reserved(self) -> Path:
        return self.folder / "reserved.json"

    def open(self, limits: Limits | None = None) -> Store:
        return Store.open(
            self.database,
            self.reserved,
            now=lambda: 100.0,
            limits=limits,
            rng=random.Random(0),
        )


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


@pytest.fixture
def store(places: Places) -> Iterator[Store]:
    store = places.open()
    yield store
    assert store.close()


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(work)


def indices(store: Store, count: int = 256) -> int:
    return run(store.reserve_indices(KEY, SWARM, "bf", "easy", count))


def record_one_of_each(store: Store) -> None:
    store.record_round(ROUND.number, ROUND.ended, ROUND.report)
    store.record_bundle(BUNDLE)
    store.record_peer(PEER)
    store.record_event(EVENT)
    store.keep_window(KEY, WINDOW)
    store.keep_saved_peers(SWARM, ["/a", "/b"])


async def everything(store: Store) -> tuple[object, ...]:
    return (
        list(await store.rounds(9)),
        list(await store.bundles(9)),
        list(await store.peers(9)),
        list(await store.events(9)),
        dict(await store.windows()),
        list(await store.saved_peers(SWARM)),
    )


KEPT = ([ROUND], [BUNDLE], [PEER], [EVENT], {KEY: WINDOW}, ["/a", "/b"])


def test_what_was_recorded_is_there_at_once_and_after_a_restart(places: Places) -> None:
    store = places.open()
    record_one_of_each(store)
    assert run(everything(store)) == KEPT
    assert store.close()
    store = places.open()
    assert run(everything(store)) == KEPT
    assert (store.problem, store.dropped) == ("", 0)
    assert store.close()
    assert places.database.stat().st_mode & 0o077 == 0
    assert places.reserved.exists() is False


def test_a_later_record_takes_the_place_of_the_former(store: Store) -> None:
    record_one_of_each(store)
    later = replace(PEER, last_seen=4.0, counts={"accepted": 4}, mutes=2, why="again")
    store.record_peer(replace(later, first_seen=4.0))
    store.keep_window(KEY, WINDOW.accepting(6, b"c" * 32))
    store.keep_saved_peers(SWARM, ["/c"])
    assert run(store.peers(9)) == [later]
    assert run(store.windows()) == {KEY: WINDOW.accepting(6, b"c" * 32)}
    assert run(store.saved_peers(SWARM)) == ["/c"]


def test_each_swarm_has_saved_peers_of_its_own(store: Store) -> None:
    private = bytes(reversed(SWARM[:-1])) + b"p"
    store.keep_saved_peers(SWARM, ["/a", "/b"])
    assert run(store.saved_peers(private)) == []
    store.keep_saved_peers(private, ["/c"])
    assert run(store.saved_peers(SWARM)) == ["/a", "/b"]
    assert run(store.saved_peers(private)) == ["/c"]
    store.keep_saved_peers(SWARM, [])
    assert run(store.saved_peers(private)) == ["/c"]


def test_only_the_newest_are_kept(places: Places) -> None:
    store = places.open(Limits(rounds=3, bundle_bytes=3 * BUNDLE.size, peers=3, replay_windows=3,
                               events=3))  # fmt: skip
    for number in range(10):
        store.record_round(number, 0.0, {})
        store.record_bundle(replace(BUNDLE, sequence=number))
        store.record_peer(replace(PEER, peer=f"{number}", last_seen=float(number)))
        store.record_event(replace(EVENT, text=f"{number}"))
        store.keep_window(bytes([number]) * 32, WINDOW)
    assert [each.number for each in run(store.rounds(9))] == [9, 8, 7]
    assert [each.sequence for each in run(store.bundles(9))] == [9, 8, 7]
    assert [each.peer for each in run(store.peers(9))] == ["9", "8", "7"]
    assert [each.text for each in run(store.events(9))] == ["9", "8", "7"]
    assert [key[0] for key in run(store.windows())] == [7, 8, 9]
    store.record_bundle(replace(BUNDLE, groups=(bytes(10 * BUNDLE.size),), sequence=10))
    assert [each.sequence for each in run(store.bundles(9))] == [10]
    assert store.close()


def test_texts_of_strangers_that_no_database_takes_are_kept_without_harm(store: Store) -> None:
    store.record_event(replace(EVENT, text="\ud800 \0 \x1b[2J"))
    store.record_peer(replace(PEER, why="\udfff"))
    assert run(store.events(1))[0].text == "? \0 \x1b[2J"
    assert run(store.peers(1))[0].why == "?"


def test_a_value_that_cannot_be_written_takes_no_other_with_it(store: Store) -> None:
    store.record_event(EVENT)
    store.record_peer(replace(PEER, mutes=2**70))
    store.record_round(1, 5.0, ROUND.report)
    assert run(store.events(9)) == [EVENT]
    assert run(store.rounds(9)) == [ROUND]
    assert run(store.peers(9)) == []
    assert store.dropped == 1


def test_a_full_queue_drops_and_counts_without_waiting(places: Places) -> None:
    store = places.open(Limits(queued=10, queued_bytes=100))
    store.record_event(replace(EVENT, text="x" * 101))
    assert store.dropped == 1
    for _ in range(2000):
        store.record_event(EVENT)
    assert store.close()
    store.record_event(EVENT)
    after = places.open()
    assert len(run(after.events(3000))) == 2002 - store.dropped
    assert after.close()


def test_what_a_closed_store_is_asked_is_answered_with_nothing(places: Places) -> None:
    store = places.open()
    assert store.close()
    assert run(store.rounds(1)) == ()


def test_reserved_numbers_follow_each_other_and_differ_by_what_they_count(store: Store) -> None:
    first = indices(store)
    assert indices(store, 10) == first + 256
    assert indices(store) == first + 266
    others = [(b"x" * 32, SWARM, "bf", "easy"), (KEY, b"x" * 32, "bf", "easy"),
              (KEY, SWARM, "gcd", "easy"), (KEY, SWARM, "bf", "paper")]  # fmt: skip
    starts = [run(store.reserve_indices(*stream, 256)) for stream in others]
    assert len({first, *starts}) == 5
    assert all(0 <= start < 2**30 for start in (first, *starts))


def test_reserved_numbers_go_on_after_a_restart(places: Places) -> None:
    store = places.open()
    first = indices(store)
    assert run(store.reserve_sequence(KEY, 50, 1000)) == 50
    assert store.close()
    store = places.open()
    assert indices(store) == first + 256
    assert run(store.reserve_sequence(KEY, 60, 1000)) == 1050
    assert run(store.reserve_sequence(KEY, 9000, 1000)) == 9000
    assert run(store.reserve_sequence(b"x" * 32, 60, 1000)) == 60
    assert store.close()


def test_sequence_numbers_follow_the_clock_and_never_come_twice(places: Places) -> None:
    async def three(store: Store, *times: int) -> list[int]:
        async def reserve(at_least: int, count: int) -> int:
            return await store.reserve_sequence(KEY, at_least, count)

        numbers = SequenceNumbers(reserve)
        return [await numbers.next(now_ms) for now_ms in times]

    store = places.open()
    assert run(three(store, 5000, 5000, 4000, 9000)) == [5000, 5001, 5002, 9000]
    assert run(three(store, 5000, 12_000)) == [10_000, 12_000]
    assert store.close()


async def spend_for_ever(places: Places, out: int) -> None:
    """Writes every number that it was given, once it has it."""
    store = places.open()
    sequence = SequenceNumbers(partial(store.reserve_sequence, KEY))
    for number in itertools.count():
        first = await store.reserve_indices(KEY, SWARM, "bf", "easy", 3)
        store.record_round(number, 0.0, {"text": "x" * 1000})
        os.write(out, f"index {first} {first + 1} {first + 2}\n".encode())
        os.write(out, f"sequence {await sequence.next(500 * number)}\n".encode())


def killed_life(places: Places, lines_before: int) -> list[tuple[str, str]]:
    """What a process used that is killed at some moment after so many lines."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(spend_for_ever(places, writing))
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, encoding="ascii") as lines:
        said = [lines.readline() for _ in range(lines_before)]
        os.kill(child, signal.SIGKILL)
        said += lines.readlines()
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert all(said[:lines_before])
    return [
        (line.split()[0], number)
        for line in said
        if line.endswith("\n")
        for number in line.split()[1:]
    ]


def test_a_kill_at_any_moment_brings_no_number_back(places: Places) -> None:
    rng = random.Random(4)
    used = [number for _ in range(10) for number in killed_life(places, rng.randrange(1, 20))]
    assert {kind for kind, _ in used} == {"index", "sequence"}
    assert len(used) == len(set(used))
    store = places.open()
    assert run(store.events(9)) == []
    assert store.close()


def fill(places: Places) -> int:
    """A store with some pages; returns the next index that it would reserve."""
    store = places.open()
    record_one_of_each(store)
    for number in range(50):
        store.record_round(number, 0.0, {"text": "words " * 30})
    first = indices(store)
    assert store.close()
    return first + 256


def test_a_truncated_database_is_set_aside_and_begun_anew(places: Places) -> None:
    following = fill(places)
    whole = places.database.read_bytes()
    rng = random.Random(1)
    for kept in [1, 99, 100, 4096, len(whole) - 1, *rng.sample(range(1, len(whole)), 10)]:
        places.database.write_bytes(whole[:kept])
        store = places.open()
        (event,) = run(store.events(9))
        assert event.name == "store_set_aside"
        aside = Path(event.text.partition("kept as ")[2].partition(",")[0])
        assert aside.read_bytes() == whole[:kept]
        record_one_of_each(store)
        assert (len(run(store.rounds(9))), store.problem, store.dropped) == (1, "", 0)
        assert indices(store) == following
        following += 256
        assert store.close()


def test_a_flipped_bit_is_found_or_harmless(places: Places) -> None:
    following = fill(places)
    whole = places.database.read_bytes()
    rng = random.Random(2)
    found = 0
    for place in [*range(0, 100, 9), *(rng.randrange(len(whole)) for _ in range(20))]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randrange(8)
        places.database.write_bytes(damaged)
        store = places.open()
        record_one_of_each(store)
        after = run(everything(store))
        aside = any(event.name == "store_set_aside" for event in run(store.events(9)))
        assert len(after) == 6
        assert (store.problem, store.dropped) == ("", 0)
        assert indices(store) == following
        following += 256
        found += aside
        assert store.close()
    assert found > 5


def test_damage_that_shows_later_is_set_aside_then(places: Places) -> None:
    store = places.open()
    for number in range(300):  # More than the memory that SQLite keeps pages in.
        store.record_round(number, 0.0, {"text": "words " * 3000})
    assert store.close()
    store = places.open()
    with places.database.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (places.database.stat().st_size - 4096))
    run(store.rounds(100))
    record_one_of_each(store)
    run(store.rounds(100))
    record_one_of_each(store)
    assert ROUND in run(store.rounds(9))
    assert [each.name for each in run(store.events(9))].count("store_set_aside") == 1
    assert store.close()


def test_damaged_reserved_numbers_are_set_aside_and_start_elsewhere(places: Places) -> None:
    fill(places)
    whole = places.reserved.read_bytes()
    rng = random.Random(3)
    for case in range(12):
        damaged = bytearray(whole[: rng.randrange(len(whole))] if case % 2 else whole)
        if not case % 2:
            damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        places.reserved.write_bytes(damaged)
        store = Store.open(places.database, places.reserved, now=lambda: 0.0)
        (event, *_) = run(store.events(1))
        assert event.name == "store_set_aside"
        assert "reserved.json.bad-" in event.text
        spent = json.loads(whole.partition(b"\n")[2])["indices"].values()
        assert indices(store) not in range(min(spent) - 256, max(spent))
        assert store.close()


def test_a_database_of_the_first_version_goes_on_with_everything_but_saved_peers(
    places: Places,
) -> None:
    connection = sqlite3.connect(places.database)
    for statement in MIGRATIONS[0]:
        connection.execute(statement)
    connection.execute("INSERT INTO migrations VALUES (1)")
    connection.execute("INSERT INTO saved_peers VALUES (0, '/of some swarm')")
    connection.execute("INSERT INTO events VALUES (1, 2.0, 'stopped', 'in order')")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()
    store = places.open()
    assert run(store.saved_peers(SWARM)) == []
    assert [each.name for each in run(store.events(9))] == ["stopped"]
    assert store.close()


def test_a_newer_database_is_left_alone(places: Places) -> None:
    fill(places)
    connection = sqlite3.connect(places.database)
    newer = len(MIGRATIONS) + 1
    connection.execute("INSERT INTO migrations VALUES (?)", (newer,))
    connection.execute(f"PRAGMA user_version = {newer}")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="newer version of swarmnode: update") as caught:
        places.open()
    assert "\n" not in str(caught.value)
    assert not list(places.folder.glob("*.bad-*"))


def test_a_place_that_cannot_be_opened_gives_one_line(places: Places, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="unable to open database file"):
        Places(tmp_path / "absent").open()
    places.reserved.mkdir()
    with pytest.raises(StoreError, match=r"reserved\.json cannot be used: Is a directory"):
        places.open()


def test_a_damaged_file_that_cannot_be_replaced_gives_one_line(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    places.database.write_bytes(b"no database " * 100)

    def read_only(_path: Path, _target: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def read_back_otherwise(_connection: sqlite3.Connection) -> None:
        raise StrangeDatabase

    with monkeypatch.context() as disk:
        disk.setattr(Path, "rename", read_only)
        with pytest.raises(StoreError, match="cannot be set aside: Read-only file system"):
            places.open()
    with monkeypatch.context() as disk:
        disk.setattr("swarmnode.store.database.migrate", read_back_otherwise)
        with pytest.raises(StoreError, match="cannot be made: what is written isn't what is read"):
            places.open()


@pytest.fixture
def no_room(places: Places) -> Iterator[None]:
    """Files may not grow, as on a full disk."""
    fill(places)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("no_room")
def test_a_full_disk_shows_in_the_store_and_stops_nothing(places: Places) -> None:
    store = places.open()
    before = indices(store)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    store.record_bundle(replace(BUNDLE, groups=(bytes(10**6),)))
    kept = run(store.bundles(9))
    unsaved = [indices(store), indices(store)]
    sequences = [run(store.reserve_sequence(KEY, number, 10)) for number in (70, 80)]
    problem, dropped = store.problem, store.dropped
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert kept == [BUNDLE]
    assert dropped == 1
    assert "cannot be" in problem
    assert "\n" not in problem
    assert unsaved[0] >= 2**31
    assert unsaved[1] == unsaved[0] + 256
    assert sequences == [70, 80]
    store.record_event(EVENT)
    assert EVENT in run(store.events(9))
    assert indices(store) == before + 256
    assert store.problem == ""
    assert store.close()


def _steps(connection: sqlite3.Connection, job: Job) -> int:
    """What SQLite does for a job, in tens of instructions of its machine."""
    count = itertools.count()
    connection.set_progress_handler(lambda: next(count) < 0, 10)
    job(connection)
    connection.set_progress_handler(None, 10)
    return next(count)


def test_a_bundle_costs_the_same_however_many_are_kept() -> None:
    connection = sqlite3.connect(":memory:")
    migrate(connection)
    keep = tables.insert_bundle(BUNDLE, 10**9)
    few = _steps(connection, keep)
    for _ in range(2_000):
        keep(connection)
    assert _steps(connection, keep) < 3 * few
    tables.insert_bundle(BUNDLE, 3 * BUNDLE.size)(connection)
    assert connection.execute("SELECT count(*) FROM bundles").fetchone() == (3,)


def test_bundles_of_an_older_version_make_room_too(places: Places) -> None:
    connection = sqlite3.connect(places.database)
    for number, statements in enumerate(MIGRATIONS[:2], 1):
        for statement in statements:
            connection.execute(statement)
        connection.execute("INSERT INTO migrations VALUES (?)", (number,))
    connection.execute("PRAGMA user_version = 2")
    row = (BUNDLE.created, BUNDLE.bundle_id, BUNDLE.size)
    for sequence in range(4):
        connection.execute(
            "INSERT INTO bundles (created, bundle_id, size, sequence) VALUES (?, ?, ?, ?)",
            (*row, sequence),
        )
        parts = (BUNDLE.announcement, BUNDLE.header, *BUNDLE.groups)
        connection.executemany(
            "INSERT INTO bundle_parts VALUES (?, ?, ?)",
            [(sequence + 1, position, data) for position, data in enumerate(parts)],
        )
    connection.commit()
    connection.close()
    store = places.open(Limits(bundle_bytes=3 * BUNDLE.size))
    store.record_bundle(replace(BUNDLE, sequence=4))
    assert [each.sequence for each in run(store.bundles(9))] == [4, 3, 2]
    assert store.close()


def test_history_is_the_newest_rounds_and_evaluations_before_at_equal_distances(
    store: Store,
) -> None:
    for number in range(1000):
        store.record_round(number, float(number), {"round": number})
    found = [each.number for each in run(store.history(recent=20, older=30, every=10))]
    assert found[-20:] == list(range(980, 1000))
    older = found[:-20]
    assert len(older) in range(20, 35)
    assert older == sorted(older)
    assert all(number % 10 == 0 for number in older)
    assert older[0] == 0
    few = [each.number for each in run(store.history(recent=900, older=300, every=10))]
    assert few == [*range(0, 100, 10), *range(100, 1000)]


def test_an_empty_store_has_no_history(store: Store) -> None:
    assert run(store.history(10, 10, 10)) == []
