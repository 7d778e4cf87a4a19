"""reasoning-gym's other tasks: what a group's scoring costs, and what scorers can't change."""

from __future__ import annotations

from typing import Any

import pytest

from swarmnode.tasks import DEFAULT, ENABLED, REFUSED, native

SEED = 2**62 + 77


class Spoiling:
    """A dataset that counts what it makes and spoils the entry that it scores."""

    def __init__(self) -> None:
        self.made = 0

    def __getitem__(self, index: int) -> dict[str, Any]:
        self.made += 1
        return {"question": f"{index}?", "answer": str(index), "metadata": {"right": [str(index)]}}

    def score_answer(self, answer: str, entry: dict[str, Any]) -> float:
        right = entry["metadata"]["right"].pop()
        return float(answer == right)


def test_a_group_costs_one_generation_and_its_scorer_cannot_change_the_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dataset = Spoiling()
    monkeypatch.setattr(native, "_dataset", lambda task, seed: dataset)
    draft = native.NativeSource("gcd").draft(SEED, 4)
    assert draft is not None
    assert (draft.text, draft.answer) == ("4?", "4")
    scores = [native.score("gcd", DEFAULT, SEED, 4, text) for text in ("4", "5", "4 ", "", "4")]
    assert scores == [1.0, 0.0, 1.0, 0.0, 1.0]
    assert dataset.made == 1


@pytest.mark.parametrize("task", ["futoshiki", "sokoban", "quantum_lock"])
def test_tasks_whose_questions_outlast_the_scorers_patience_are_refused(task: str) -> None:
    assert task not in ENABLED
    assert "longer than the scorer waits" in REFUSED[task]
