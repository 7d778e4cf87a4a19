"""reasoning-gym's other tasks: which entries become questions, and what is kept of them."""

from __future__ import annotations

from typing import Any

import pytest

from swarmnode.rewards import verify
from swarmnode.rewards.verifiers import GRID_BYTES
from swarmnode.tasks import ENABLED, REFUSED, native

SEED = 2**62 + 77


class Listed:
    """A dataset of entries whose own scorer says what it is told to."""

    def __init__(self, score: object) -> None:
        self.score = score

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"question": f"{index}?", "answer": f"{index}", "metadata": {"secret": index}}

    def score_answer(self, answer: str, entry: dict[str, Any]) -> Any:
        entry["question"] = "spoilt"
        if isinstance(self.score, Exception):
            raise self.score
        return self.score


def test_an_entry_becomes_a_question_without_its_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_dataset", lambda task, seed: Listed(1.0))
    draft = native.NativeSource("gcd").draft(SEED, 4)
    assert draft is not None
    assert (draft.text, draft.answer, dict(draft.metadata)) == ("4?", "4", {})


@pytest.mark.parametrize("score", [0.98, 0.0, float("nan"), None, ValueError(), RecursionError()])
def test_an_answer_that_its_own_scorer_does_not_pay_is_no_question(
    score: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "_dataset", lambda task, seed: Listed(score))
    assert native.NativeSource("gcd").draft(SEED, 4) is None


class Failing:
    """A dataset that makes nothing."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __getitem__(self, index: int) -> dict[str, Any]:
        raise self.error


@pytest.mark.parametrize("error", [RuntimeError(), ValueError(), LookupError(), TypeError()])
def test_an_entry_that_cannot_be_made_is_no_question(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "_dataset", lambda task, seed: Failing(error))
    assert native.NativeSource("maze").draft(SEED, 4) is None


@pytest.mark.parametrize("error", [MemoryError(), RecursionError()])
def test_what_depends_on_the_process_is_never_taken_for_an_index_without_a_question(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "_dataset", lambda task, seed: Failing(error))
    with pytest.raises(type(error)):
        native.NativeSource("maze").draft(SEED, 4)


def test_no_question_has_an_answer_that_no_verifier_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    class Long(Listed):
        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"question": "?", "answer": "é" * index, "metadata": {}}

    monkeypatch.setattr(native, "_dataset", lambda task, seed: Long(1.0))
    longest = GRID_BYTES // 2
    draft = native.NativeSource("ab").draft(SEED, longest)
    assert draft is not None
    assert verify("ab", draft.answer, draft.metadata, draft.answer) == 1.0
    assert native.NativeSource("ab").draft(SEED, longest + 1) is None


@pytest.mark.parametrize("task", ["futoshiki", "sokoban", "quantum_lock"])
def test_tasks_whose_questions_outlast_the_scorers_patience_are_refused(task: str) -> None:
    assert task not in ENABLED
    assert "longer than the scorer waits" in REFUSED[task]


def test_only_tasks_that_exist_keep_data_for_their_verifier() -> None:
    assert set(native.KEPT) <= ENABLED
