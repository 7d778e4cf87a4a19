"""What the vLLM engine asks of vLLM, and how it reads the answer, against a stand-in.

vLLM needs a CUDA device: nothing here says that it samples right.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from swarmnode.config.policy import PolicySettings
from swarmnode.config.rounds import Rounds
from swarmnode.config.training import Training
from swarmnode.policy.engine import check_engine, choose_engine
from swarmnode.policy.loading import estimated_memory, load_policy
from swarmnode.policy.matrices import UnsupportedModel
from swarmnode.policy.sampling import Sampled
from swarmnode.policy.vllm_engine import VllmEngine
from swarmnode.process import Refusal
from tests.unit.policy_models import small_model


class StandInModel:
    """A module of one matrix that says it lies on a CUDA device."""

    device = torch.device("cuda")
    name_or_path = "/models/some"

    def __init__(self) -> None:
        self._matrix = nn.Linear(2, 2, bias=False)

    def modules(self) -> Any:
        return self._matrix.modules()

    def named_modules(self) -> Any:
        return self._matrix.named_modules()

    def state_dict(self) -> Any:
        return self._matrix.state_dict()


class StandInLlm:
    """Records what it is asked; every completion is token 5, then the first stop token."""

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments
        self.loaded: list[dict[str, Any]] = []
        self.calls: list[str] = []

    def apply_model(self, function: Any) -> None:
        self.calls.append("apply_model")
        function(SimpleNamespace(load_weights=lambda items: self.loaded.append(dict(items))))

    def reset_prefix_cache(self) -> None:
        self.calls.append("reset_prefix_cache")

    def sleep(self, *, level: int) -> None:
        self.calls.append(f"sleep {level}")

    def wake_up(self, *, tags: list[str]) -> None:
        self.calls.append(f"wake up {tags}")

    def generate(self, prompts: list[Any], asked: list[Any], *, use_tqdm: bool) -> list[Any]:
        self.calls.append("generate")
        self.prompts, self.asked = prompts, asked
        assert not use_tqdm
        return [SimpleNamespace(outputs=[self._output(one)] * one.n) for one in asked]

    def _output(self, asked: Any) -> Any:
        ids = [5, asked.stop_token_ids[0]]
        steps = [{token: SimpleNamespace(logprob=-0.5 * token)} for token in ids]
        logprobs = None if asked.logprobs is None else steps
        return SimpleNamespace(token_ids=ids, logprobs=logprobs, finish_reason="stop")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    stand_in = ModuleType("vllm")
    stand_in.LLM = StandInLlm  # type: ignore[attr-defined]  # a module is filled by hand
    stand_in.SamplingParams = SimpleNamespace  # type: ignore[attr-defined]  # likewise
    monkeypatch.setitem(sys.modules, "vllm", stand_in)
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    return VllmEngine(StandInModel())


def sample(engine: VllmEngine, temperature: float = 0.7) -> list[tuple[Sampled, ...]]:
    generator = torch.Generator().manual_seed(0)
    return engine.sample([[1, 2], [3]], 2, 9, temperature, (7, 8), generator)


def test_it_asks_for_the_whole_distribution_at_the_temperature(engine: Any) -> None:
    sample(engine)
    served = engine._served
    assert served.arguments["logprobs_mode"] == "processed_logprobs"
    assert served.arguments["generation_config"] == "vllm"
    assert not served.arguments["trust_remote_code"]
    assert served.prompts == [{"prompt_token_ids": [1, 2]}, {"prompt_token_ids": [3]}]
    first, second = served.asked
    assert (first.n, first.max_tokens, first.temperature) == (2, 9, 0.7)
    assert (first.top_p, first.top_k, first.min_p, first.ignore_eos) == (1.0, 0, 0.0, True)
    assert first.stop_token_ids == [7, 8]
    # Equal prompts must not get equal completions.
    assert first.seed != second.seed


def test_it_takes_the_weights_before_it_samples(engine: Any) -> None:
    sample(engine)
    assert engine._served.calls == ["apply_model", "reset_prefix_cache", "generate"]
    (loaded,) = engine._served.loaded
    assert set(loaded) == {"weight"}


def test_answers_become_rows(engine: Any) -> None:
    row = Sampled((5, 7), (-2.5, -3.5), True)
    assert sample(engine) == [(row, row), (row, row)]
    greedy = Sampled((5, 7), (), True)
    assert sample(engine, temperature=0.0) == [(greedy, greedy), (greedy, greedy)]


def test_without_a_cuda_device_it_says_so() -> None:
    with pytest.raises(UnsupportedModel, match="CUDA"):
        choose_engine(small_model("llama"), "vllm")


@pytest.mark.parametrize("model", ["tiny", "owner/name"])
def test_without_a_cuda_device_nothing_is_read_before_it_says_so(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object, **__: object) -> None:
        raise AssertionError("something was read")

    monkeypatch.setattr("swarmnode.policy.loading._opened", read)
    monkeypatch.setattr("swarmnode.policy.loading.model_folder", read)
    settings = PolicySettings(model=model, engine="vllm", device="cpu")
    for ask in (
        lambda: load_policy(settings, 0, None),
        lambda: estimated_memory(settings, Training(), Rounds(), None),
    ):
        with pytest.raises(UnsupportedModel, match="needs a CUDA device") as raised:
            ask()
        assert isinstance(raised.value, Refusal)
        assert "\n" not in str(raised.value)


def test_without_the_package_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(UnsupportedModel, match="needs the package vllm"):
        VllmEngine(StandInModel())
    monkeypatch.delitem(sys.modules, "vllm")
    # As on this machine, where the extra is not installed.
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UnsupportedModel, match="needs the package vllm") as raised:
        check_engine("vllm", torch.device("cuda"))
    assert "\n" not in str(raised.value)


def test_a_model_that_is_in_no_files_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
    model: Any = StandInModel()
    model.name_or_path = ""
    with pytest.raises(UnsupportedModel, match="needs a model of the hub or a folder"):
        VllmEngine(model)


def test_it_sleeps_between_calls_and_wakes_its_weights_before_its_cache(
    engine: Any,
) -> None:
    assert not engine._served.arguments["enable_sleep_mode"]
    sleeping = VllmEngine(StandInModel(), sleeps=True)
    served: Any = sleeping._served
    assert served.arguments["enable_sleep_mode"]
    assert sample(sleeping) == sample(engine)
    assert served.calls == [
        "sleep 2",
        "wake up ['weights']",
        "apply_model",
        "wake up ['kv_cache']",
        "reset_prefix_cache",
        "generate",
        "sleep 2",
    ]
    assert "sleep 2" not in engine._served.calls
