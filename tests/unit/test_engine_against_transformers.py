"""The engine's benchmark runs, compares what it says it does, and can miss its targets."""

from __future__ import annotations

import pytest
import torch

from tests.benchmarks import engine
from tests.benchmarks.engine import Row


def test_a_short_run_on_tiny_agrees_with_transformers(capsys: pytest.CaptureFixture[str]) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = engine.tiny_section(generation_pairs=1, step_pairs=1)
    finally:
        torch.set_num_threads(threads)
    assert {row.name.split(": ")[1] for row in rows if not row.at_least} == {
        "log-prob difference",
        "gradient difference",
    }
    # Speed-ups of one pair on a busy machine say nothing; that both sides computed the same does.
    assert all(row.met for row in rows if not row.at_least)
    assert all(row.figure > 0 for row in rows)
    assert "% of sgemm" in capsys.readouterr().out


def test_a_missed_target_is_told_and_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [Row("fast enough", 3.0, 2.3, True), Row("too far off", 2e-4, 1e-4, False)]
    monkeypatch.setattr(engine, "tiny_section", lambda: rows)
    assert engine.main(["tiny"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[0].endswith("met")
    assert told[1].endswith("MISSED")
    monkeypatch.setattr(engine, "tiny_section", lambda: rows[:1])
    assert engine.main(["tiny"]) == 0
