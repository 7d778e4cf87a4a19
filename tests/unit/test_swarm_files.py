"""Swarm files: rules that match their id, whatever hands the file went through."""

from __future__ import annotations

import os
import stat
import traceback
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmnode.swarm_files import (
    SwarmFile,
    SwarmFileError,
    list_swarms,
    load_swarm,
    parse_swarm_file,
    read_swarm_file,
    remove_swarm,
    save_swarm,
)
from swarmproto import SwarmRules, SwarmSecret, swarm_id

RULES = SwarmRules(
    name="A few Friends!",
    tasks=(("base_conversion", "easy"), ("bf", "easy"), ("bf", "paper")),
    completions_min=2,
    completions_max=16,
    completion_tokens_max=256,
    groups_per_bundle_max=64,
)
PEER = "12D3KooWBtg3aaRMjxwedh83aGiUkwSxDwUZkzuJcfaqUmo7R3pq"
ADDRESS = f"/ip4/192.0.2.7/tcp/4001/p2p/{PEER}"
SWARM = SwarmFile(RULES, (ADDRESS,))
KEY = bytes(range(100, 132))
PRIVATE = SwarmFile(RULES, (ADDRESS,), KEY)
KEY_LINE = f'key = "{KEY.hex()}"\n'


def test_a_file_is_read_as_it_was_written_and_names_its_id() -> None:
    assert parse_swarm_file(SWARM.text, "file") == SWARM
    assert f'swarm_id = "{swarm_id(RULES).hex()}"' in SWARM.text
    assert parse_swarm_file(SwarmFile(RULES).text, "file") == SwarmFile(RULES)


@given(name=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=16))
def test_any_name_that_rules_may_have_survives(name: str) -> None:
    swarm = SwarmFile(replace(RULES, name=name))
    assert parse_swarm_file(swarm.text, "file") == swarm


def test_bootstrap_addresses_are_outside_the_id() -> None:
    assert SwarmFile(RULES).swarm_id == SWARM.swarm_id


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("completions_max = 16", "completions_max = 8", "not those of the swarm that it names"),
        ('"bf:paper"', '"bf:default"', "not those of the swarm that it names"),
        ("completions_max = 16", "completions_max = 1", "no swarm can have these rules"),
        ("completions_max = 16", "completions_max = true", "must be a whole number"),
        ("completions_max = 16", "completion_max = 16", "unknown 'completion_max'"),
        ("completions_max = 16", "", "has no 'completions_max'"),
        ('"bf:paper"', "3", "must be lists of texts"),
        ('"bf:paper"', '"BF"', "no swarm can have these rules"),
        ("[rules]", "[rule]", "unknown 'rule'"),
        ("[rules]", "[rules", "not valid TOML"),
        (ADDRESS, "/ip4/192.0.2.7/tcp/4001", "is no bootstrap address"),
        (ADDRESS, "/ip4/1.2.3.4\\u001b[2J/p2p/x", "is no bootstrap address"),
        (f'"{ADDRESS}"', ", ".join(33 * [f'"{ADDRESS}"']), "name at most 32 bootstrap addresses"),
        ('name = "A few Friends!"', "name = 3", "name must be a text"),
    ],
)
def test_a_file_that_cannot_be_right_gives_one_line(old: str, new: str, words: str) -> None:
    assert old in SWARM.text
    with pytest.raises(SwarmFileError, match=words) as caught:
        parse_swarm_file(SWARM.text.replace(old, new), "FILE")
    assert str(caught.value).startswith("FILE")
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_without_its_id_a_file_is_a_new_swarm() -> None:
    lines = [line for line in SWARM.text.splitlines() if not line.startswith("swarm_id")]
    changed = "\n".join(lines).replace("completions_max = 16", "completions_max = 8")
    assert parse_swarm_file(changed, "file").swarm_id != SWARM.swarm_id


def test_a_saved_swarm_can_be_loaded_listed_and_removed(tmp_path: Path) -> None:
    name = save_swarm(tmp_path, SWARM)
    assert name == "a-few-friends"
    assert load_swarm(tmp_path, name) == SWARM
    assert list_swarms(tmp_path) == {name: SWARM}
    remove_swarm(tmp_path, name)
    assert list_swarms(tmp_path) == {}
    with pytest.raises(SwarmFileError, match="no swarm is called 'a-few-friends' here"):
        load_swarm(tmp_path, name)


def test_new_addresses_replace_those_of_the_same_swarm(tmp_path: Path) -> None:
    save_swarm(tmp_path, SWARM)
    name = save_swarm(tmp_path, SwarmFile(RULES))
    assert list_swarms(tmp_path) == {name: SwarmFile(RULES)}


def test_another_swarm_of_the_same_name_is_kept_beside(tmp_path: Path) -> None:
    other = SwarmFile(replace(RULES, completions_max=8))
    first, second = save_swarm(tmp_path, SWARM), save_swarm(tmp_path, other)
    assert second == f"{first}-{other.swarm_id.hex()[:8]}"
    assert list_swarms(tmp_path) == {first: SWARM, second: other}
    assert save_swarm(tmp_path, other) == second


@pytest.mark.parametrize("name", ["../../etc/cron.d/x", "/", "..", "日本", "\x1b[2J", "a" * 64])
def test_a_strangers_name_never_leaves_the_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "swarms"
    folder.mkdir()
    swarm = SwarmFile(replace(RULES, name=name))
    saved = save_swarm(folder, swarm)
    assert [path.name for path in folder.iterdir()] == [f"{saved}.toml"]
    assert saved.isascii()
    assert load_swarm(folder, saved) == swarm
    with pytest.raises(SwarmFileError, match="no swarm is called"):
        load_swarm(folder, f"../swarms/{saved}")


def test_a_file_that_is_none_is_listed_with_its_error_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a-few-friends.toml").write_text("hello", encoding="ascii")
    assert save_swarm(tmp_path, SWARM) != "a-few-friends"
    assert isinstance(list_swarms(tmp_path)["a-few-friends"], SwarmFileError)
    assert (tmp_path / "a-few-friends.toml").read_text(encoding="ascii") == "hello"


def test_a_file_that_cannot_be_read_gives_one_line(tmp_path: Path) -> None:
    with pytest.raises(SwarmFileError, match="cannot be read: No such file"):
        read_swarm_file(tmp_path / "absent.toml")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(SwarmFileError, match="no text in UTF-8"):
        read_swarm_file(tmp_path / "bytes")
    (tmp_path / "large").write_bytes(b"#" * 300_000)
    with pytest.raises(SwarmFileError, match="too large"):
        read_swarm_file(tmp_path / "large")


def test_a_private_swarms_file_says_so_holds_the_key_and_names_another_id() -> None:
    assert parse_swarm_file(PRIVATE.text, "file") == PRIVATE
    assert parse_swarm_file(PRIVATE.text, "file").private
    assert not parse_swarm_file(SWARM.text, "file").private
    assert PRIVATE.swarm_id == swarm_id(RULES, SwarmSecret(KEY)) != SWARM.swarm_id
    assert SwarmFile(RULES, key=bytes(32)).swarm_id != PRIVATE.swarm_id
    assert "WHOEVER HAS THIS FILE IS A MEMBER" in PRIVATE.text
    assert SWARM.announcement_bytes_max - PRIVATE.announcement_bytes_max == 28


@pytest.mark.parametrize(
    ("text", "old", "new", "words"),
    [
        (PRIVATE.text, "private = true\n", "", "has a key and does not say private = true"),
        (PRIVATE.text, "private = true", "private = false", "does not say private = true"),
        (PRIVATE.text, "private = true", "private = 1", "private must be true or false"),
        (PRIVATE.text, KEY_LINE, "", "its key is not there"),
        (PRIVATE.text, KEY_LINE, f'key = "{KEY.hex()[1:]}"\n', "the key is damaged"),
        (PRIVATE.text, KEY_LINE, f'key = "{KEY.hex()}0"\n', "the key is damaged"),
        (PRIVATE.text, KEY_LINE, f'key = "{KEY.hex()[:-1]}g"\n', "the key is damaged"),
        (PRIVATE.text, KEY_LINE, f'key = ["{KEY.hex()}"]\n', "the key is damaged"),
        (PRIVATE.text, KEY_LINE, f'key = "{bytes(32).hex()}"\n', "the rules, or the key, are not"),
        (PRIVATE.text, PRIVATE.swarm_id.hex(), SWARM.swarm_id.hex(), "or the key, are not those"),
        (PRIVATE.text, f'swarm_id = "{PRIVATE.swarm_id.hex()}"\n', "", "has no 'swarm_id'"),
        (PRIVATE.text, '"bf:paper"', '"bf:default"', "or the key, are not those"),
        (PRIVATE.text, KEY_LINE, f"key = {KEY.hex()}\n", "not valid TOML"),
        (PRIVATE.text, KEY_LINE, f'key = "{KEY.hex()}\n', "not valid TOML"),
        (SWARM.text, "bootstrap = ", "private = true\nbootstrap = ", "its key is not there"),
        (SWARM.text, "bootstrap = ", f"{KEY_LINE}bootstrap = ", "does not say private = true"),
        (
            SWARM.text,
            "bootstrap = ",
            f"private = true\n{KEY_LINE}bootstrap = ",
            "are not those of the",
        ),
        (SWARM.text, SWARM.swarm_id.hex(), PRIVATE.swarm_id.hex(), "the rules are not those of"),
    ],
)
def test_rules_and_key_that_do_not_belong_together_give_one_line_without_the_key(
    text: str, old: str, new: str, words: str
) -> None:
    assert old in text
    with pytest.raises(SwarmFileError, match=words) as caught:
        parse_swarm_file(text.replace(old, new), "FILE")
    assert str(caught.value).startswith("FILE")
    assert "\n" not in str(caught.value)
    told = "".join(traceback.format_exception(caught.value))
    assert KEY.hex()[:16] not in told
    assert KEY.hex()[-16:-1] not in told


def test_a_private_swarms_file_in_the_home_is_for_its_owner_alone(tmp_path: Path) -> None:
    with_mask = os.umask(0o000)
    try:
        name = save_swarm(tmp_path, PRIVATE)
        again = save_swarm(tmp_path, replace(PRIVATE, bootstrap=()))
        public = save_swarm(tmp_path, replace(SWARM, rules=replace(RULES, name="others")))
    finally:
        os.umask(with_mask)
    assert name == again
    assert stat.S_IMODE((tmp_path / f"{name}.toml").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / f"{public}.toml").stat().st_mode) == 0o666
    assert load_swarm(tmp_path, name) == replace(PRIVATE, bootstrap=())


def test_a_private_swarm_and_the_public_one_of_its_rules_are_kept_beside_each_other(
    tmp_path: Path,
) -> None:
    names = {save_swarm(tmp_path, each) for each in (SWARM, PRIVATE)}
    assert len(names) == 2
    assert set(list_swarms(tmp_path).values()) == {SWARM, PRIVATE}


def test_no_key_is_shown_where_a_swarm_is_printed() -> None:
    for shown in (repr(PRIVATE), str(PRIVATE), repr([PRIVATE])):
        assert KEY.hex() not in shown
        assert repr(KEY)[2:-1] not in shown
