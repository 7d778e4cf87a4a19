"""Which test provokes which line of docs/errors.md: compared while the suite runs (provoking.py).

provoked.json has the table, since lines of the page are longer than lines of code.
`SWARMNODE_TEST_TOLD=FILE` with pytest writes what each test told, for finding the test of a line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_TABLE: Final[Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))

PROVOKED: Final[Mapping[str, str]] = _TABLE["provoked"]
"""Line of the page to the test that provokes it: a file below tests/ and a function."""

OWED: Final[frozenset[str]] = frozenset(_TABLE["owed"])
"""Lines of which no test is known that provokes them; a line that is added has no place here."""
