"""Which test provokes which line of docs/errors.md: compared while the suite runs (provoking.py).

provoked.json has the table, since lines of the page are longer than lines of code.
`SWARMNODE_TEST_TOLD=FILE` with pytest writes what each test told, for finding the test of a line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

PROVOKED: Final[Mapping[str, str]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)
"""Line of the page to the test that provokes it: a file below tests/ and a function. What needs
whole nodes is provoked below tests/real, and compared when these run."""
