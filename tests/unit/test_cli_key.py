"""`swarmnode key`: the identity is shown, copied and changed; its private half is never shown."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.key import key
from swarmnode.home import Home
from swarmnode.keys import peer_id_of, read_key
from swarmproto import public_key_of


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


def call(*arguments: str) -> str:
    result = CliRunner().invoke(key, arguments)
    if result.exception is not None:
        raise result.exception
    return result.output


def refused(*arguments: str) -> str:
    with pytest.raises(Mistake) as caught:
        call(*arguments)
    assert caught.value.code == Exit.CONFIG
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_show_draws_a_key_once_and_never_shows_it(home: Home) -> None:
    first = call("show")
    assert call("show") == first
    private = read_key(home.key)
    assert public_key_of(private).hex() in first
    assert peer_id_of(public_key_of(private)) in first
    assert private.hex() not in first


def test_show_has_a_form_for_programs(home: Home) -> None:
    shown = json.loads(call("show", "--json"))
    assert shown["public_key"] == public_key_of(read_key(home.key)).hex()
    assert shown["peer_id"].startswith("12D3KooW")
    assert shown["instance"] == home.instance().hex()


def test_an_exported_key_can_be_imported_elsewhere(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = json.loads(call("show", "--json"))
    exported = tmp_path / "copy"
    call("export", str(exported))
    assert stat.S_IMODE(exported.stat().st_mode) == 0o600
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path / "other"))
    assert shown["peer_id"] in call("import", str(exported))
    there = json.loads(call("show", "--json"))
    assert there["public_key"] == shown["public_key"]
    assert there["instance"] != shown["instance"]


def test_nothing_is_overwritten(home: Home, tmp_path: Path) -> None:
    call("show")
    call("export", str(tmp_path / "copy"))
    private = read_key(home.key)
    assert "not overwritten" in refused("export", str(tmp_path / "copy"))
    assert "--replace" in refused("import", str(tmp_path / "copy"))
    assert read_key(home.key) == private


def test_a_home_without_a_key_has_none_to_export(home: Home, tmp_path: Path) -> None:
    assert "cannot be read" in refused("export", str(tmp_path / "copy"))
    assert not (tmp_path / "copy").exists()


def test_rotating_keeps_the_old_key_aside(home: Home, tmp_path: Path) -> None:
    call("show")
    private = read_key(home.key)
    call("export", str(tmp_path / "copy"))
    output = call("rotate")
    (aside,) = home.path.glob("key.old-*")
    assert read_key(aside) == private
    assert str(aside) in output
    assert peer_id_of(public_key_of(read_key(home.key))) in output
    assert read_key(home.key) != private


def test_an_import_may_put_the_present_key_aside(home: Home, tmp_path: Path) -> None:
    call("show")
    private = read_key(home.key)
    other = tmp_path / "other"
    other.write_text("ab" * 32, encoding="ascii")
    other.chmod(0o600)
    call("import", str(other), "--replace")
    (aside,) = home.path.glob("key.old-*")
    assert read_key(aside) == private
    assert read_key(home.key) == bytes.fromhex("ab" * 32)


@pytest.mark.parametrize("arguments", [("rotate",), ("import", "copy")])
def test_the_key_of_a_running_node_is_not_changed(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    call("show")
    call("export", "copy")
    private = read_key(home.key)
    with home.lock():
        assert "is in use by process" in refused(*arguments)
        assert private.hex() not in call("show")
    assert read_key(home.key) == private
