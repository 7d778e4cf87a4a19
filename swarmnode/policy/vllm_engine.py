"""Generation by vLLM in this process, on a CUDA device that training shares; imported on demand.

It keeps its own copy of the weights and takes the policy's before every call. Its sampler has
random numbers of its own, so that the same generator gives other rows than our engines do, of the
same distribution but for the rounding of its kernels; its log-probs are those at the sampling
temperature. Written against the documented interface of vLLM 0.33 (LLM, SamplingParams,
LLM.apply_model), which excludes our transformers: it wants one below 5.21, we want 5.24.
No machine with a CUDA device has run it yet; only what it asks of vLLM and how it reads the answer
are tested, against a stand-in.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import Any

import torch
from transformers.modeling_utils import PreTrainedModel

from swarmnode.policy.lora import merged_weights
from swarmnode.policy.matrices import UnsupportedModel
from swarmnode.policy.sampling import Sampled

_MEMORY_SHARE = 0.3
"""Of the device's memory, weights included: the rest is training's."""


_NO_PACKAGE = (
    "policy.engine = vllm needs the package vllm, in a version that takes the transformers "
    "installed here (0.33 doesn't); leave it at auto"
)


def check_vllm(device: torch.device) -> None:
    """Raise UnsupportedModel, in one line, where vLLM can't run; nothing is imported for that."""
    if device.type != "cuda":
        raise UnsupportedModel("policy.engine = vllm needs a CUDA device; leave it at auto")
    if "vllm" not in sys.modules and importlib.util.find_spec("vllm") is None:
        raise UnsupportedModel(_NO_PACKAGE)


class VllmEngine:
    """Samples from a vLLM copy of a model that came from a folder."""

    name = "vllm"

    def __init__(self, model: PreTrainedModel, *, sleeps: bool = False) -> None:
        """Start vLLM; UnsupportedModel, in one line, where it can't serve the model.

        sleeps: between calls it holds neither weights nor keys and values.
        """
        check_vllm(model.device)
        if not model.name_or_path:
            raise UnsupportedModel(
                "policy.engine = vllm needs a model of the hub or a folder; leave it at auto"
            )
        # The engine has to live in this process for `apply_model` to reach our tensors.
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        try:
            self._vllm: Any = importlib.import_module("vllm")
        except ImportError as error:
            raise UnsupportedModel(_NO_PACKAGE) from error
        self._model = model
        self._sleeps = sleeps
        self._served = self._vllm.LLM(
            model=model.name_or_path,
            trust_remote_code=False,
            # Sampling defaults of the model's own are set aside.
            generation_config="vllm",
            # Log-probs are those of the distribution that is sampled from, at the temperature.
            logprobs_mode="processed_logprobs",
            gpu_memory_utilization=_MEMORY_SHARE,
            enable_sleep_mode=sleeps,
        )
        self._sleep()

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        completions_per_prompt: int,
        max_new_tokens: int,
        temperature: float,
        end_ids: Sequence[int],
        generator: torch.Generator,
    ) -> list[tuple[Sampled, ...]]:
        """Sample as `Engine.sample` says."""
        if not prompts:
            return []
        weights = merged_weights(self._model)
        if self._sleeps:
            # Before the cache, so that never more is held than weights twice.
            self._served.wake_up(tags=["weights"])
        self._served.apply_model(lambda served: served.load_weights(weights.items()))
        if self._sleeps:
            del weights
            self._served.wake_up(tags=["kv_cache"])
        # What it remembers of prompts was computed with the weights before.
        self._served.reset_prefix_cache()
        seeds = torch.randint(2**62, (len(prompts),), generator=generator).tolist()
        asked = [
            self._vllm.SamplingParams(
                n=completions_per_prompt,
                temperature=temperature,
                top_p=1.0,
                top_k=0,
                min_p=0.0,
                max_tokens=max_new_tokens,
                stop_token_ids=list(end_ids),
                # The model's own end tokens count only where they are among `end_ids`.
                ignore_eos=True,
                logprobs=None if temperature == 0 else 0,
                detokenize=False,
                seed=seed,
            )
            for seed in seeds
        ]
        answers = self._served.generate(
            [{"prompt_token_ids": list(prompt)} for prompt in prompts], asked, use_tqdm=False
        )
        self._sleep()
        return [tuple(map(_sampled, answer.outputs)) for answer in answers]

    def _sleep(self) -> None:
        """Give everything back: the weights are loaded anew for each call in any case."""
        if self._sleeps:
            self._served.sleep(level=2)


def _sampled(output: Any) -> Sampled:
    ids = tuple(output.token_ids)
    logprobs = output.logprobs or []
    return Sampled(
        token_ids=ids,
        logprobs=tuple(step[chosen].logprob for chosen, step in zip(ids, logprobs, strict=False)),
        stopped=output.finish_reason == "stop",
    )
