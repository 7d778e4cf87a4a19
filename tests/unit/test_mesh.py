"""The mesh of a topic among many nodes, and the messages that are remembered; all of it pure."""

from __future__ import annotations

import random
from collections import deque

import pytest

from swarmnode.network.mesh import (
    DEGREE,
    DEGREE_HIGH,
    DEGREE_LOW,
    MEMBERS_MAX,
    REST_SECONDS,
    REST_SECONDS_MAX,
    REST_SECONDS_UNSAID,
    Mesh,
)
from swarmnode.network.recent_messages import (
    ANSWER_SECONDS,
    KEPT_BYTES_MAX,
    KEPT_SECONDS,
    SEEN_MAX,
    SEEN_SECONDS,
    TELLERS_MAX,
    WANTED_MAX,
    WANTED_OF_PEER_MAX,
    RecentMessages,
    Wanted,
)


def beats(meshes: dict[str, Mesh], links: dict[str, set[str]], seconds: int) -> None:
    """So many beats of nodes that know each other by `links`, whose words arrive at once."""
    for now in range(seconds):
        for name, mesh in meshes.items():
            for other in mesh.chosen(links[name], now):
                if not meshes[other].asked(name, now):
                    mesh.left(other, REST_SECONDS, now)
            for other in mesh.pruned(now):
                meshes[other].left(name, REST_SECONDS, now)


def reached(meshes: dict[str, Mesh], origin: str) -> set[str]:
    """Whom a message gets to over meshes alone."""
    found, ahead = {origin}, deque([origin])
    while ahead:
        for other in meshes[ahead.popleft()].members:
            if other not in found:
                found.add(other)
                ahead.append(other)
    return found


@pytest.mark.parametrize("count", [2, 3, 5, 8, 13, 40])
@pytest.mark.parametrize("seed", range(5))
def test_everybody_is_in_somebodys_mesh_and_a_message_gets_to_all(count: int, seed: int) -> None:
    names = [f"peer {number}" for number in range(count)]
    meshes = {name: Mesh(random.Random(f"{seed} {name}")) for name in names}
    links = {name: set(names) - {name} for name in names}
    beats(meshes, links, 100)
    for name, mesh in meshes.items():
        assert min(DEGREE_LOW, count - 1) <= len(mesh.members) <= DEGREE_HIGH
        assert all(name in meshes[other].members for other in mesh.members), "both or neither"
    assert reached(meshes, names[0]) == set(names)


@pytest.mark.parametrize("seed", range(20))
def test_those_who_came_first_do_not_shut_others_out(seed: int) -> None:
    mesh = Mesh(random.Random(seed))
    own = {*mesh.chosen(["a", "b", "c", "d", "e"], 0.0)}
    assert len(own) == DEGREE
    attackers = [f"attacker {number}" for number in range(50)]
    taken = [peer for peer in attackers if mesh.asked(peer, 1.0)]
    assert len(mesh.members) == MEMBERS_MAX
    assert taken == attackers[: MEMBERS_MAX - DEGREE]
    pruned = mesh.pruned(2.0)
    assert len(mesh.members) == DEGREE
    assert len(own & set(mesh.members)) >= 2
    assert not any(mesh.asked(peer, 3.0) for peer in pruned), "they have to rest"
    assert mesh.asked("a latecomer", 3.0)
    assert mesh.asked(pruned[0], 2.0 + REST_SECONDS)


def test_who_asks_to_be_left_alone_is_and_not_for_ever() -> None:
    mesh = Mesh(random.Random(1))
    mesh.left("a", 0.0, 0.0)
    mesh.left("b", 1e18, 0.0)
    assert not mesh.chosen(["a", "b"], REST_SECONDS_UNSAID - 1)
    assert mesh.chosen(["a", "b"], REST_SECONDS_UNSAID) == ["a"]
    assert set(mesh.chosen(["a", "b"], REST_SECONDS_MAX)) == {"b"}
    mesh.left("c", 1e18, 0.0)
    mesh.forget("c")
    assert mesh.asked("c", 1.0), "somebody new by now"
    mesh.gone("c")
    assert "c" not in mesh.members


def test_names_are_told_to_some_who_are_no_members() -> None:
    mesh = Mesh(random.Random(1))
    everybody = [f"peer {number}" for number in range(100)]
    mesh.chosen(everybody, 0.0)
    told = mesh.lazy(everybody)
    assert len(told) == (100 - DEGREE) // 4
    assert not set(told) & set(mesh.members)
    assert set(mesh.lazy([*mesh.members, "another"])) == {"another"}


def test_a_message_is_kept_for_a_time_and_known_for_longer() -> None:
    recent = RecentMessages()
    recent.keep(b"other", "another topic", b"said", 0)
    for second in range(4):
        name = bytes([second])
        recent.see(name, second)
        recent.keep(name, "topic", b"said", second)
    assert recent.names("topic", 0.5, 2.5, 9) == ([b"\x01", b"\x02"], 2.5)
    assert recent.names("topic", 0.5, 9.0, 2) == ([b"\x01", b"\x02"], 2.0), "and the rest later"
    assert recent.names("topic", 2.0, 9.0, 2) == ([b"\x03"], 9.0)
    assert recent.kept(b"\x01") == b"said"
    assert recent.kept(b"never") is None
    recent.expire(KEPT_SECONDS + 1.5)
    assert recent.kept(b"\x01") is None
    assert recent.is_seen(b"\x01")
    assert recent.kept(b"\x02") == b"said"
    recent.expire(SEEN_SECONDS + 1.5)
    assert not recent.is_seen(b"\x01")
    assert recent.is_seen(b"\x02")


def test_messages_of_one_moment_are_told_apart() -> None:
    recent = RecentMessages()
    for number in range(5):
        recent.keep(bytes([number]), "topic", b"said", 1.0)
    names, told = recent.names("topic", 0.0, 9.0, 3)
    assert names == [b"\x00", b"\x01", b"\x02"]
    assert recent.names("topic", told, 9.0, 3) == ([b"\x03", b"\x04"], 9.0)


def test_what_is_remembered_is_bounded_by_its_size() -> None:
    recent = RecentMessages()
    for number in range(SEEN_MAX + 10):
        recent.see(number.to_bytes(8), 0.0)
    assert not recent.is_seen((9).to_bytes(8))
    assert recent.is_seen((10).to_bytes(8))
    size = KEPT_BYTES_MAX // 4
    for number in range(6):
        recent.keep(bytes([number]), "topic", bytes(size), number)
    names, _ = recent.names("topic", -1.0, 9.0, 9)
    assert names == [bytes([number]) for number in (2, 3, 4, 5)]


def test_one_peer_at_a_time_is_asked_for_a_message_until_it_comes() -> None:
    wanted = Wanted()
    everybody = {"a", "b", "c"}
    assert wanted.told([b"1", b"2"], "a", 0.0) == [b"1", b"2"]
    assert wanted.told([b"1", b"3"], "b", 1.0) == [b"3"]
    assert wanted.came(b"3")
    assert not wanted.came(b"3")
    assert wanted.again(ANSWER_SECONDS, everybody) == {}
    now = ANSWER_SECONDS + 0.1
    assert wanted.again(now, everybody) == {"b": [b"1"], "a": [b"2"]}
    assert wanted.again(now + 2 * ANSWER_SECONDS - 0.1, everybody) == {}
    now += 2 * ANSWER_SECONDS + 0.1
    assert wanted.again(now, everybody) == {"a": [b"1", b"2"]}
    assert wanted.again(now + 60, {"b"}) == {"b": [b"1"]}, "of who is gone nothing is wanted"
    assert len(wanted) == 1
    assert wanted.again(KEPT_SECONDS + 0.1, everybody) == {}
    assert len(wanted) == 0


def test_names_that_a_peer_makes_up_take_no_more_than_its_share() -> None:
    wanted = Wanted()
    made_up = [number.to_bytes(8) for number in range(2 * WANTED_OF_PEER_MAX)]
    assert len(wanted.told(made_up, "liar", 0.0)) == WANTED_OF_PEER_MAX
    assert wanted.told([b"real"], "honest", 0.0) == [b"real"]
    for number in range(2 * WANTED_MAX // WANTED_OF_PEER_MAX):
        others = [b"%d %d" % (number, index) for index in range(WANTED_OF_PEER_MAX)]
        wanted.told(others, f"liar {number}", 0.0)
    assert len(wanted) == WANTED_MAX
    for number in range(100):
        wanted.told([b"real"], f"liar {number}", 0.0)
    assert len(wanted._wants[b"real"].tellers) == TELLERS_MAX
    wanted.again(1.0, set())
    assert len(wanted) == 0
    assert not wanted._of_peer
