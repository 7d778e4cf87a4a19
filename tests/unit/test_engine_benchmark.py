"""The whole-round benchmark in short: its questions, its pairs, its counting, its page, a round."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaForCausalLM

from swarmnode.config.policy import PolicySettings
from swarmnode.policy.loading import load_policy
from swarmnode.tasks import LEVELS, Catalogue
from tests.benchmarks import engine_peers, engine_peers_child, engine_peers_ours
from tests.benchmarks.engine_peers_meter import FORWARD, Meter, count_model, matrix_weights
from tests.benchmarks.engine_peers_page import STUDY, fill_page, render
from tests.benchmarks.engine_peers_rows import (
    OURS,
    SWEEP,
    Outcome,
    Phase,
    Run,
    Shape,
    as_json,
    best_micro_batch,
    from_json,
    median_ratio,
    pairs,
    with_run,
)
from tests.benchmarks.engine_peers_work import (
    KEY,
    LEVEL,
    Work,
    questions_of_round,
    tasks_of_round,
)

SHAPE = Shape(24, forced=True)
FIGURES = {
    "peak_mib": 2000.0,
    "sgemm_gflops": 50.0,
    "read_gigabytes": 10.0,
    "weight_bytes": 5e8,
    "completion_tokens": 1536.0,
    "load": 1.0,
    "seconds": 60.0,
}


def a_run(
    contestant: str = OURS,
    cpu: float = 40.0,
    *,
    against: str = "trl",
    pair: int = 0,
    shape: Shape = SHAPE,
    outcome: Outcome = "measured",
    peak: float = 2000.0,
) -> Run:
    phases = {
        "generate": Phase(0.25 * cpu, 0.3 * cpu, 0.5, 24),
        "train": Phase(0.75 * cpu, 0.9 * cpu, 1.0, 8),
    }
    measured = phases if outcome == "measured" else {}
    figures = {**FIGURES, "peak_mib": peak}
    return Run(contestant, against, pair, shape, outcome, measured, figures, "2026-11-30 08:00:00")


def three_pairs() -> list[Run]:
    # Pairs of ratio 3, 2 and 10; the ratio of the medians would be 100 / 40.
    times = [(40.0, 120.0), (50.0, 100.0), (8.0, 80.0)]
    return [
        run
        for pair, (ours, theirs) in enumerate(times)
        for run in (a_run(cpu=ours, pair=pair), a_run("trl-8", theirs, pair=pair, peak=2500.0))
    ]


def test_the_questions_are_those_of_the_nine_tasks() -> None:
    asked = [task for number in range(9) for task in tasks_of_round(tuple(LEVELS), number, 8)]
    assert len(LEVELS) == 9
    assert {asked.count(task) for task in LEVELS} == {8}
    texts = questions_of_round(0, 8)
    catalogue = Catalogue(bytes(32))
    for task, text in zip(list(LEVELS)[:8], texts, strict=True):
        drawn, _ = catalogue.draw(KEY, task, LEVEL, 0, 1)
        assert text == drawn[0].question.text
    assert len({*texts, *questions_of_round(1, 8)}) == 16


def test_a_ratio_is_the_median_over_pairs() -> None:
    found = pairs(three_pairs(), SHAPE, "trl")
    assert [pair.ratio for pair in found] == [3.0, 2.0, 10.0]
    assert median_ratio(found) == 3.0


def test_a_pair_needs_both_runs_at_the_same_shape() -> None:
    half = [a_run(), a_run("trl-8", against="genrl"), a_run("trl-8", shape=Shape(128, False))]
    failed = a_run("trl-8", outcome="out of memory")
    assert pairs([*half, failed], SHAPE, "trl") == []


def test_a_run_survives_its_file_and_takes_the_place_of_its_like(tmp_path: Path) -> None:
    run = a_run()
    assert from_json(json.loads(json.dumps(as_json(run)))) == run
    again = a_run(cpu=30.0)
    assert with_run([run], again) == [again]
    rows = tmp_path / "engine.json"
    rows.write_text('{"other": {"kept": 1}}', "utf-8")
    engine_peers.write_run(rows, run)
    engine_peers.write_run(rows, again)
    assert engine_peers.read_runs(rows) == [again]
    assert engine_peers.read_document(rows)["other"] == {"kept": 1}


def test_the_sweep_chooses_the_fastest_that_fits() -> None:
    runs = [
        a_run("trl-8", 100.0, against=SWEEP),
        a_run("trl-16", 90.0, against=SWEEP),
        a_run("trl-64", against=SWEEP, outcome="out of memory"),
        a_run("trl-4", 10.0),
    ]
    assert best_micro_batch(runs, SHAPE) == "trl-16"
    assert best_micro_batch([], SHAPE) is None


def test_pairs_take_turns_after_the_sweep_and_what_is_done_is_left_out() -> None:
    options = engine_peers.arguments(["--peers", "trl", "genrl", "--pairs", "2", "--sweep", "8"])
    steps = list(engine_peers.steps(options))
    assert steps[0].contestants == ("trl-8",)
    order = [(step.shape.new_tokens, step.against, step.pair) for step in steps[1:]]
    lap = [(24, "trl"), (24, "genrl"), (128, "trl"), (128, "genrl")]
    assert order == [(*each, pair) for pair in (0, 1) for each in lap]
    assert [step.shape.forced for step in steps[1:4]] == [True, True, False]
    swept = [a_run("trl-8", against=SWEEP)]
    first = engine_peers.resolved(steps[1], swept, SHAPE)
    assert first.contestants == (OURS, "trl-8")
    assert not engine_peers.is_done(first, [*swept, a_run()])
    assert engine_peers.is_done(first, [*swept, a_run("trl-8")])
    assert engine_peers.is_done(first, [a_run("trl-8", pair=7, outcome="out of memory")])
    with pytest.raises(LookupError, match="sweep"):
        engine_peers.resolved(steps[1], [], SHAPE)


def test_nothing_is_begun_that_would_outlast_the_minutes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.json"
    for run in (a_run(against="trl-8"), a_run("trl-8", against="trl-8")):
        engine_peers.write_run(rows, run)

    def measured(*_arguments: object) -> Run:
        raise AssertionError("a run was begun")

    monkeypatch.setattr(engine_peers, "measure", measured)
    given = ["--peers", "trl-8", "--tokens", "24", "--minutes", "1.5", "--model", "m"]
    assert engine_peers.main([*given, "--rows", str(rows)]) == 0
    assert "goes on from here" in capsys.readouterr().out


def test_without_genrl_the_others_are_measured_and_it_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(command: list[str], **_: object) -> None:
        raise subprocess.CalledProcessError(1, command, stderr="\nno matching distribution\n")

    def measured(step: engine_peers.Step, contestant: str, *_paths: Path) -> Run:
        return a_run(contestant, against=step.against, pair=step.pair, shape=step.shape)

    monkeypatch.setattr(subprocess, "run", refused)
    monkeypatch.setattr(engine_peers, "measure", measured)
    monkeypatch.setenv("SWARMNODE_CACHE", str(tmp_path))
    rows = tmp_path / "rows.json"
    given = ["--peers", "genrl", "trl-8", "--pairs", "1", "--model", "m", "--rows", str(rows)]
    assert engine_peers.main(given) == 0
    said = capsys.readouterr().err
    assert said == "genrl 0.3.0 can't be had here, so it is left out: no matching distribution\n"
    assert {run.contestant for run in engine_peers.read_runs(rows)} == {OURS, "trl-8"}


def test_a_peer_that_does_not_exist_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("verl", "trl-", "genrl-0", "trl-x"):
        with pytest.raises(SystemExit) as stopped:
            engine_peers.main(["--peers", wrong])
        assert stopped.value.code == 2
    assert "there are trl" in capsys.readouterr().err


def test_the_page_renders_from_rows_and_says_what_missed_its_bound() -> None:
    runs = [
        *three_pairs(),
        a_run(against="genrl", cpu=40.0, peak=3000.0),
        a_run("genrl", 120.0, against="genrl", peak=2900.0),
        a_run("trl-8", 100.0, against=SWEEP),
        a_run("trl-64", against=SWEEP, outcome="out of memory"),
        a_run("trl-8", shape=Shape(24, forced=True, questions=1), pair=9),
    ]
    blocks = render(runs)
    trl, genrl = blocks["ratios"].splitlines()[2:]
    assert "TRL 1.16.0, micro-batch 8 | 3 | **3.00** | 2.00 to 10.00 | 3.00 | 0.80" in trl
    assert "at least 2.5: met; no more memory: met" in trl
    assert "genrl 0.3.0, as it comes | 1 | **3.00**" in genrl
    assert "at least 4: **not met**; no more memory: **not met**" in genrl
    assert "| 24 | swarmnode | 4 | **40.0** | 10.0 | 30.0 | 48.0 |" in blocks["rounds"]
    # 0.5 TFLOP in 10 s at 50 GFLOP/s; 24 readings of 0.5 GB at 10 GB/s; 1 TFLOP in 30 s.
    assert "| 24 | swarmnode | 0.50 | 100 % | 12 % | 1.00 | 67 % |" in blocks["limits"]
    assert "| chosen |" in blocks["sweep"]
    assert "more memory than there is" in blocks["sweep"]
    assert "10 runs, 10 minutes" in blocks["conditions"]
    assert render([])["conditions"] == "Not measured yet."


def test_the_page_of_the_project_has_a_place_for_every_table() -> None:
    page = engine_peers.PAGE.read_text("utf-8")
    filled = fill_page(page, three_pairs())
    assert "**3.00**" in filled
    assert fill_page(filled, three_pairs()) == filled
    with pytest.raises(ValueError, match="ratios"):
        fill_page(page.replace(f"<!-- {STUDY}:ratios -->", ""), three_pairs())


def test_the_pages_tables_are_those_of_its_rows() -> None:
    page = engine_peers.PAGE.read_text("utf-8")
    assert fill_page(page, engine_peers.read_runs(engine_peers.ROWS)) == page


def test_products_are_counted_forward_backward_and_when_recomputed() -> None:
    config = LlamaConfig(
        vocab_size=11,
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    model = LlamaForCausalLM(config)
    body = sum(matrix_weights(layer) for layer in model.model.layers)
    head = model.lm_head.weight.numel()
    meter = Meter()
    count_model(meter, model)
    ids = torch.zeros(2, 5, dtype=torch.long)
    meter.start()
    model(ids).logits.sum().backward()
    forward = FORWARD * 10 * (body + head)
    assert meter.phases()["train"].tera_flops == pytest.approx(3 * forward * 1e-12)
    model.activation_checkpointing_enable()
    model.train()
    model(ids).logits.sum().backward()
    again = FORWARD * 10 * body
    assert meter.phases()["train"].tera_flops == pytest.approx((6 * forward + again) * 1e-12)
    model.eval()
    model.generate(ids, max_new_tokens=3, min_new_tokens=3, do_sample=False)
    meter.stop()
    generate = meter.phases()["generate"]
    # The prompts, then two tokens a row; the head sees the last places alone.
    expected = FORWARD * (body * (10 + 4) + head * 6)
    assert generate.tera_flops == pytest.approx(expected * 1e-12)
    assert generate.passes == 3
    all_of_it = meter.phases()
    model(ids)
    model.generate(ids, max_new_tokens=1, do_sample=False)
    assert meter.phases() == all_of_it


def test_our_round_trains_on_every_group_and_counts_what_it_did() -> None:
    policy = load_policy(PolicySettings(), seed=0)
    before = [one.clone() for one in policy.parameters()]
    work = Work(OURS, "", ("Calculate 1 + 1.", "Calculate 12 + 30."), 4, 6, True, 1, 0)
    meter = Meter()
    figures = engine_peers_ours.measure_policy(policy, work, meter)
    prompts = [len(policy.encode_prompt(text)) for text in work.prompts]
    assert figures["completion_tokens"] == 2 * 4 * 6
    assert figures["prompt_tokens"] == sum(prompts)
    assert figures["grad_norm"] > 0
    assert any(not torch.equal(a, b) for a, b in zip(before, policy.parameters(), strict=True))
    phases = meter.phases()
    head = policy.head_weight.numel()
    body = sum(matrix_weights(each) for each in _layers(policy.model))
    sampled = body * (sum(prompts) + 40) + head * (2 + 40)
    assert phases["generate"].tera_flops == pytest.approx(FORWARD * sampled * 1e-12)
    least = 3 * FORWARD * body * (sum(prompts) + 40)
    assert phases["train"].tera_flops > least * 1e-12
    assert all(phase.cpu_seconds > 0 for phase in phases.values())


def _layers(model: nn.Module) -> list[nn.Module]:
    return [each for name, each in model.named_modules() if name.startswith("model.layers.")
            and name.count(".") == 2]  # fmt: skip


WORK = Work(OURS, "nowhere", ("1 + 1",), 2, 4, True, 1, 0)


def a_program(folder: Path, script: str) -> Path:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    path.chmod(0o700)
    return path


def test_a_contestants_work_reaches_it_and_its_last_line_comes_back(tmp_path: Path) -> None:
    program = a_program(tmp_path, "echo chatter; cat; echo")
    answer = engine_peers_child.run_contestant(WORK, program)
    assert answer.result == json.loads(WORK.to_json())


def test_a_contestant_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    program = a_program(tmp_path, "echo no such model >&2; exit 3")
    with pytest.raises(engine_peers_child.Failed, match=r"swarmnode ended with 3:\nno such model"):
        engine_peers_child.run_contestant(WORK, program)


def test_a_contestant_is_ended_before_memory_runs_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(engine_peers_child, "LEAST_AVAILABLE_BYTES", float("inf"))
    answer = engine_peers_child.run_contestant(WORK, a_program(tmp_path, "exec sleep 60"))
    assert answer.result is None
    assert answer.peak_mib > 0
    assert answer.seconds < 30
