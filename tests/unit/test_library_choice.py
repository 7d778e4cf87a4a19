"""Which library the network runs on, and that its process brings no other."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.opening import check_network
from swarmnode.config.settings import load_settings
from swarmnode.network import choice
from swarmnode.network.choice import Choice, NoLibrary, chosen_library


@pytest.mark.parametrize(
    ("wanted", "there", "taken"),
    [
        ("auto", ("hivemind", "libp2p"), "hivemind"),
        ("auto", ("libp2p",), "libp2p"),
        ("auto", ("hivemind",), "hivemind"),
        ("libp2p", ("hivemind", "libp2p"), "libp2p"),
        ("hivemind", ("hivemind", "libp2p"), "hivemind"),
    ],
)
def test_auto_prefers_hivemind_and_names_are_taken_at_their_word(
    wanted: Choice, there: Iterable[str], taken: str
) -> None:
    assert chosen_library(wanted, lambda library: library in there) == taken


@pytest.mark.parametrize(
    ("wanted", "there", "words"),
    [
        ("auto", (), ("neither hivemind nor libp2p", "[hivemind]", "[libp2p]")),
        ("libp2p", ("hivemind",), ("libp2p is installed", "[libp2p]")),
        ("hivemind", ("libp2p",), ("hivemind is installed", "[hivemind]")),
    ],
)
def test_what_is_not_installed_is_one_line_with_the_command(
    wanted: Choice, there: Iterable[str], words: Iterable[str]
) -> None:
    with pytest.raises(NoLibrary) as caught:
        chosen_library(wanted, lambda library: library in there)
    text = str(caught.value)
    assert all(word in text for word in words)
    assert "\n" not in text


def test_a_command_ends_before_anything_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_settings()
    monkeypatch.setattr(choice, "installed", lambda library: False)
    monkeypatch.setattr(chosen_library, "__defaults__", (choice.installed,))
    with pytest.raises(Mistake) as caught:
        check_network(settings)
    assert caught.value.code is Exit.CONFIG


BROUGHT = """
import json, socket, sys
import swarmnode.networking as networking
networking.builder(sys.argv[1])
names = ("hivemind.p2p", "libp2p", "trio", "torch")
print(json.dumps([name for name in names if name in sys.modules]))
"""


@pytest.mark.parametrize(
    ("library", "brought"), [("hivemind", ["hivemind.p2p"]), ("libp2p", ["libp2p", "trio"])]
)
def test_the_network_process_brings_its_own_library_alone(library: str, brought: list[str]) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-c", BROUGHT, library],
        check=True,
        capture_output=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root}:{root / 'protocol'}"},
        timeout=100,
    )
    assert json.loads(done.stdout) == brought
