"""Pre-training: the step, every scheduler, kill and resume, the report, the command line."""

from __future__ import annotations

import json
import math
import resource
import signal
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from swarmnode.cli import main
from swarmnode.cli.exits import Exit
from swarmnode.cli.start_screen import StartScreen
from swarmnode.config.scheduling import Kind
from swarmnode.config.settings import SettingsError, load_settings
from swarmnode.observe.metrics import METRICS
from swarmnode.pretraining.corpus import END_ID, open_corpus
from swarmnode.pretraining.export import END, byte_tokenizer
from swarmnode.pretraining.folder import OtherSettings, Row, RunFolder
from swarmnode.pretraining.model import ByteModel
from swarmnode.pretraining.prepare import Cut, prepared
from swarmnode.pretraining.report import write_report
from swarmnode.pretraining.run import sources_of
from swarmnode.pretraining.sources import CorpusError
from swarmnode.pretraining.summary import summarize
from swarmnode.pretraining.trainer import Trainer
from swarmnode.progress import Step
from swarmnode.scheduling.fixed import Static
from swarmnode.scheduling.scheduler import Outcome, State
from tests.unit.checkpoint_support import limited
from tests.unit.pretraining_support import SMALL, Killed, run_small, settings_for, write_corpus


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_corpus(tmp_path)


def timeless(rows: list[Row]) -> list[Row]:
    return [replace(row, seconds={}) for row in rows]


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_scheduler_trains_and_draws_by_its_shares(texts: Path, kind: str) -> None:
    finished = run_small(texts, texts.parent / "out", f"scheduling.kind={kind}")
    rows = [row for row in finished.rows if row.step]
    assert finished.complete
    assert [row.step for row in rows] == list(range(1, 21))
    for row in rows:
        assert math.fsum(row.shares) == pytest.approx(1.0)
        assert min(row.sequences) >= 1
        assert sum(row.sequences) == 8
        assert set(row.metrics) <= {name for name in row.metrics if _documented(name)}
    validated = [sum(row.validation) for row in finished.rows if row.validation]
    assert len(validated) == 5
    assert validated[-1] < validated[0]
    assert finished.rows[-1].metrics.get("scheduler/non_finite") == 0.0


def _documented(name: str) -> bool:
    return name in METRICS or name.rpartition("/")[0] in METRICS


@pytest.mark.parametrize("kind", ["hds", "ac-odm", "odm"])
def test_a_killed_run_goes_on_as_if_it_had_not_been(texts: Path, kind: str) -> None:
    # The checkpoint that it goes on from is one of a step that ended with a validation.
    chosen = (
        f"scheduling.kind={kind}",
        "pretraining.state_losses=validation",
        "pretraining.validate_every=4",
    )
    whole = run_small(texts, texts.parent / "whole", *chosen)
    with pytest.raises(Killed):
        run_small(texts, texts.parent / "killed", *chosen, kill_after=14)
    torch.manual_seed(99)  # another process has another generator
    again = run_small(texts, texts.parent / "killed", *chosen)
    assert timeless(list(again.rows)) == timeless(list(whole.rows))
    one, two = (
        load_file(texts.parent / out / "model" / "model.safetensors") for out in ("whole", "killed")
    )
    assert all(torch.equal(tensor, two[name]) for name, tensor in one.items())


def test_a_run_that_was_killed_before_a_checkpoint_begins_anew(texts: Path) -> None:
    whole = run_small(texts, texts.parent / "whole")
    with pytest.raises(Killed):
        run_small(texts, texts.parent / "killed", kill_after=2)
    again = run_small(texts, texts.parent / "killed")
    assert timeless(list(again.rows)) == timeless(list(whole.rows))


def test_a_run_that_was_asked_to_stop_keeps_its_last_step_and_goes_on(texts: Path) -> None:
    out = texts.parent / "out"
    stopped = run_small(texts, out, stop=True)
    assert not stopped.complete
    assert [row.step for row in stopped.rows] == [0, 1]
    again = run_small(texts, out)
    assert again.complete
    assert [row.step for row in again.rows] == list(range(21))
    assert timeless(list(run_small(texts, out).rows)) == timeless(list(again.rows))


def test_another_runs_folder_is_refused(texts: Path) -> None:
    out = texts.parent / "out"
    run_small(texts, out, stop=True)
    with pytest.raises(OtherSettings, match="holds a run with other settings or texts"):
        run_small(texts, out, "pretraining.seed=1")


def test_a_torn_last_row_is_left_out(texts: Path) -> None:
    out = texts.parent / "out"
    run_small(texts, out, stop=True)
    with (out / "rows.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 2, "sha')
    assert [row.step for row in RunFolder(out).rows()] == [0, 1]


class Watching(Static):
    """Static shares, and every outcome that was told."""

    def __init__(self, weights: list[float]) -> None:
        super().__init__(weights)
        self.outcomes: list[Outcome] = []
        self.states: list[State] = []

    def weights(self, state: State) -> tuple[float, ...]:
        self.states.append(state)
        return tuple(super().weights(state))

    def update(self, outcome: Outcome) -> dict[str, float]:
        self.outcomes.append(outcome)
        return {}


def trainer(texts: Path, scheduler: Watching, *assignments: str) -> tuple[Trainer, ByteModel]:
    settings = settings_for(texts, *assignments)
    chosen = settings.pretraining
    cut = Cut(chosen.context, chosen.validation_sequences, 0)
    folder = prepared(sources_of(settings, texts.parent), cut, texts.parent / "cache")
    model = ByteModel(chosen.model, chosen.context, chosen.seed)
    domains = open_corpus(folder, chosen.context)
    return Trainer(model, domains, scheduler, chosen, gradients=True), model


def test_what_the_scheduler_is_told_is_what_the_step_did(texts: Path) -> None:
    watching = Watching([0.5, 0.25, 0.25])
    training, model = trainer(texts, watching, "pretraining.sequences_at_once=2")
    before = [p.detach().clone() for p in model.watched()]
    step = training.step()
    (told,) = watching.outcomes
    assert told.samples == tuple(map(float, step.sequences))
    assert told.weights == pytest.approx((1 / 8 + 5 / 16, 1 / 8 + 5 / 32, 1 / 8 + 5 / 32))
    assert told.losses == step.losses
    assert all(loss == pytest.approx(math.log(257), abs=0.3) for loss in step.losses if loss)
    assert all(d is not None and 1.0 < d < 150.0 for d in told.diversity)
    norms = [float(p.detach().norm()) for p in model.watched()]
    assert told.layer_norms == pytest.approx(norms)
    moved = [
        float((p.detach() - old).norm()) for p, old in zip(model.watched(), before, strict=True)
    ]
    assert told.layer_changes == pytest.approx(moved)
    assert set(step.seconds) == {"data", "model", "gradients", "scheduler"}


def test_gradients_by_domain_are_those_of_backward_passes_of_their_own(texts: Path) -> None:
    watching = Watching([1.0, 1.0, 1.0])
    training, model = trainer(texts, watching)
    twin, _ = trainer(texts, Watching([1.0, 1.0, 1.0]))
    rows, _ = twin._drawn([3, 3, 2])
    alone = []
    for of_domain in rows:
        assert of_domain is not None
        model.module.zero_grad()
        mean = model.loss(torch.from_numpy(of_domain.astype("int64"))) / (len(of_domain) * 16)
        mean.backward()  # type: ignore[no-untyped-call]
        alone.append(torch.cat([p.grad.flatten() for p in model.aligned(()) if p.grad is not None]))
    model.module.zero_grad()
    losses, products = training._learn(rows, [3, 3, 2])
    wanted = torch.stack(alone) @ torch.stack(alone).T
    assert torch.allclose(torch.tensor(products), wanted, rtol=1e-3, atol=1e-6)
    assert None not in losses


def test_a_step_is_one_of_the_whole_batch(texts: Path) -> None:
    """Adding up domain by domain, and a few rows at once, changes no gradient."""
    found = []
    for at_once in (1, 16):
        watching = Watching([1.0, 1.0, 1.0])
        training, model = trainer(texts, watching, f"pretraining.sequences_at_once={at_once}")
        for _ in range(2):
            training.step()
        found.append(torch.cat([p.detach().flatten() for p in model.module.parameters()]))
    assert torch.allclose(found[0], found[1], atol=1e-5)


def test_runs_of_a_seed_read_each_domain_in_the_same_order(texts: Path) -> None:
    one, _ = trainer(texts, Watching([1.0, 1.0, 1.0]))
    two, _ = trainer(texts, Watching([1.0, 1.0, 1.0]))
    first = one._drawn([4, 2, 2])[0][0]
    _, second = two._drawn([1, 0, 0]), two._drawn([3, 0, 0])[0][0]
    assert first is not None
    assert second is not None
    assert first[1:].tolist() == second.tolist()


def test_a_floor_of_none_leaves_domains_out_of_what_is_told(texts: Path) -> None:
    watching = Watching([1.0, 0.0, 1.0])
    training, _ = trainer(texts, watching, "pretraining.floor_sequences=0")
    step = training.step()
    (told,) = watching.outcomes
    assert step.sequences[1] == 0
    assert told.losses[1] is told.diversity[1] is told.gradient_products[1][0] is None
    assert told.gradient_products[0][2] is not None


def test_a_state_of_validation_losses_changes_only_where_there_was_a_validation(
    texts: Path,
) -> None:
    watching = Watching([1.0, 1.0, 1.0])
    training, _ = trainer(
        texts,
        watching,
        "pretraining.state_losses=validation",
        "pretraining.loss_smoothing=0",
    )
    first = training.validate()
    for _ in range(3):
        training.step()
    second = training.validate()
    for _ in range(2):
        training.step()
    seen = [state.losses for state in watching.states]
    assert seen == [(None,) * 3, first, first, first, second]


@pytest.mark.parametrize(("schedule", "last"), [("constant", 1e-2), ("cosine", 0.1e-2)])
def test_the_learning_rate_rises_and_stays_or_falls(
    texts: Path, schedule: str, last: float
) -> None:
    finished = run_small(
        texts,
        texts.parent / "out",
        "pretraining.learning_rate=0.01",
        f"pretraining.learning_rate_schedule={schedule}",
        "pretraining.rise_steps=4",
    )
    rates = [row.learning_rate for row in finished.rows[1:]]
    assert rates[0] == pytest.approx(0.0025)
    assert max(rates) == pytest.approx(0.01, rel=0.06)
    assert rates[-1] == pytest.approx(last, rel=0.1)


def test_the_report_says_what_the_rows_say(texts: Path) -> None:
    out = texts.parent / "out"
    settings = settings_for(texts, "scheduling.kind=hds")
    finished = run_small(texts, out, "scheduling.kind=hds")
    page = write_report(out, finished, settings, "swarmnode pretrain <here>").read_text("utf-8")
    told = json.loads((out / "summary.json").read_text("utf-8"))
    last = finished.rows[-1].validation
    assert last is not None
    assert told["validation"]["macro"][-1] == pytest.approx(sum(last) / 3, rel=1e-5)
    mixture = sum(a * b for a, b in zip(finished.static, last, strict=True))
    assert told["validation"]["mixture"][-1] == pytest.approx(mixture, rel=1e-5)
    assert sum(told["read"]) == 20 * 8
    overhead = summarize(finished.rows, finished.static).overhead
    assert told["overhead"] == pytest.approx(overhead, rel=1e-4)
    assert "swarmnode pretrain &lt;here&gt;" in page
    assert "<svg" in page
    assert "http" not in page
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    stopped = replace(finished, complete=False)
    assert "Stopped at step 20" in write_report(out, stopped, settings, "").read_text("utf-8")


def test_transformers_loads_the_model_and_its_tokenizer(texts: Path) -> None:
    out = texts.parent / "out"
    run_small(texts, out, stop=True)
    tokenizer = AutoTokenizer.from_pretrained(out / "model")
    text = "naïve\tß €\n"
    assert tokenizer(text)["input_ids"] == list(text.encode())
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert tokenizer.eos_token_id == END_ID == byte_tokenizer().token_to_id(END)
    model = AutoModelForCausalLM.from_pretrained(out / "model")
    rows = torch.randint(0, 256, (2, 17))
    native = ByteModel(settings_for(texts).pretraining.model, 16, 0)
    native.module.load_state_dict(model.state_dict())
    with torch.no_grad():
        logits = model(rows[:, :-1]).logits
        wanted = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), rows[:, 1:].flatten(), reduction="sum"
        )
        assert native.loss(rows) == pytest.approx(float(wanted), rel=1e-4)


@pytest.mark.parametrize(
    ("assignments", "line"),
    [
        (["pretraining.floor_sequences=3"], "for 3 domains are more than the 8 sequences"),
        (["pretraining.model.heads=3"], "no multiple of twice the 3 heads"),
        (["pretraining.alignment_layers=[2]"], "counted from 0 to 1"),
    ],
)
def test_settings_that_contradict_one_another_are_one_line(
    texts: Path, assignments: list[str], line: str
) -> None:
    with pytest.raises(SettingsError, match=line):
        settings_for(texts, *assignments)


@pytest.mark.parametrize("name", ["..", ".", "a/b", "corpus.json", "-x", "a" * 41])
def test_a_domain_is_called_what_a_folder_can_be_called(texts: Path, name: str) -> None:
    texts.write_text(texts.read_text("utf-8").replace('"animals"\n', f'"{name}"\n', 1), "utf-8")
    with pytest.raises(SettingsError, match=r"pretraining\.domains"):
        load_settings(file=texts)


def test_two_domains_of_one_name_are_refused(texts: Path) -> None:
    twice = texts.read_text("utf-8").replace('"numbers"\n', '"animals"\n', 1)
    texts.write_text(twice, encoding="utf-8")
    with pytest.raises(SettingsError, match="the same name"):
        load_settings(file=texts)


def test_shares_for_another_number_of_domains_are_refused(texts: Path) -> None:
    with pytest.raises(CorpusError, match="2 shares for 3 domains"):
        run_small(texts, texts.parent / "out", "scheduling.static_weights=[1,2]")


def command(monkeypatch: pytest.MonkeyPatch, texts: Path, *arguments: str) -> int:
    """What the command ends with."""
    monkeypatch.setenv("SWARMNODE_HOME", str(texts.parent / "home"))
    small = [f"--set={each}" for each in SMALL]
    monkeypatch.setattr("sys.argv", ["swarmnode", "pretrain", str(texts), *small, *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_the_command_trains_tells_and_goes_on(
    texts: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(texts.parent / "out")
    chosen = ("--out", out, "--steps", "6", "--scheduler", "odm", "--seed", "3")
    assert command(monkeypatch, texts, *chosen) == Exit.OK
    told = capsys.readouterr().out
    assert "animals, numbers, colours" in told
    assert "scheduler odm" in told
    assert "report: " in told
    assert command(monkeypatch, texts, *chosen, "--json") == Exit.OK
    again = capsys.readouterr()
    assert "going on after step 6" in again.err
    assert json.loads(again.out)["settings"]["pretraining"]["seed"] == 3


def test_how_far_the_texts_are_is_shown_and_a_stop_leaves_nothing_half_prepared(
    texts: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("swarmnode.progress.LEAST_SECONDS", 0.0)
    chosen = ("--out", str(texts.parent / "out"), "--steps", "1")
    show = StartScreen.show

    def stopped(screen: StartScreen, step: Step | None) -> None:
        show(screen, step)
        if step is not None and step.what == "preparing texts":
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(StartScreen, "show", stopped)
        assert command(patched, texts, *chosen) == Exit.INTERRUPTED
    assert not list((texts.parent / "home" / "cache" / "corpora").iterdir())
    assert not (texts.parent / "out").exists()
    capsys.readouterr()
    assert command(monkeypatch, texts, *chosen) == Exit.OK
    told = capsys.readouterr()
    assert "starting: setting texts apart for validation, " in told.err
    assert "starting: preparing texts, " in told.err
    assert "starting" not in told.out


def test_a_disk_that_takes_no_more_keeps_what_was_trained(
    texts: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = texts.parent / "out"
    chosen = ("--out", str(out), "--steps", "1")
    assert command(monkeypatch, texts, *chosen) == Exit.OK
    rows = (out / "rows.jsonl").read_bytes()
    capsys.readouterr()
    with limited(resource.RLIMIT_FSIZE, 256):
        assert command(monkeypatch, texts, *chosen) == Exit.FAILURE
    assert (out / "rows.jsonl").read_bytes() == rows
    line = capsys.readouterr().err
    assert f"File too large; what was trained is kept in {out}, make room" in line
    assert line.count("\n") == 1


def test_a_users_mistake_is_one_line_with_its_code(
    texts: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(texts.parent / "out")
    assert command(monkeypatch, texts, "--out", out, "--steps", "1") == Exit.OK
    (texts.parent / "few.toml").write_text("", encoding="utf-8")
    wrong = texts.parent / "wrong.toml"
    wrong.write_text(texts.read_text("utf-8").replace('"animals"\n', '"nowhere"\n'), "utf-8")
    for file, more, code, line in (
        (texts, ["--steps", "2"], Exit.CONFIG, "other settings or texts"),
        (texts.parent / "few.toml", [], Exit.CONFIG, "fewer than two domains"),
        (texts.parent / "none.toml", [], Exit.CONFIG, "cannot be read"),
        (wrong, [], Exit.CONFIG, "nowhere is not there"),
        (texts, ["--scheduler", "best"], Exit.USAGE, "scheduling.kind = 'best'"),
        (texts, ["--steps", "0"], Exit.USAGE, "pretraining.steps = 0"),
    ):
        capsys.readouterr()
        assert command(monkeypatch, file, "--out", out, *more) == code
        told = capsys.readouterr().err.splitlines()
        assert len(told) == 1
        assert line in told[0]
