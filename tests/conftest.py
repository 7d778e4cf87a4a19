"""For all tests: hivemind and py-libp2p in one process, and what tests provoke of docs/errors.md.

A node's processes have one of the two each. Both register the protobuf `crypto.pb`; py-libp2p's has
all that hivemind's has, so both get it.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.provoking import begin

NAMES = ("libp2p.crypto.pb.crypto_pb2", "hivemind.proto.crypto_pb2")


def share_the_keys() -> None:
    found = importlib.util.find_spec("libp2p")
    if found is None or found.origin is None or NAMES[0] in sys.modules:
        return
    path = Path(found.origin).parent / "crypto" / "pb" / "crypto_pb2.py"
    spec = importlib.util.spec_from_file_location(NAMES[0], path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.update(dict.fromkeys(NAMES, module))
    spec.loader.exec_module(module)


share_the_keys()


def pytest_configure(config: pytest.Config) -> None:
    begin(config)
