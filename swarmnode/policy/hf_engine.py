"""Generation through transformers' own `generate`: the reference, and the way for any architecture.

All sequences go in one left-padded batch. The model's forward, cache and position ids are
transformers'; tokens are drawn by us, in a logits processor that leaves `generate` a single choice,
so that the draws, the log-probs and the temperature are those of every other engine. Whatever the
model's generation_config says about sampling (top-p, top-k, penalties, biases, forced tokens) is
set aside for the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from transformers.generation.configuration_utils import GenerationConfig
from transformers.generation.logits_process import LogitsProcessor, LogitsProcessorList
from transformers.modeling_utils import PreTrainedModel

from swarmnode.policy.sampling import Sampled, cut_rows, draw, uniform_draws


class HuggingFaceEngine:
    """Samples from a transformers model, which it puts into evaluation mode: no dropout."""

    name = "hf"

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model.eval()

    @torch.inference_mode()
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
        device = self._model.device
        uniforms = uniform_draws(generator, max_new_tokens, len(prompts), completions_per_prompt)
        token_ids, attention = _left_padded(prompts, completions_per_prompt)
        drawing = _Drawing(uniforms.flatten(1).to(device), temperature, token_ids.shape[1])
        config = GenerationConfig(
            do_sample=False,
            max_new_tokens=max_new_tokens,
            eos_token_id=list(end_ids) or None,
            # What stands behind an end token is cut away, so it may be any token.
            pad_token_id=0,
            use_cache=True,
        )
        with _bare_generation_config(self._model):
            self._model.generate(
                input_ids=token_ids.to(device),
                attention_mask=attention.to(device),
                generation_config=config,
                logits_processor=LogitsProcessorList([drawing]),
            )
        ends = torch.tensor(list(end_ids), device=device)
        return cut_rows(
            drawing.tokens.T,
            drawing.logprobs.T,
            ends,
            completions_per_prompt,
            greedy=temperature == 0,
        )


class _Drawing(LogitsProcessor):  # type: ignore[misc]  # transformers is untyped
    """Draws each step's tokens, keeps them with their log-probs, and forces `generate` to them."""

    def __init__(self, uniforms: Tensor, temperature: float, prompt_length: int) -> None:
        self._uniforms = uniforms
        self._temperature = temperature
        self._prompt_length = prompt_length
        self.tokens = torch.full(uniforms.shape, -1, dtype=torch.long, device=uniforms.device)
        self.logprobs = torch.zeros_like(uniforms)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        step = input_ids.shape[1] - self._prompt_length
        drawn, logprobs = draw(scores, self._uniforms[step], self._temperature)
        self.tokens[step] = drawn
        self.logprobs[step] = logprobs
        forced = torch.full_like(scores, float("-inf"))
        return forced.scatter_(1, drawn.unsqueeze(1), 0.0)


@contextmanager
def _bare_generation_config(model: PreTrainedModel) -> Iterator[None]:
    # `generate` fills whatever the config it is given leaves open from the model's own.
    own = model.generation_config
    model.generation_config = GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = own


def _left_padded(
    prompts: Sequence[Sequence[int]], completions_per_prompt: int
) -> tuple[Tensor, Tensor]:
    """Token ids and attention mask, (prompts x completions, longest prompt)."""
    longest = max(map(len, prompts))
    ids = [[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
    seen = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return (
        torch.tensor(ids).repeat_interleave(completions_per_prompt, 0),
        torch.tensor(seen).repeat_interleave(completions_per_prompt, 0),
    )
