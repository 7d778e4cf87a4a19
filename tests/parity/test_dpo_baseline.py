"""The DPO baseline with the real TRL, short: its tokens are ours, and what it trains is a policy of
ours. The script of docs/compare.md is run as it stands there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from swarmnode.config.policy import PolicySettings
from swarmnode.hosted_policy import HostedPolicy
from swarmnode.policy.loading import load_policy
from swarmnode.policy.policy import Policy
from tests.benchmarks.dpo_pairs import Pair
from tests.benchmarks.dpo_training import Recipe, train, trainer_of
from tests.unit.resume_support import order

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

PAIRS = [
    Pair(f"Calculate {a} + {b}.", str(a + b), str(abs(a - b)))
    for a in range(12, 20)
    for b in range(3, 7)
]
RECIPE = Recipe(steps=12, pairs_per_step=8, learning_rate=1e-2, beta=0.1, warmup_steps=2, seed=0)
PAGE = Path(__file__).parents[2] / "docs" / "compare.md"


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("start")
    HostedPolicy(order()).export(str(folder), "merged")
    return folder


def loaded(folder: Path) -> Policy:
    return load_policy(PolicySettings(model=str(folder), examples=0), seed=0)


def margin(policy: Policy) -> float:
    """Mean log-prob of right answers less that of wrong ones, by our own forward pass."""

    def logprob(question: str, answer: str) -> float:
        prompt = policy.encode_prompt(question)
        ids = [*prompt, *policy.encode_completion(answer, "stop")]
        with torch.no_grad():
            hidden = policy.causal_hidden(torch.tensor([ids]))
            logprobs = torch.log_softmax(policy.head(hidden)[0, :-1], dim=-1)
        chosen = logprobs[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]
        return float(chosen[len(prompt) - 1 :].sum())

    gaps = [
        logprob(one.question, one.chosen) - logprob(one.question, one.rejected) for one in PAIRS
    ]
    return sum(gaps) / len(gaps)


def test_trl_trains_on_our_prompts_and_our_tokens(start: Path, tmp_path: Path) -> None:
    policy = loaded(start)
    rows = trainer_of(start, PAIRS, tmp_path, RECIPE).train_dataset
    assert len(rows) == len(PAIRS)
    for pair, row in zip(PAIRS, rows, strict=True):
        assert row["prompt_ids"] == policy.encode_prompt(pair.question)
        assert row["chosen_ids"] == policy.encode_completion(pair.chosen, "stop")
        assert row["rejected_ids"] == policy.encode_completion(pair.rejected, "stop")


def test_what_it_trains_is_a_policy_that_prefers_what_was_chosen(
    start: Path, tmp_path: Path
) -> None:
    before = margin(loaded(start))
    figures = train(start, PAIRS, tmp_path / "out", RECIPE)
    after = loaded(tmp_path / "out")
    assert margin(after) > before + 1.0
    assert figures.margin > 0
    assert figures.epochs == pytest.approx(12 * 8 / len(PAIRS))
    assert after.info.tokenizer_fingerprint == loaded(start).info.tokenizer_fingerprint


def test_the_script_of_the_page_makes_a_folder_that_can_be_compared(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (script,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.M)
    assert "STEPS, PAIRS = " in script
    script = script.replace('"my-model"', repr(str(start))).replace(", 300, 32", ", 12, 8")
    lines = [
        json.dumps({"question": one.question, "chosen": one.chosen, "rejected": one.rejected})
        for one in PAIRS
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(compile(script, "compare.md", "exec"), {})
    assert margin(loaded(tmp_path / "my-dpo")) > margin(loaded(start))
