"""Key files: whole or absent, for their owner alone, never overwritten, never shown."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from swarmnode.keys import (
    KeyFileError,
    load_or_create_key,
    peer_id_of,
    public_key_of_peer,
    read_key,
    replace_key,
    write_key,
)

PRIVATE = bytes(range(32))
OTHER = bytes(range(1, 33))


def test_the_peer_id_is_that_of_the_libp2p_specification() -> None:
    # The Ed25519 key of libp2p's test vectors; the id is what go-libp2p makes of it.
    public = bytes.fromhex("1ed1e8fae2c4a144b8be8fd4b47bf3d3b34b871c3cacf6010f0e42d474fce27e")
    assert peer_id_of(public) == "12D3KooWBtg3aaRMjxwedh83aGiUkwSxDwUZkzuJcfaqUmo7R3pq"


def test_a_key_file_is_its_owners_alone_and_holds_the_key(tmp_path: Path) -> None:
    write_key(tmp_path / "key", PRIVATE)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert read_key(tmp_path / "key") == PRIVATE
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_a_key_file_is_never_overwritten(tmp_path: Path) -> None:
    write_key(tmp_path / "key", PRIVATE)
    with pytest.raises(KeyFileError, match=r"key is there already and is not overwritten"):
        write_key(tmp_path / "key", OTHER)
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    with pytest.raises(KeyFileError, match=r"is not overwritten"):
        write_key(tmp_path / "link", OTHER)
    assert read_key(tmp_path / "key") == PRIVATE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key", "link"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_key_that_others_may_open_is_refused(tmp_path: Path, mode: int) -> None:
    write_key(tmp_path / "key", PRIVATE)
    (tmp_path / "key").chmod(mode)
    with pytest.raises(KeyFileError, match=r"chmod 600") as caught:
        load_or_create_key(tmp_path / "key")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    ["", "# only a remark\n", PRIVATE.hex()[:-2], PRIVATE.hex()[:-1] + "x", PRIVATE.hex() * 2,
     f"{PRIVATE.hex()}\n{PRIVATE.hex()}\n", "\xff" * 32],
)  # fmt: skip
def test_what_is_no_key_is_refused_without_being_shown(tmp_path: Path, content: str) -> None:
    write_key(tmp_path / "key", PRIVATE)
    (tmp_path / "key").write_bytes(content.encode("latin-1"))
    with pytest.raises(KeyFileError, match="holds no swarmnode key") as caught:
        read_key(tmp_path / "key")
    assert PRIVATE.hex()[:8] not in str(caught.value)


def test_a_key_is_drawn_once(tmp_path: Path) -> None:
    first = load_or_create_key(tmp_path / "key")
    assert load_or_create_key(tmp_path / "key") == first
    assert load_or_create_key(tmp_path / "other") != first


def test_a_replaced_key_is_kept_beside_the_new_one(tmp_path: Path) -> None:
    assert replace_key(tmp_path / "key", PRIVATE, 0.0) is None
    aside = replace_key(tmp_path / "key", OTHER, 0.0)
    assert aside == tmp_path / "key.old-19700101T000000Z"
    assert (read_key(tmp_path / "key"), read_key(aside)) == (OTHER, PRIVATE)
    with pytest.raises(KeyFileError, match="cannot be replaced: File exists"):
        replace_key(tmp_path / "key", PRIVATE, 0.0)
    assert (read_key(tmp_path / "key"), read_key(aside)) == (OTHER, PRIVATE)


def test_a_folder_that_is_not_there_gives_one_line(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="cannot be written: No such file"):
        write_key(tmp_path / "absent" / "key", PRIVATE)
    with pytest.raises(KeyFileError, match="cannot be read: No such file"):
        read_key(tmp_path / "key")


def test_a_peer_id_leads_back_to_its_key_and_nothing_else_does() -> None:
    key = bytes(range(32))
    peer = peer_id_of(key)
    assert public_key_of_peer(peer) == key
    for wrong in ("", "12D3KooW", peer[:-1], f"{peer}1", f"{peer[:-1]}0", f"2{peer[1:]}",
                  "z" * len(peer), "é" * len(peer), "1" * 10_000):  # fmt: skip
        assert public_key_of_peer(wrong) == b""
