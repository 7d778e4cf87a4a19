"""Packing: every token is predicted from the right place, and nothing leaks between rows."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from swarmnode.training.losses import token_statistics
from swarmnode.training.packing import PADDING_SEGMENT, TreeRow, micro_batches, pack
from tests.unit.training_support import VOCABULARY, TinyLlama, naive_logprobs

CPU = torch.device("cpu")

TOKEN = st.integers(0, 3)
ROWS = st.lists(
    st.builds(
        TreeRow,
        st.lists(TOKEN, min_size=1, max_size=6).map(tuple),
        st.lists(st.lists(TOKEN, max_size=4).map(tuple), min_size=1, max_size=5).map(tuple),
    ),
    min_size=1,
    max_size=4,
).filter(lambda rows: any(completion for row in rows for completion in row.completions))


@given(ROWS)
def test_what_a_predictor_sees_is_the_prompt_and_its_completion_so_far(rows: list[TreeRow]) -> None:
    packed = pack(rows, CPU)
    token_ids, segments = packed.token_ids.flatten(), packed.segments.flatten()
    positions, length = packed.positions.flatten(), packed.token_ids.shape[1]
    token = 0
    completions = [(row, one) for row in range(len(rows)) for one in rows[row].completions]
    for number, (row, completion) in enumerate(completions):
        prompt = list(rows[row].prompt_ids)
        for index, target in enumerate(completion):
            place = int(packed.predictors[packed.predictor_of_token[token]])
            seen = [
                other
                for other in range(row * length, place + 1)
                if int(segments[other]) in (0, int(segments[place]))
            ]
            assert [int(token_ids[other]) for other in seen] == prompt + list(completion[:index])
            assert [int(positions[other]) for other in seen] == list(range(len(prompt) + index))
            assert int(packed.targets[token]) == target
            assert int(packed.completion_of_token[token]) == number
            token += 1
    assert token == len(packed.targets)
    used = (packed.segments != PADDING_SEGMENT).sum(dim=1)
    assert used.tolist() == [row.length for row in rows]


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_packed_logprobs_are_those_of_one_forward_pass_per_token(temperature: float) -> None:
    generator = random.Random(3)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(generator.randrange(VOCABULARY) for _ in range(count))

    rows = [TreeRow(ids(prompt), tuple(ids(n) for n in (3, 1, 6))) for prompt in (1, 9, 4)]
    rows.append(TreeRow(ids(2), (rows[0].completions[0],) * 2))
    model = TinyLlama(1)
    with torch.no_grad():
        packed = pack(rows, CPU)
        hidden = model.tree_hidden(packed.token_ids, packed.positions, packed.segments)
        logits = model.head(hidden.flatten(0, 1)[packed.predictors])
        tokens = token_statistics(logits, packed.predictor_of_token, packed.targets, temperature)
        expected = [
            naive_logprobs(model, row.prompt_ids, completion, temperature)
            for row in rows
            for completion in row.completions
        ]
    torch.testing.assert_close(tokens.logprobs, torch.cat(expected), rtol=1e-4, atol=1e-5)


def test_equal_completions_are_computed_once_and_counted_each() -> None:
    row = TreeRow((1, 2), ((3, 4, 5), (3, 4, 5), (6,), (6,)))
    packed = pack([row], CPU)
    assert packed.token_ids.tolist() == [[1, 2, 3, 4]]
    assert packed.targets.tolist() == [3, 4, 5, 3, 4, 5, 6, 6]
    assert packed.predictor_of_token.tolist() == [0, 1, 2, 0, 1, 2, 0, 0]


def test_rows_are_padded_on_the_right_and_padding_is_marked_by_length() -> None:
    packed = pack([TreeRow((0, 0, 0), ((0, 0),)), TreeRow((0,), ((0,),))], CPU)
    assert packed.segments.tolist() == [[0, 0, 0, 1], [0, -1, -1, -1]]


@given(st.lists(st.integers(1, 50), max_size=20), st.integers(1, 200))
def test_micro_batches_hold_every_row_once_within_the_budget(
    lengths: list[int], budget: int
) -> None:
    batches = micro_batches(lengths, budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[index] for index in batch)
        assert len(batch) == 1 or longest * len(batch) <= budget
