"""Generation against transformers' `generate` at the demo's shapes: 8 prompts x 8 completions.

Both sample from the same model at temperature 1, one thread, up to 13 new tokens. Transformers gets
all 64 sequences in one left-padded batch, which is its fastest way. The model is random, so few
rows end early: none of the gain is due to shorter completions. Runs alternate in one process, so
that a busy machine slows both; medians are compared.

Run: python tests/benchmarks/engine_generation.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from swarmnode.config.policy import PolicySettings
from swarmnode.policy.loading import load_policy
from swarmnode.policy.policy import Policy
from swarmnode.policy.tokenizer import END_ID, PAD_ID

PROMPT_TOKENS = (9, 13, 17, 22, 28, 36, 45, 57)
COMPLETIONS = 8
NEW_TOKENS = 13
PAIRS_OF_RUNS = 15


def measure() -> dict[str, float]:
    """Return median seconds of both engines, their ratio, and the largest log-prob difference."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        policy = load_policy(PolicySettings(), seed=0)
        prompts = ["7" * (length - 1) for length in PROMPT_TOKENS]
        encoded = [policy.encode_prompt(prompt) for prompt in prompts]
        assert tuple(map(len, encoded)) == PROMPT_TOKENS
        token_ids, attention = _left_padded(encoded)
        ours, theirs = _alternate(
            lambda: _ours(policy, prompts), lambda: _transformers(policy, token_ids, attention)
        )
        return {
            "swarmnode_seconds": ours,
            "transformers_seconds": theirs,
            "speedup": theirs / ours,
            "largest_logprob_difference": _logprob_difference(policy, prompts),
        }
    finally:
        torch.set_num_threads(threads)


def _ours(policy: Policy, prompts: list[str]) -> None:
    policy.generate(prompts, COMPLETIONS, NEW_TOKENS, 1.0, torch.Generator().manual_seed(0))


def _transformers(policy: Policy, token_ids: Tensor, attention: Tensor) -> None:
    torch.manual_seed(0)
    policy.model.generate(
        input_ids=token_ids,
        attention_mask=attention,
        do_sample=True,
        top_k=0,
        max_new_tokens=NEW_TOKENS,
        pad_token_id=PAD_ID,
        eos_token_id=END_ID,
    )


def _left_padded(encoded: list[list[int]]) -> tuple[Tensor, Tensor]:
    longest = max(map(len, encoded))
    rows = [[PAD_ID] * (longest - len(ids)) + ids for ids in encoded]
    masks = [[0] * (longest - len(ids)) + [1] * len(ids) for ids in encoded]
    return (
        torch.tensor(rows).repeat_interleave(COMPLETIONS, 0),
        torch.tensor(masks).repeat_interleave(COMPLETIONS, 0),
    )


def _alternate(first: Callable[[], None], second: Callable[[], None]) -> tuple[float, float]:
    seconds: tuple[list[float], list[float]] = ([], [])
    first()
    second()
    for _ in range(PAIRS_OF_RUNS):
        for run, kept in zip((first, second), seconds, strict=True):
            start = time.perf_counter()
            run()
            kept.append(time.perf_counter() - start)
    return statistics.median(seconds[0]), statistics.median(seconds[1])


@torch.no_grad()
def _logprob_difference(policy: Policy, prompts: list[str]) -> float:
    """Compare every sampled log-prob with the one of transformers' own forward."""
    worst = 0.0
    generator = torch.Generator().manual_seed(1)
    sampled = policy.generate(prompts, COMPLETIONS, NEW_TOKENS, 1.0, generator)
    for prompt, completions in zip(prompts, sampled, strict=True):
        ids = policy.encode_prompt(prompt)
        for completion in completions:
            chosen = torch.tensor(completion.token_ids)
            logits = policy.model(torch.tensor([[*ids, *chosen.tolist()]])).logits
            logprobs = logits[0, len(ids) - 1 : -1].log_softmax(-1)
            expected = logprobs.gather(1, chosen.unsqueeze(1)).squeeze(1)
            ours = torch.tensor(completion.logprobs)
            worst = max(worst, (ours - expected).abs().max().item())
    return worst


def main() -> None:
    """Print the figures as a table."""
    figures = measure()
    print(f"{'generation, 64 sequences':<32}{'median ms':>10}")
    print(f"{'transformers, one padded batch':<32}{figures['transformers_seconds'] * 1e3:>10.1f}")
    print(f"{'swarmnode':<32}{figures['swarmnode_seconds'] * 1e3:>10.1f}")
    print(f"speed-up {figures['speedup']:.2f}")
    print(f"largest log-prob difference {figures['largest_logprob_difference']:.1e}")


if __name__ == "__main__":
    main()
