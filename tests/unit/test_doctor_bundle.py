"""`doctor --bundle`: secrets planted in every place, and an archive that holds none of them."""

from __future__ import annotations

import gzip
import json
import os
import socket
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from swarmnode.config.settings import load_settings
from swarmnode.doctor import Check, Result, write_bundle
from swarmnode.doctor.redaction import Redaction
from swarmnode.home import Home
from swarmnode.keys import load_or_create_key, peer_id_of
from swarmnode.swarm_files import SwarmFile
from swarmproto import generate_swarm_key, public_key_of
from tests.unit.cli_support import DOCUMENT, run, write_log

PEER = peer_id_of(bytes(range(32)))
ADDRESSES = ("192.0.2.77", "2001:db8::77:1", "203.0.113.9", "peer.example.org")
TOKENS = ("hf_PlantedPlantedPlanted", "planted-wandb-key-0123456789", "planted-password")
USER = "alicia"


def planted(home: Home) -> tuple[dict[str, Any], list[str]]:
    """A home, an environment, settings, a status and findings full of secrets; and those."""
    home.make()
    private = load_or_create_key(home.key)
    home.dashboard_secret.write_text("d" * 23 + "D\n")
    home.metrics_secret.write_text("m" * 23 + "M\n")
    home.generators_key.write_text(
        "-----BEGIN PRIVATE KEY-----\nPlantedPemPlantedPem\n-----END PRIVATE KEY-----\n"
    )
    swarm_key = generate_swarm_key()
    rules = load_rules()
    address = f"/ip4/{ADDRESSES[0]}/tcp/4001/p2p/{PEER}"
    (home.swarms / "friends.toml").write_text(SwarmFile(rules, (address,), swarm_key).text)
    environment = {
        "HF_TOKEN": TOKENS[0],
        "WANDB_API_KEY": TOKENS[1],
        "USER": USER,
        "SWARMNODE_HOME": str(home.path),
    }
    secrets = [
        private.hex(), swarm_key.hex(), "d" * 23 + "D", "m" * 23 + "M", "PlantedPemPlantedPem",
    ]  # fmt: skip
    everything = " ".join(
        [
            *secrets, *TOKENS[:2], *ADDRESSES[:3], PEER, public_key_of(private).hex(),
            f"/dns4/{ADDRESSES[3]}/udp/4001/quic-v1/p2p/{PEER}", f"/home/{USER}/models",
            f"/Users/{USER}", "/home/bertil/x", str(home.path / "key"), f"password={TOKENS[2]}",
            f"https://{USER}:{TOKENS[2]}@example.org/x", f"Authorization: Bearer {TOKENS[1]}",
            f"http://127.0.0.1:8470/{'d' * 23}D/ on {socket.gethostname()}-nothing",
            "-----BEGIN OPENSSH PRIVATE KEY-----\nPlantedPemPlantedPem",
        ]
    )  # fmt: skip
    write_log(home.path, "daemon", everything, "harmless")
    with (home.log / "daemon.jsonl").open("a") as log:
        log.write(json.dumps({"event": "answers", "question": "PlantedAnswer"}) + "\n")
        log.write(json.dumps({"event": "x", "api_token": TOKENS[2], everything: everything}))
        log.write("\nno JSON: " + everything + "\n")
    network = DOCUMENT.network.model_copy(update={"addresses": (address,), "error": everything})
    status = DOCUMENT.model_copy(update={"network": network, "dashboard": everything}).as_json()
    settings = load_settings(
        assignments=[f'network.bootstrap=["{address}"]', f"policy.model=/home/{USER}/models/mine"]
    )
    found = [Check("bootstrap", Result.FAILED, everything, everything)]
    given = {
        "home": home, "settings": settings, "found": found, "status": status,
        "environment": environment,
    }  # fmt: skip
    private_words = [
        USER,
        PEER,
        str(home.path),
        public_key_of(private).hex(),
        "PlantedAnswer",
        "bertil",
    ]
    return given, [*secrets, *TOKENS, *ADDRESSES, *private_words]


def load_rules() -> Any:
    from swarmnode.cli.choosing import swarm_of

    return swarm_of(load_settings(), "friends").rules


def contents(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        found = {}
        for each in archive:
            assert (each.uid, each.uname, each.mtime) == (0, "", 0), "nothing of this machine"
            member = archive.extractfile(each)
            assert member
            found[each.name] = member.read().decode()
        return found


def test_no_secret_from_any_place_is_in_the_archive(tmp_path: Path) -> None:
    given, secrets = planted(Home(tmp_path / "home"))
    write_bundle(tmp_path / "bundle.tar.gz", **given)
    whole = gzip.decompress((tmp_path / "bundle.tar.gz").read_bytes()).decode("utf-8", "replace")
    raw = " ".join([whole, *contents(tmp_path / "bundle.tar.gz").values()])
    assert [each for each in secrets if each in raw] == []
    assert stat.S_IMODE((tmp_path / "bundle.tar.gz").stat().st_mode) == 0o600


def test_what_helps_is_still_there(tmp_path: Path) -> None:
    given, _ = planted(Home(tmp_path / "home"))
    write_bundle(tmp_path / "bundle.tar.gz", **given)
    found = contents(tmp_path / "bundle.tar.gz")
    names = {name.removeprefix("swarmnode-doctor/") for name in found}
    assert names == {
        "doctor.json", "settings.json", "status.json", "versions.json", "log/daemon.jsonl"
    }  # fmt: skip
    status = json.loads(found["swarmnode-doctor/status.json"])
    assert status["round"]["number"] == 41
    assert {each["code"] for each in status["warnings"]} >= {"disk-full"}
    assert "harmless" in found["swarmnode-doctor/log/daemon.jsonl"]
    versions = json.loads(found["swarmnode-doctor/versions.json"])
    assert versions["packages"]["pydantic"]
    assert versions["variables"] == ["HF_TOKEN", "SWARMNODE_HOME", "WANDB_API_KEY"]
    settings = json.loads(found["swarmnode-doctor/settings.json"])
    assert settings["rounds"]["completions_per_group"]
    assert settings["policy"]["max_new_tokens"] == given["settings"].policy.max_new_tokens
    assert settings["network"]["listen"] == ["/ip4/127.0.0.1/tcp/0"], "it says nothing of anybody"


def test_one_peer_keeps_one_name_and_two_have_two() -> None:
    redaction = Redaction([], {})
    other = peer_id_of(bytes(32))
    text = redaction.text(f"{PEER} left, {other} came, {PEER} is back from /ip4/192.0.2.1/tcp/1")
    assert text == "[peer-1] left, [peer-2] came, [peer-1] is back from [address]"
    assert redaction.text("round 41 took 1.25 s, torch 2.13.0, 127.0.0.1:8470, at 12:30:05") == (
        "round 41 took 1.25 s, torch 2.13.0, 127.0.0.1:8470, at 12:30:05"
    )


def test_a_file_that_is_there_is_not_overwritten_and_a_link_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path / "home"))
    (tmp_path / "taken").write_text("mine")
    os.symlink(tmp_path / "taken", tmp_path / "link")
    for name in ("taken", "link"):
        code = run(monkeypatch, "doctor", "--no-train", "--bundle", str(tmp_path / name))
        assert code == 3
        told = capsys.readouterr().err
        assert "cannot be written" in told
        assert "choose another place" in told
    assert (tmp_path / "taken").read_text() == "mine"
