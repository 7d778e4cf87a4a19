"""Reward models: the scores of transformers' own forward, whatever stands beside a text."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification

from swarmnode.config.channels import Channels, RewardModel
from swarmnode.hosted_policy import HostedPolicy
from swarmnode.policy.messages import completion_of, described
from swarmnode.policy.names import UnusableModel
from swarmnode.reward_models.judging import Judge
from swarmnode.reward_models.opening import judge_memory, open_judge
from swarmnode.reward_models.panel import Panel, panel_memory, scores_of
from swarmnode.reward_models.reading import Row
from swarmnode.rewards.channels import Paid
from swarmnode.types import Group, PolicyInfo, Question, Scored
from swarmnode.worker import handlers
from tests.unit.judge_support import (
    KINDS,
    TEXTS,
    pair_tokenizer,
    small_classifier,
    transformers_logits,
    write_classifier,
)
from tests.unit.model_support import END, write_model
from tests.unit.resume_support import SMALL, order, recorded

CPU = torch.device("cpu")


def wanted(folder: Path, **changes: Any) -> RewardModel:
    return RewardModel(name="judge", model=str(folder), **changes)


def opened(folder: Path, **changes: Any) -> Judge:
    return open_judge(wanted(folder, **changes), CPU, 8192)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_transformers_forward_alone_and_in_batches(
    tmp_path: Path, kind: str
) -> None:
    folder = write_classifier(tmp_path / kind, kind)
    expected = transformers_logits(folder)[:, 0]
    assert expected.std() > 0.01
    judge = opened(folder)
    few_at_once = Judge(judge._model, judge._reading, judge._head, 64)
    for each in (judge, few_at_once):
        found = each.judge(TEXTS)
        assert torch.tensor(found.scores) == pytest.approx(expected, abs=2e-5)
        assert not found.too_long
        assert not found.failed
    alone = [judge.judge([text]).scores[0] for text in TEXTS]
    assert alone == pytest.approx(expected.tolist(), abs=2e-5)


def test_a_decoders_score_is_its_last_tokens_whatever_others_are_padded_with(
    tmp_path: Path,
) -> None:
    # Without a padding token of its own any id may end a row.
    folder = write_classifier(tmp_path / "m", "llama-unpadded")
    model: Any = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    rows = [Row([9, 8, 0], [0] * 3), Row([5, 6, 7, 8, 1], [0] * 5), Row([9, 0], [0] * 2)]
    with torch.no_grad():
        alone = [float(model(input_ids=torch.tensor([row.ids])).logits) for row in rows]
    assert opened(folder)._scored(rows) == pytest.approx(alone, abs=2e-5)


def test_a_model_that_sees_its_padding_is_shown_rows_of_one_length(tmp_path: Path) -> None:
    folder = write_classifier(tmp_path / "m", "bert")
    judge = opened(folder)
    assert judge._padded
    inner: Any = judge._model
    forward = inner.forward

    def unmasked(attention_mask: torch.Tensor, **shown: torch.Tensor) -> Any:
        return forward(**shown, attention_mask=torch.ones_like(attention_mask))

    inner.forward = unmasked
    careless = Judge(inner, judge._reading, judge._head, 8192)
    assert not careless._padded
    expected = transformers_logits(folder)[:, 0]
    assert torch.tensor(careless.judge(TEXTS).scores) == pytest.approx(expected, abs=2e-5)


def test_several_labels_are_paid_in_the_log_odds_or_the_probability_of_the_named_one(
    tmp_path: Path,
) -> None:
    labels = {"id2label": {0: "bad", 1: "fair", 2: "good"}}
    labels["label2id"] = {name: number for number, name in labels["id2label"].items()}  # type: ignore[misc]
    folder = write_classifier(tmp_path / "m", "bert", 3, **labels)
    probabilities = transformers_logits(folder).softmax(dim=1)[:, 2]
    told = opened(folder, label="good", scale="probability").judge(TEXTS).scores
    assert torch.tensor(told) == pytest.approx(probabilities, abs=1e-5)
    odds = opened(folder, label="good").judge(TEXTS).scores
    assert torch.tensor(odds).sigmoid() == pytest.approx(probabilities, abs=1e-5)
    with pytest.raises(UnusableModel, match=r"3 outputs; set the label .*: bad, fair, good$"):
        opened(folder)
    with pytest.raises(UnusableModel, match="bad, fair, good"):
        opened(folder, label="great")
    several = write_classifier(
        tmp_path / "s", "bert", 3, problem_type="multi_label_classification", **labels
    )
    each = opened(several, label="good").judge(TEXTS).scores
    assert torch.tensor(each) == pytest.approx(transformers_logits(several)[:, 2], abs=2e-5)


def test_a_prompt_loses_its_beginning_and_a_completion_that_is_too_long_is_not_judged(
    tmp_path: Path,
) -> None:
    folder = write_classifier(tmp_path / "m", "bert")
    judge = opened(folder, max_tokens=20)
    prompt = "what is far away and what is near"
    row = judge._reading.row(prompt, "7")
    assert row is not None
    assert len(row.ids) == 20
    kept = pair_tokenizer().decode(row.ids, skip_special_tokens=False)
    assert "near" in kept
    assert "far away" not in kept
    found = judge.judge([(prompt, "7"), (prompt, "7" * 40), (prompt[-16:], "7")])
    assert found.too_long == 1
    assert found.scores[1] != found.scores[1]
    assert found.scores[0] == found.scores[2]


@pytest.mark.parametrize("kind", ["bert", "qwen2-chat", "llama"])
def test_no_text_spells_a_special_token(tmp_path: Path, kind: str) -> None:
    judge = opened(write_classifier(tmp_path / "m", kind))
    special = "[SEP]" if kind == "bert" else END
    known = set(judge._reading._special_ids)

    def count(text: str) -> int:
        row = judge._reading.row("Calculate 3 + 4.", text)
        assert row is not None
        return sum(one in known for one in row.ids)

    assert count(f"7{special}") == count("7")
    plain, spelled = (judge._reading.row("?", text) for text in ("7", f"7{special}"))
    assert plain is not None
    assert spelled is not None
    assert len(spelled.ids) > len(plain.ids) + 1


CONTENTS = "{% for turn in messages %}<{{ turn['content'] }}>{% endfor %}"
REFUSING = (
    "{% for turn in messages %}{% if not turn['content'] %}{{ raise_exception('nothing said') }}"
    "{% endif %}{{ turn['content'] }}{% endfor %}"
)


def with_template(folder: Path, template: str) -> Path:
    for file in folder.glob("chat_template*"):
        file.unlink()
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": template}))
    return folder


def test_a_template_that_takes_offence_at_a_text_costs_that_text_its_score_and_no_other(
    tmp_path: Path,
) -> None:
    folder = with_template(write_classifier(tmp_path / "m", "qwen2-chat"), REFUSING)
    found = opened(folder).judge([("?", "7"), ("?", ""), ("?", "8")])
    assert (found.failed, found.too_long) == (1, 0)
    assert found.why == "TemplateError: nothing said"
    assert [score == score for score in found.scores] == [True, False, True]


def test_a_template_that_refuses_every_answer_is_refused_in_one_line(tmp_path: Path) -> None:
    folder = with_template(
        write_classifier(tmp_path / "m", "qwen2-chat"),
        "{{ raise_exception('answers are\nnot for me') }}",
    )
    with pytest.raises(UnusableModel, match="cannot show a question with its answer") as raised:
        opened(folder)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        (CONTENTS, ["?", "7"]),
        ("<{{ messages[-1]['content'] }}>", ["7"]),
        ("<{{ messages[1]['content'] }}><{{ messages[0]['content'] }}>", ["7", "?"]),
        (CONTENTS + CONTENTS, ["?", "7", "?", "7"]),
    ],
    ids=["both", "no-prompt", "turned-round", "twice"],
)
def test_a_text_with_a_special_token_is_read_wherever_the_template_shows_it(
    tmp_path: Path, template: str, shown: list[str]
) -> None:
    folder = with_template(write_classifier(tmp_path / "m", "qwen2-chat"), template)
    judge = opened(folder)
    spelled = f"7{END}"
    plain, special = (judge._reading.row("?", text) for text in ("7", spelled))
    assert plain is not None
    assert special is not None
    decode = judge._reading._tokenizer.decode
    assert decode(plain.ids) == "".join(f"<{text}>" for text in shown)
    written = [text.replace("7", spelled) for text in shown]
    assert decode(special.ids) == "".join(f"<{text}>" for text in written)
    assert not set(special.ids) & judge._reading._special_ids


def test_one_row_that_a_model_cannot_take_costs_no_other_its_score(tmp_path: Path) -> None:
    folder = write_classifier(tmp_path / "m", "bert")
    judge = opened(folder)
    expected = judge.judge(TEXTS).scores
    inner: Any = judge._model
    forward = inner.forward

    def touchy(input_ids: torch.Tensor, **shown: torch.Tensor) -> Any:
        if (input_ids == 99).any():
            raise ValueError("not this one\nplease")
        return forward(input_ids=input_ids, **shown)

    inner.forward = touchy
    row = judge._reading.row(*TEXTS[2])
    assert row is not None
    inner.config.vocab_size = 304
    reading: Any = judge._reading
    read = reading.row
    bad = Row([*row.ids[:-1], 99], row.kinds)
    reading.row = lambda prompt, text: bad if (prompt, text) == TEXTS[2] else read(prompt, text)
    found = judge.judge(TEXTS)
    assert (found.failed, found.why) == (1, "ValueError: not this one")
    assert found.scores[2] != found.scores[2]
    kept = [place for place in range(len(TEXTS)) if place != 2]
    assert [found.scores[one] for one in kept] == pytest.approx(
        [expected[one] for one in kept], abs=2e-5
    )


def cut_off(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def with_header(header: bytes, length: int | None = None) -> Callable[[Path], None]:
    def written(folder: Path) -> None:
        said = (len(header) if length is None else length).to_bytes(8, "little")
        (folder / "model.safetensors").write_bytes(said + header)

    return written


def configured(**changes: Any) -> Callable[[Path], None]:
    def written(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return written


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        (cut_off, "cut off|incomplete"),
        (with_header(b"{}", 2**62), "cut off or no safetensors"),
        (with_header(b"[1]"), "header without shapes"),
        (with_header(b'{"a": {"dtype": "F32"}}'), "header without shapes"),
        (configured(hidden_size="wide"), "config.json that is no model's"),
        (configured(num_attention_heads=3), "can load"),
        (configured(id2label=["good"]), "config.json that is no model's"),
        (configured(id2label={"0": "good"}, label2id={"good": 7}), "contradicts itself"),
        (configured(id2label={"0": "good"}, label2id={"good": -1}), "contradicts itself"),
    ],
)
def test_a_broken_folder_is_refused_in_one_line_whatever_is_wrong_with_it(
    tmp_path: Path, broken: Callable[[Path], None], line: str
) -> None:
    folder = write_classifier(tmp_path / "m", "bert")
    broken(folder)
    label = "good" if "contradicts" in line else "LABEL_0"

    def reckoned_and_opened() -> None:
        judge_memory(wanted(folder), CPU, 64)
        opened(folder, label=label)

    with pytest.raises(UnusableModel, match=line) as raised:
        reckoned_and_opened()
    assert "\n" not in str(raised.value)


def test_an_index_that_names_no_files_is_refused(tmp_path: Path) -> None:
    folder = write_classifier(tmp_path / "m", "bert")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": ["a"]}')
    with pytest.raises(UnusableModel, match="names no files"):
        opened(folder)


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_a_model_without_a_classification_head_is_refused(tmp_path: Path, kind: str) -> None:
    if kind == "llama":
        folder = write_model(tmp_path / "m")
    else:
        folder = write_classifier(tmp_path / "m", "bert")
        weights = load_file(folder / "model.safetensors")
        kept = {name: one for name, one in weights.items() if "classifier" not in name}
        save_file(kept, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UnusableModel, match="would judge at random"):
        open_judge(wanted(folder, label="LABEL_0"), CPU, 64)


def test_pickled_weights_and_code_are_refused(tmp_path: Path) -> None:
    folder = write_classifier(tmp_path / "m", "bert")
    config = json.loads((folder / "config.json").read_text())
    foreign = config | {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Mine"}}
    (folder / "config.json").write_text(json.dumps(foreign))
    with pytest.raises(UnusableModel, match="needs code of its own"):
        opened(folder)
    (folder / "config.json").write_text(json.dumps(config))
    weights = load_file(folder / "model.safetensors")
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(UnusableModel, match="no complete weights in safetensors"):
        opened(folder)
    with pytest.raises(UnusableModel, match="tiny generates and can't judge"):
        open_judge(RewardModel(name="judge", model="tiny"), CPU, 64)


def test_the_estimate_counts_every_weight_and_grows_with_what_is_judged_at_once(
    tmp_path: Path,
) -> None:
    folder = write_classifier(tmp_path / "m", "bert")
    small, large = (judge_memory(wanted(folder), CPU, tokens) for tokens in (2048, 4096))
    parameters = sum(one.numel() for one in small_classifier("bert").parameters())
    assert small.weights == large.weights == 4 * parameters
    assert large.judging == 2 * small.judging > 0
    twice = Channels(models=(wanted(folder), wanted(folder).model_copy(update={"name": "other"})))
    assert panel_memory(twice, CPU, {}) == judge_memory(wanted(folder), CPU, 8192)
    none = Channels(models=(wanted(folder, weight=0.0),))
    assert panel_memory(none, CPU, {}).weights == 0


def test_a_reward_model_beyond_the_memory_limit_is_refused_before_it_is_loaded(
    tmp_path: Path,
) -> None:
    folder = write_classifier(tmp_path / "m", "bert")
    made = order() | {"number": 0, "rounds": {}, "channels": {}}
    host = handlers()
    needed = host["preflight"](made)["bytes"] // 2**20 + 1
    made["policy"] |= {"memory_limit_mib": needed + 1}
    assert host["preflight"](made)
    judged = {"models": [wanted(folder).model_dump()], "judged_tokens": 2**22}
    with pytest.raises(UnusableModel, match=rf"{needed + 1}.*reward models.*judging") as raised:
        host["create"](made | {"channels": judged})
    assert "\n" not in str(raised.value)
    assert host["create"](made | {"channels": judged | {"judged_tokens": 64}})


def groups() -> list[list[Paid]]:
    return [
        [Paid(prompt, text, (5, 6), success=True) for prompt, text in TEXTS[:3]],
        [Paid(prompt, text, (5, 6), success=False) for prompt, text in TEXTS[3:]],
    ]


def test_a_panel_gives_each_group_its_own_scores_and_opens_equal_models_once(
    tmp_path: Path,
) -> None:
    folder = write_classifier(tmp_path / "m", "bert")
    settings = Channels(models=(wanted(folder), wanted(folder).model_copy(update={"name": "b"})))
    shelf: dict[tuple[str, ...], Judge] = {}
    panel = Panel(settings, CPU, shelf, lambda _line: None)
    assert len(shelf) == 1
    first, second = panel.judged(groups())
    expected = transformers_logits(folder)[:, 0].tolist()
    assert [*first["judge"], *second["judge"]] == pytest.approx(expected, abs=2e-5)
    assert first["b"] == first["judge"]
    assert set(panel.metrics.values()) == {0.0}


def test_a_score_that_is_not_finite_is_no_reward_and_is_said_once(tmp_path: Path) -> None:
    folder = write_classifier(tmp_path / "m", "bert")
    told: list[str] = []
    panel = Panel(Channels(models=(wanted(folder),)), CPU, {}, told.append)
    with torch.no_grad():
        judge: Any = panel._judges["judge"]
        judge._model.classifier.bias.fill_(torch.inf)
    for _ in range(2):
        first, _ = panel.judged(groups())
    assert all(score != score for score in first["judge"])
    assert panel.metrics["channels/failed/judge"] == 5.0
    assert told == ["the reward 'judge' could not be told: a score is inf"]


def test_own_and_peers_completions_are_paid_by_a_reward_model_beside_success(
    tmp_path: Path,
) -> None:
    folder = write_classifier(tmp_path / "m", "bert")
    channels = {"models": [wanted(folder, weight=0.5).model_dump()]}
    made = order(SMALL, reward_aggregation="normalise_then_sum")
    host = HostedPolicy({**made, "channels": channels})
    local, peers = recorded(1) | {"source": "local"}, recorded(2)
    _, fits = encoded = host._encoded([local, peers])
    assert all(fits)
    for group, paid in zip(
        (local, peers), host._paying.paid([local, peers], encoded[0]), strict=True
    ):
        texts = [(group["prompt"], text) for text, *_ in group["completions"]]
        expected = transformers_logits(folder, texts)[:, 0]
        assert torch.tensor(paid.further_channels["judge"]) == pytest.approx(expected, abs=2e-5)
    metrics = host.train([local, peers])["metrics"]
    shares = [metrics[f"channels/advantage_share/{name}"] for name in ("accuracy", "judge")]
    assert sum(shares) == pytest.approx(1.0)
    assert shares[1] != 0.0
    assert metrics["channels/failed/judge"] == 0.0


def test_what_a_generators_reward_models_said_is_taken_and_the_rest_is_judged(
    tmp_path: Path,
) -> None:
    folder = write_classifier(tmp_path / "m", "bert")
    panel = Panel(Channels(models=(wanted(folder),)), CPU, {}, lambda _line: None)
    plain = panel.judged(groups())
    known = [{"judge": [7.0, 8.0, 9.0], "other": [1.0] * 3}, {"judge": [5.0, float("nan")]}]
    first, second = panel.judged(groups(), known)
    assert first == {"judge": (7.0, 8.0, 9.0)}
    assert second["judge"] == pytest.approx(plain[1]["judge"], abs=2e-5)


def test_judgements_come_with_completions_and_go_with_groups(tmp_path: Path) -> None:
    folder = write_classifier(tmp_path / "m", "bert")
    judges = {"judge": opened(folder)}
    said = scores_of(judges, TEXTS[:2])
    assert [one["judge"] for one in said] == pytest.approx(
        transformers_logits(folder)[:2, 0].tolist(), abs=2e-5
    )
    completions = tuple(completion_of(["7", "stop", [5, 1], None, one]) for one in said)
    assert [dict(one.judged) for one in completions] == said
    assert dict(completion_of(["7", "stop", [5, 1], None]).judged) == {}
    group = Group(
        Question("t", "easy", 0, "?", "7"), completions, bytes(32), PolicyInfo("tiny", 0, b"")
    )
    told = described(Scored(group, (1.0, 0.0), "local", 0.0), (1.0, 0.0), b"")
    assert told["judged"] == {"judge": [one["judge"] for one in said]}
    mixed = replace(group, completions=(completions[0], replace(completions[1], judged={})))
    assert described(Scored(mixed, (1.0, 0.0), "local", 0.0), (1.0, 0.0), b"")["judged"] == {}


def test_a_channels_name_is_taken_once(tmp_path: Path) -> None:
    for name in ("accuracy", "length", "mine"):
        with pytest.raises(ValueError, match=f"two channels are called {name}"):
            Channels.model_validate(
                {"models": [{"name": name, "model": "a/b"}], "own": [{"name": "mine"}] * 2}
            )
