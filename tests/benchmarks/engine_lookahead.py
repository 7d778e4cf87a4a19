"""`make bench NAME=engine_lookahead`: could guessing tokens, or int8 weights, pay?

SmolLM2-135M reasons about one question of each of eight tasks, at temperature 1. From what it
really said follow:

- how many tokens a lookup of repeated n-grams would have guessed (prompt lookup, Saxena 2023; the
  verification of arXiv 2211.17192: where a draft is certain of its token, it is accepted as often
  as the model samples that token, so that counting matches in real samples counts acceptances);
- what a step of several positions costs on this machine, hence what guessing would gain;
- how far int8 weights, rounded to the nearest with one scale for each output channel, move the
  log-probs of those tokens, everything else being float32.

About two minutes of one core.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from swarmnode.policy.decoder import Decoder
from swarmnode.policy.policy import Policy
from swarmnode.training.logprobs import chunked_statistics
from swarmnode.training.packing import TreeRow, pack
from tests.benchmarks import engine_subject

COMPLETIONS, NEW_TOKENS = 4, 96
INSTRUCTION = "Think step by step, then give the final answer between <answer> and </answer>."
NGRAMS = (3, 2)
"""Tokens that must have occurred before; the longest that did is taken, at its latest place."""
DRAFTS = (1, 2, 4, 8)
"""Tokens guessed at once, at most."""
ROWS = (8, 64)
"""Sequences that are decoded together."""
INT8_LEVELS = 127


@dataclass(frozen=True, slots=True)
class Guesses:
    """What a lookup would have done to some completions."""

    tokens: int
    """All that were sampled."""
    steps: int
    """Forward passes that would have sampled them, one row each."""
    drafted: int
    """Positions that were verified beside the one that is always computed."""
    accepted: int
    """Of these, how many were what was sampled."""

    @property
    def share(self) -> float:
        """Of the sampled tokens that were guessed."""
        return self.accepted / self.tokens

    def gain(self, cost: Mapping[int, float], rows: int) -> float:
        """Times that decoding `rows` rows gets faster, a step of m positions costing `cost[m]`.

        Rows are taken to be alike: each step verifies the mean number of positions a row. The cost
        between the measured numbers of positions lies on a line.
        """
        positions = rows * (1 + self.drafted / self.steps)
        return self.tokens / self.steps * between(cost, rows) / between(cost, positions)


def lookup(context: Sequence[int], ngrams: Sequence[int], most: int) -> Sequence[int]:
    """The tokens that followed where the end of `context` occurred last before, at most `most`."""
    for length in ngrams:
        ending = list(context[-length:])
        if len(ending) < length:
            continue
        for start in range(len(context) - length - 1, -1, -1):
            if list(context[start : start + length]) == ending:
                return context[start + length : start + length + most]
    return ()


def guesses(
    completions: Sequence[tuple[Sequence[int], Sequence[int]]],
    most: int,
    ngrams: Sequence[int] = NGRAMS,
) -> Guesses:
    """Of completions with what each may look up in: its prompt, or the prompt and its siblings."""
    tokens = steps = drafted = accepted = 0
    for known, ids in completions:
        at = 0
        while at < len(ids):
            draft = lookup([*known, *ids[:at]], ngrams, most)
            matched = 0
            while matched < min(len(draft), len(ids) - at) and draft[matched] == ids[at + matched]:
                matched += 1
            # The model's own token comes after what was accepted, unless that was the last.
            at += min(matched + 1, len(ids) - at)
            steps, drafted, accepted = steps + 1, drafted + len(draft), accepted + matched
        tokens += len(ids)
    return Guesses(tokens, steps, drafted, accepted)


def between(cost: Mapping[int, float], positions: float) -> float:
    """The cost of a number of positions, on the line between its measured neighbours."""
    below = max((known for known in cost if known <= positions), default=min(cost))
    above = min((known for known in cost if known >= positions), default=max(cost))
    if below == above:
        return cost[below] * positions / below
    share = (positions - below) / (above - below)
    return cost[below] + share * (cost[above] - cost[below])


@torch.no_grad()
def rounded(weight: Tensor) -> Tensor:
    """What int8 with one scale for each output channel (row) makes of a matrix."""
    scale = weight.abs().amax(dim=1, keepdim=True).clamp_min(1e-12) / INT8_LEVELS
    return (weight / scale).round().clamp(-INT8_LEVELS, INT8_LEVELS) * scale


@torch.no_grad()
def quantised(policy: Policy, *, body: bool, head: bool) -> Policy:
    """A copy whose layers, or whose output matrix, went through int8; the embedding stays."""
    other = copy.deepcopy(policy)
    output = other.model.get_output_embeddings()
    for module in other.model.modules():
        if isinstance(module, nn.Linear) and module is not output and body:
            module.weight.copy_(rounded(module.weight))
    if head:
        output.weight = nn.Parameter(rounded(output.weight))
    return other


@torch.no_grad()
def log_probs(policy: Policy, rows: Sequence[TreeRow]) -> Tensor:
    """Of all tokens of the rows' completions at temperature 1, (tokens,)."""
    found = []
    for row in rows:
        packed = pack([row], policy.device)
        hidden = policy.tree_hidden(packed.token_ids, packed.positions, packed.segments)
        hidden = hidden.flatten(0, 1).index_select(0, packed.predictors)
        vocabulary = policy.head_weight.shape[0]
        found.append(chunked_statistics(policy.head, hidden, packed, 1.0, vocabulary).logprobs)
    return torch.cat(found)


@torch.no_grad()
def step_costs(policy: Policy, positions: Sequence[int], tries: int = 3) -> dict[int, float]:
    """CPU seconds of the products with all weights for so many positions, the best of some."""
    weights = Decoder(policy.model).sampling_weights()
    width, inner = policy.head_weight.shape[1], policy.model.config.intermediate_size
    costs = {}
    for count in positions:
        hidden, wide = torch.randn(count, width), torch.randn(count, inner)
        best = float("inf")
        for _ in range(tries):
            started = time.process_time()
            for layer in map(weights.layers, range(weights.count)):
                layer.query_key_value(hidden)
                layer.attention_output(hidden)
                layer.gate_up(hidden)
                layer.down(wide)
            weights.head(hidden)
            best = min(best, time.process_time() - started)
        costs[count] = best
    return costs


def main() -> None:
    """Print all of it."""
    torch.set_num_threads(1)
    policy, rows = _said()
    costs = step_costs(policy, (8, 12, 16, 24, 32, 40, 64, 96, 128, 192, 256, 320, 576))
    milliseconds = ", ".join(f"{count}: {1e3 * cost:.0f}" for count, cost in costs.items())
    print(f"a step's products by positions, CPU ms: {milliseconds}")
    alone = [(row.prompt_ids, ids) for row in rows for ids in row.completions]
    among = [(_with_siblings(row, place), ids) for row in rows for place, ids in _numbered(row)]
    for name, completions in (("prompt and itself", alone), ("siblings too", among)):
        for most in DRAFTS:
            found = guesses(completions, most)
            gains = ", ".join(f"{rows_} rows {found.gain(costs, rows_):.2f}x" for rows_ in ROWS)
            print(
                f"lookup in {name}, at most {most}: {found.share:.1%} of {found.tokens} tokens; "
                f"{found.accepted} of {found.drafted} guesses; {gains}"
            )
    exact = log_probs(policy, rows)
    for name, parts in (
        ("layers", {"body": True, "head": False}),
        ("output matrix", {"body": False, "head": True}),
        ("both", {"body": True, "head": True}),
    ):
        gap = log_probs(quantised(policy, **parts), rows) - exact
        print(
            f"int8 of {name}, nats a token: mean {gap.abs().mean():.4f}, largest "
            f"{gap.abs().max():.3f}, signed mean {gap.mean():+.4f}, deviation {gap.std():.4f}"
        )


def _said() -> tuple[Policy, Sequence[TreeRow]]:
    """The model, and what it answered to eight questions."""
    subject = engine_subject.smollm2(INSTRUCTION)
    policy, generator = subject.policy, torch.Generator().manual_seed(0)
    started = time.process_time()
    sampled = policy.engine.sample(
        subject.prompts, COMPLETIONS, NEW_TOKENS, 1.0, policy.codec.end_ids, generator
    )
    rows = [
        TreeRow(tuple(prompt), tuple(tuple(row.token_ids) for row in group))
        for prompt, group in zip(subject.prompts, sampled, strict=True)
    ]
    count = sum(len(ids) for row in rows for ids in row.completions)
    print(f"{count} tokens sampled, {time.process_time() - started:.0f} CPU s; one of them says:")
    print(f"  {policy.codec.decode(rows[0].completions[0])!r}")
    return policy, rows


def _numbered(row: TreeRow) -> Sequence[tuple[int, Sequence[int]]]:
    return list(enumerate(row.completions))


def _with_siblings(row: TreeRow, place: int) -> Sequence[int]:
    """The prompt, then the completions before this one: as if these had been sampled already."""
    return [*row.prompt_ids, *(one for ids in row.completions[:place] for one in ids)]


if __name__ == "__main__":
    main()
