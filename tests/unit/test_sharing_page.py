"""The blocks of the study's page, how they are put into it, and the picture."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path

import pytest

from tests.benchmarks.sharing import protocol
from tests.benchmarks.sharing_figure import draw
from tests.benchmarks.sharing_markdown import code, decimal, p_value, percent, points, rate, table
from tests.benchmarks.sharing_page import BLOCKS, fill, render
from tests.benchmarks.sharing_protocol import frozen_rates
from tests.benchmarks.sharing_statistics import Row, held_out_end
from tests.unit.sharing_support import ANSWERS, PROTOCOL, answers, row, whole_study

PAGE = """# Sharing

<!-- sharing:answer -->
old
<!-- /sharing:answer -->
Between, with `<!-- sharing:answer -->` in a sentence.

<!-- sharing:raw -->
<!-- /sharing:raw -->
The end.
"""


def cells(block: str, first: str) -> list[str]:
    """The line of a block's table that starts with this cell."""
    line = next(line for line in block.splitlines() if line.startswith(f"| {first} |"))
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_blocks_replace_what_stands_between_their_markers_and_nothing_else() -> None:
    filled = fill(PAGE, {"answer": "new\n", "raw": "| a |\n| \\1 |"})
    assert filled == PAGE.replace("\nold\n", "\n\nnew\n\n").replace(
        "<!-- sharing:raw -->\n", "<!-- sharing:raw -->\n\n| a |\n| \\1 |\n\n"
    )
    assert fill(filled, {"answer": "new", "raw": "| a |\n| \\1 |"}) == filled


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (PAGE.replace("sharing:raw", "sharing:tasks"), "unknown block 'tasks'"),
        (PAGE.split("<!-- sharing:raw")[0], "lacks the markers of block 'raw'"),
        (PAGE + PAGE, "holds block 'answer' 2 times"),
        (PAGE.replace("<!-- /sharing:raw -->", ""), "block 'raw' is not closed"),
        (PAGE.replace("<!-- /sharing:answer -->", ""), "block 'answer' is not closed before"),
        (PAGE.replace("/sharing:raw", "/sharing:answer"), "block 'raw' is not closed before"),
        ("<!-- /sharing:raw -->\n" + PAGE, "closes block 'raw' that is not open"),
    ],
)
def test_a_page_whose_markers_do_not_fit_is_refused(page: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        fill(page, {"answer": "new", "raw": "new"})


def test_every_block_of_a_whole_study_is_a_table() -> None:
    blocks = render(whole_study(), PROTOCOL)
    assert list(blocks) == list(BLOCKS)
    for block in blocks.values():
        widths = [len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()]
        assert sum(map(bool, widths)) > 2
        assert not re.search(r"\bnan\b|None|Not run", block)


def test_rows_that_went_through_json_give_the_same_page() -> None:
    rows: list[Row] = json.loads(json.dumps(whole_study()))
    assert render(rows[::-1], PROTOCOL) == render(whole_study(), PROTOCOL)


def test_the_raw_table_holds_the_end_of_every_run_and_the_start_of_every_seed() -> None:
    rows = [each for each in whole_study() if each["stage"] == "main"]
    block = render(rows, PROTOCOL)["raw"]
    for arm in PROTOCOL.arms:
        ends = [percent(held_out_end(each), 2) for each in rows if each["arm"] == arm]
        assert cells(block, arm) == [arm, *ends]
    assert cells(block, "start, every arm")[1:] == ["4.00", "4.10", "4.20", "4.30"]


def test_the_answer_shows_gain_paired_difference_and_p_over_two_families() -> None:
    ends = {"8/0": (0.10, 0.12), "4/4 positive": (0.15, 0.16), "4/4 both": (0.09, 0.10)}
    rows = [row(arm, 100 + n, end=end) for arm, pair in ends.items() for n, end in enumerate(pair)]
    block = render(rows, PROTOCOL)["answer"]
    first, second = block.split("against each control")
    # Differences 5 and 4 points: 4.5 ± 12.706 × 0.5; t = 9, p = 0.0704, six arms in the family.
    positive = cells(first, "4/4 positive")
    assert positive[1:3] == ["4.0 → 15.5", "+11.5 (+5.1 to +17.9)"]
    assert positive[3:] == ["+4.5 (−1.9 to +10.9)", "0.423"]
    assert cells(first, "8/0")[3:] == ["–", "–"]
    assert cells(first, "8/0 positive")[1:] == ["not run", "–", "–", "–"]
    # Differences 6 and 6 points.
    assert cells(second, "4/4 both")[1:3] == ["4.0 → 9.5", "+6.0 (+6.0 to +6.0)"]
    assert "Over 2 seeds (100, 101), 200 rounds; 4 seeds were planned; 8/0 positive has 0" in block


def test_an_arm_that_lacks_seeds_is_compared_over_those_that_both_have() -> None:
    rows = [row("8/0", seed, end=seed / 1000) for seed in (100, 101, 102)]
    rows += [row("4/4 both", seed, end=seed / 1000 + 0.02) for seed in (102, 101)]
    block = render(rows, PROTOCOL)["answer"]
    assert cells(block, "4/4 both")[3].startswith("+2.0 (")
    assert cells(block, "4/4 both")[3].endswith("), 2 seeds")
    assert "4/4 both has 2" in block


def test_the_chosen_rate_is_bold_and_an_edge_and_another_use_are_told() -> None:
    rows = [
        row("8/0", seed, end=end, rate=rate, stage="development")
        for rate, end in ((1e-4, 0.1), (3e-4, 0.2), (1e-3, 0.3))
        for seed in PROTOCOL.development_seeds
    ]
    block = render([*rows, row("8/0", rate=3e-4)], PROTOCOL)["rates"]
    middle, high, chosen = cells(block, "8/0")[2:]
    assert middle == "20.0 (20.0, 20.0, 20.0)"
    assert high == "**30.0** (30.0, 30.0, 30.0)"
    assert chosen == "1e-3, at the edge of the grid; main runs used 3e-4"
    assert cells(block, "4/4 both")[1:] == ["–", "–", "–", "runs are missing"]
    assert "**" not in cells(render(rows[1:], PROTOCOL)["rates"], "8/0")[2]


def test_a_task_is_bold_where_the_interval_lies_above_the_best_constant_answer() -> None:
    rows = [row("8/0", seed, end=0.5 + seed / 1e4) for seed in (100, 101)]
    rows += [row("4/4 both", seed, end=0.055 + (seed - 100) / 10) for seed in (100, 101)]
    known, unknown = (cells(render(rows, PROTOCOL)["tasks"], f"`{t}`") for t in PROTOCOL.tasks)
    assert known[1:] == ["5.0", "**4.0 → 51.0**", "4.0 → 10.5"]
    assert unknown[1:] == ["–", "4.0 → 51.0", "4.0 → 10.5"]


def test_generated_tokens_are_related_to_the_reference_arm() -> None:
    more = row("4/4 both")
    more["tokens_generated"] *= 1.5
    assert cells(render([row(), more], PROTOCOL)["costs"], "4/4 both")[5:7] == ["185,184", "1.50"]
    assert cells(render([more], PROTOCOL)["costs"], "4/4 both")[6] == "–"


def test_the_commonest_answers_are_added_up_over_seeds() -> None:
    rows = [row("8/0", 100), row("8/0", 101), row("4/4 both", 100)]
    rows[1]["common"] = {
        task: {"start": answers(None, 3), "end": {**answers(0.8), "answers": [("a", 50, 50)]}}
        for task in PROTOCOL.tasks
    }
    block = render(rows, PROTOCOL)["common"]
    assert cells(block, "8/0")[1:6] == ["start", "3", "–", "25.0", "–"]
    ends = [line for line in block.splitlines() if line.startswith("| 8/0 | end")]
    assert len(ends) == len(PROTOCOL.tasks)
    assert "| 70.0 | 25.0 | +45.0 | `a` 50 (50 right), `(P ∨ Q)` 20 (18 right)" in ends[0]


def test_the_guard_rail_is_told_by_run_and_round() -> None:
    seen = {"propositional_logic": 57, "calendar_arithmetic": 76}
    rows = [row("4/4 positive", stage="loophole", loophole_seen=seen), row(stage="loophole")]
    block = render(rows, PROTOCOL)["loophole"]
    assert cells(block, "4/4 positive")[6] == "57"
    assert cells(block, "8/0")[3:7] == ["– → 60.0", "25.0 → 25.0", "– → +35.0", "not seen"]
    assert "best constant answer" not in block
    known = dataclasses.replace(PROTOCOL, baselines={"propositional_logic": 1.0})
    assert "answer succeeds on 100.0 % of the questions" in render(rows, known)["loophole"]
    told = "on other tasks than `propositional_logic` in 4/4 positive, seed 100, "
    assert f"{told}`calendar_arithmetic` (round 76)." in block
    assert (
        "seed 100, `propositional_logic` (round 57)"
        in render([row(loophole_seen=seen)], PROTOCOL)["common"]
    )


def test_mixes_are_compared_over_the_seeds_that_they_have() -> None:
    rows = [row("8/0", seed, end=seed / 1000) for seed in (100, 101, 102, 103)]
    rows += [row("2/6", seed, end=0.11, stage="mixes") for seed in (100, 101)]
    block = render(rows, PROTOCOL)["mixes"]
    assert cells(block, "8/0")[1] == "4.0 → 10.1"
    assert cells(block, "2/6")[3].startswith("+0.9 (")
    assert "Over 2 seeds (100, 101)." in block


def test_p_stands_only_where_the_protocol_tests() -> None:
    blocks = render(whole_study(), PROTOCOL)
    assert blocks["answer"].count("p (Holm)") == 2
    assert not any("p (Holm)" in block for name, block in blocks.items() if name != "answer")


def test_long_runs_are_shown_at_their_quarters_and_compared() -> None:
    block = render(whole_study(), PROTOCOL)["long"]
    head = ["arm", "seed", "start", "round 95", "round 209", "round 304", "last tenth"]
    assert cells(block, "arm") == head
    assert cells(block, "8/0")[2:] == ["4.0", "7.8", "12.4", "16.2", "20.0"]
    assert "| +3.0 (" in block


@pytest.mark.parametrize("stage", ["development", "main", "mixes", "long", "loophole", None])
def test_a_study_of_which_a_part_was_run_renders(stage: str | None) -> None:
    rows = [each for each in whole_study() if each["stage"] == stage]
    for some in (rows, rows[:1]):
        blocks = render(some, PROTOCOL)
        own = {
            "development": {"rates"},
            "main": {"answer", "raw", "tasks", "costs", "selection", "forgetting", "common"},
        }.get(str(stage), {str(stage)})
        assert {name for name, block in blocks.items() if block == "Not run."} == (
            BLOCKS.keys() - own - {"arms"}
        )


def test_what_was_not_measured_is_a_dash_and_no_part_of_a_comparison() -> None:
    rows = [row(seed=seed) for seed in (100, 101)]
    rows += [row("4/4 both", seed, end=end) for seed, end in ((100, math.nan), (101, 0.2))]
    rows[0]["by_task"], rows[0]["common"] = {}, {}
    blocks = render(rows, PROTOCOL)
    assert cells(blocks["answer"], "4/4 both")[1:4] == ["4.0 → 20.0", "+16.0", "+10.0, 1 seed"]
    assert cells(blocks["raw"], "4/4 both")[1:] == ["–", "20.00"]


def test_runs_that_the_protocol_does_not_know_are_refused() -> None:
    with pytest.raises(ValueError, match="no arm '5/3'"):
        render([row("5/3")], PROTOCOL)
    with pytest.raises(ValueError, match="seed 100 comes twice"):
        render([row(), row()], PROTOCOL)
    with pytest.raises(ValueError, match="no arm: 'gold'"):
        dataclasses.replace(PROTOCOL, controls=("gold",))


def test_an_answer_stays_one_code_span_in_one_cell() -> None:
    assert code("(P ∨ Q)") == "`(P ∨ Q)`"
    assert code("a|b\nc\t") == "`a\\|b\\nc\\t`"
    assert code("`x``") == "``` `x`` ```"
    assert code(" a ") == "`␣a␣`"
    assert code("  ") == "`␣␣`"
    assert code("") == "(empty)"
    assert len(code("1" * 500)) == 62
    line = table(("arm", "answers"), [("8/0", ", ".join(code(text) for text, _, _ in ANSWERS))])
    assert len(line.splitlines()) == 3
    assert len(re.findall(r"(?<!\\)\|", line.splitlines()[-1])) == 3


def test_a_table_with_a_line_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="2 cells"):
        table(("a", "b"), [("1",)])


def test_numbers_are_written_for_people() -> None:
    assert [percent(0.1234), percent(1.0), percent(math.nan)] == ["12.3", "100.0", "–"]
    assert [points(0.0123), points(-0.0123), points(-0.0001)] == ["+1.2", "−1.2", "0.0"]
    assert [decimal(-1234.5), decimal(-0.001)] == ["−1,234.50", "0.00"]
    assert [rate(2.5e-4), rate(1e-3)] == ["2.5e-4", "1e-3"]
    assert [p_value(0.0421), p_value(0.0004), p_value(math.nan)] == ["0.042", "< 0.001", "–"]


def main_rows(*arms: str) -> list[Row]:
    return [each for each in whole_study() if each["stage"] == "main" and each["arm"] in arms]


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([], id="nothing"),
        pytest.param(main_rows("8/0"), id="the reference alone"),
        pytest.param(main_rows("4/4 both")[:1], id="one run, not of the reference"),
        pytest.param(main_rows("8/0", "4/4 both")[1:4], id="unequal seeds"),
        pytest.param([row(), row("4/4 both", end=math.nan)], id="not measured"),
        pytest.param(whole_study(), id="whole"),
    ],
)
def test_the_picture_is_drawn_1600_pixels_wide_whatever_was_run(rows: list[Row]) -> None:
    picture = draw(rows, PROTOCOL)
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(picture[16:20], "big") == 1600


def test_equal_rows_give_an_equal_picture_and_other_rows_another() -> None:
    rows = main_rows("8/0", "4/4 both")
    picture = draw(rows, PROTOCOL)
    assert picture == draw(rows[::-1], PROTOCOL)
    assert b"Software" not in picture
    rows[-1]["held_out"]["end"] += 0.01
    assert picture != draw(rows, PROTOCOL)


def test_the_committed_page_is_what_the_committed_rows_say() -> None:
    results = Path(__file__).parents[2] / "docs" / "results"
    rows = json.loads((results / "sharing.json").read_text("utf-8"))
    page = (results / "sharing.md").read_text("utf-8")
    assert fill(page, render(rows, protocol())) == page
    chosen = {row["arm"]: row["learning_rate"] for row in rows if row["stage"] == "main"}
    assert chosen == frozen_rates()
