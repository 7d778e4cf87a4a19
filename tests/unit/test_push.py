"""Uploading a model, against a hub on loopback: what arrives, and what is said when nothing does.

The library reads its settings when it is imported, so that every call is a program of its own.
"""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.hub_server import TOKEN, Hub, hub

CONTENT = {
    "config.json": b"{}",
    "README.md": b"---\ntags: []\n---\nA model.\n",
    "model.safetensors": bytes(range(256)) * 40,
}


@pytest.fixture
def server() -> Iterator[Hub]:
    with hub() as made:
        yield made


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    for name, content in CONTENT.items():
        (folder / name).write_bytes(content)
    return folder


def pushed(
    folder: Path,
    address: str,
    *arguments: str,
    token: str | None = TOKEN,
    terminal: int | None = None,
    offline: bool = False,
) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return subprocess.run(
        [sys.executable, "-m", "swarmnode", "push", str(folder), *arguments],
        env={
            **inherited,
            "HF_ENDPOINT": address,
            "HF_HOME": str(folder.parent / "hf"),
            # The loopback hub has no Xet store.
            "HF_HUB_DISABLE_XET": "1",
            **({"HF_TOKEN": token} if token else {}),
            **({"HF_HUB_OFFLINE": "1"} if offline else {}),
        },
        stdin=subprocess.DEVNULL if terminal is None else terminal,
        capture_output=True,
        text=True,
        timeout=90,
    )


def one_line(ended: subprocess.CompletedProcess[str]) -> str:
    """What a mistake says."""
    (line,) = ended.stderr.splitlines()
    assert line.startswith("swarmnode: ")
    assert ended.stdout == ""
    return line


def test_every_file_arrives_in_a_private_repository(model: Path, server: Hub) -> None:
    ended = pushed(model, server.address, "me/model", "--yes", "-m", "round 20")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == f"uploaded: {server.address}/me/model/commit/1\n"
    assert server.visibility == {"me/model": "private"}
    assert server.files == CONTENT
    assert server.summary == "round 20"
    assert not [each for each in server.requests if "agent" in each or "telemetry" in each]


def test_everybody_sees_it_only_when_told_so(model: Path, server: Hub) -> None:
    assert pushed(model, server.address, "me/model", "--public", "--yes").returncode == 0
    assert server.visibility == {"me/model": "public"}


def test_nothing_is_sent_before_somebody_said_yes(model: Path, server: Hub) -> None:
    ended = pushed(model, server.address, "me/model")
    assert ended.returncode == 2
    assert "give --yes" in one_line(ended)
    assert server.requests == []


def test_without_a_token_nothing_is_sent(model: Path, server: Hub) -> None:
    ended = pushed(model, server.address, "me/model", "--yes", token=None)
    assert ended.returncode == 3
    assert "set HF_TOKEN, or run `hf auth login`" in one_line(ended)
    assert server.requests == []


def test_a_token_that_the_hub_does_not_know_is_told(model: Path, server: Hub) -> None:
    ended = pushed(model, server.address, "me/model", "--yes", token="hf_wrong")
    assert ended.returncode == 1
    assert "does not know the token" in one_line(ended)


@pytest.mark.parametrize(
    ("status", "words"), [(403, "may not write to me/model"), (400, "refused the upload (400)")]
)
def test_a_refusal_is_told(model: Path, server: Hub, status: int, words: str) -> None:
    server.refuse = status
    ended = pushed(model, server.address, "me/model", "--yes")
    assert ended.returncode == 1
    assert words in one_line(ended)


def test_a_hub_that_is_not_there_is_told(model: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"
    ended = pushed(model, address, "me/model", "--yes")
    assert ended.returncode == 1
    assert f"{address} cannot be reached" in one_line(ended)


def test_an_answer_that_is_none_is_told(model: Path, server: Hub) -> None:
    server.garbled = True
    ended = pushed(model, server.address, "me/model", "--yes")
    assert ended.returncode == 1
    assert "the upload failed: " in one_line(ended)


def test_who_says_no_uploads_nothing(model: Path, server: Hub) -> None:
    terminal, theirs = pty.openpty()
    os.write(terminal, b"n\n")
    ended = pushed(model, server.address, "me/model", terminal=theirs)
    os.close(theirs)
    os.close(terminal)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == "swarmnode: nothing was uploaded"
    assert f"Upload 3 files (10 KiB) to {server.address}/me/model, private?" in ended.stdout
    assert server.requests == []


def test_what_cannot_be_uploaded_is_told_before_anything_is_sent(
    model: Path, server: Hub, tmp_path: Path
) -> None:
    for folder, repository, offline, code, words in (
        (tmp_path, "me/model", False, 3, "holds no model"),
        (model, "me/mo del", False, 2, "is no name of a repository"),
        (model, "me/model", True, 3, "HF_HUB_OFFLINE is set"),
    ):
        ended = pushed(folder, server.address, repository, "--yes", offline=offline)
        assert ended.returncode == code
        assert words in one_line(ended)
    assert server.requests == []
