"""A node's generators on the machines of a Ray cluster: placed, used, and placed anew.

`swarmnode generate --cluster` has Ray begin them; they come in at the node as those do that
somebody started by hand, and weights go to them through a folder.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.ray_support import environment, two_nodes
from tests.real.real_support import (
    adopting,
    assert_no_round_lost,
    orphans,
    patience,
    place,
    until,
    wait_for_rounds,
)

__all__ = ["environment"]

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


def test_generators_are_placed_on_both_nodes_and_one_that_is_lost_elsewhere(
    environment: dict[str, str], tmp_path: Path
) -> None:
    door = f"127.0.0.1:{free_port()}"
    settings = (
        'policy.mode="split"',
        "policy.generators=0",
        "policy.remote_generators=2",
        f'policy.generators_address="{door}"',
        'policy.weights.channel="folder"',
        f"policy.weights.folder={json.dumps(str(tmp_path / 'weights'))}",
        "policy.warm_start.base_steps=50",
    )
    with (
        adopting() as known,
        two_nodes(environment) as nodes,
        place(tmp_path, *settings) as here,
    ):
        node = here.run("node", "--solo")
        until(node.home.generators_key.exists, patience(60), "the key of generators")
        words = ["generate", "--of", door, "--key", str(node.home.generators_key)]
        words += ["--cluster", f"ray:{nodes.address}", "--places", "2"]
        output = tmp_path / "placing"
        with output.open("wb") as file:
            placing = subprocess.Popen(
                [sys.executable, "-m", "swarmnode", *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

        def begun(on: str, times: int) -> bool:
            assert placing.poll() is None, output.read_text()
            return output.read_text().count(f" begins on {on}") >= times

        try:
            marks = [f"{socket.gethostname()} ({each[:8]})" for each in nodes.ids]
            until(lambda: all(begun(mark, 1) for mark in marks), patience(120), "both")
            wait_for_rounds(node, 4, 300)
            nodes.kill(1)
            until(lambda: begun(marks[0], 2), patience(180), "another place")
            wait_for_rounds(node, 4, 300)
            placing.send_signal(signal.SIGINT)
            assert placing.wait(patience(60)) == 0
        finally:
            if placing.poll() is None:
                placing.kill()
                placing.wait()
        assert_no_round_lost(node)
    until(lambda: not orphans(known), patience(60), "the end of all processes")
