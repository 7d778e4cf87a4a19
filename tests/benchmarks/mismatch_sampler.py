"""A sampler that is nearly the policy: a copy whose weights are wrong by a size that is asked for.

`noise` adds to every matrix its root mean square times a normal matrix that stays the same for the
whole run, as another kernel errs in the same way each time. `quantised` rounds every matrix to
multiples of a share of its root mean square, as a low precision does. The size of either is
whatever makes the log-probs of sampled tokens differ by the wanted mean; it is sought at the start
and followed from round to round, since the same rounding matters more to a surer policy.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from swarmnode.policy.engine import choose_engine
from swarmnode.policy.policy import Policy
from swarmnode.types import Completion
from tests.benchmarks.mismatch_protocol import Kind

HALVINGS = 12
LOWEST, HIGHEST = 1e-4, 4.0
"""Sizes between which the first one is sought."""
PART = 0.3
MEMORY = 0.8
"""What a round leaves of the running mean that is held against what is wanted: single rounds of a
rounded policy are far off in either direction, and it is their mean that counts."""
FASTEST = 1.3
"""Factor by which a round may change the size."""


def noisy(weight: Tensor, direction: Tensor, size: float) -> Tensor:
    """The weight with noise of `size` times its root mean square along `direction`."""
    return weight + size * weight.square().mean().sqrt() * direction


def rounded(weight: Tensor, size: float) -> Tensor:
    """The weight, rounded to multiples of `size` times its root mean square."""
    step = size * weight.square().mean().sqrt()
    return (weight / step).round() * step


def next_size(size: float, measured: float, wanted: float) -> float:
    """Part of the way, on a logarithmic scale, to where `measured` would be what is wanted."""
    if measured <= 0.0:
        return size * FASTEST
    factor = math.pow(wanted / measured, PART)
    return size * min(max(factor, 1.0 / FASTEST), FASTEST)


class Sampler:
    """The copy of a policy; `kind` = `exact` is the policy itself, at whatever size."""

    def __init__(self, policy: Policy, kind: Kind, seed: int) -> None:
        self._policy = policy
        self._kind = kind
        self.size = 0.0
        self._recent: float | None = None
        model = policy.model if kind == "exact" else copy.deepcopy(policy.model)
        self._twin = Policy(policy.name, model, policy.codec, choose_engine(model, "native"))
        generator = torch.Generator().manual_seed(seed)
        self._directions = [
            torch.randn(one.shape, generator=generator) for one in policy.parameters()
        ]

    @torch.no_grad()
    def follow(self) -> None:
        """Take the policy's weights as they are now, and make them wrong."""
        if self._kind == "exact":
            return
        triples = zip(
            self._twin.parameters(), self._policy.parameters(), self._directions, strict=True
        )
        for own, weight, direction in triples:
            if weight.ndim < 2 or self.size == 0.0:
                own.copy_(weight)
            elif self._kind == "noise":
                own.copy_(noisy(weight, direction, self.size))
            else:
                own.copy_(rounded(weight, self.size))

    def adjust(self, measured: float, wanted: float) -> None:
        """Take in a round's difference; the next `follow` has the size that comes of it."""
        before = wanted if self._recent is None else self._recent
        self._recent = MEMORY * before + (1.0 - MEMORY) * measured
        self.size = next_size(self.size, self._recent, wanted)

    def sample(
        self, prompts: Sequence[str], count: int, longest: int, generator: torch.Generator
    ) -> list[tuple[Completion, ...]]:
        """Completions with the sampler's own log-probs, at temperature 1."""
        return self._twin.generate(prompts, count, longest, 1.0, generator)

    def calibrate(self, prompts: Sequence[str], count: int, longest: int, wanted: float) -> None:
        """Find the size at which log-probs differ by the wanted mean, by halving its logarithm."""
        low, high = math.log(LOWEST), math.log(HIGHEST)
        for _ in range(HALVINGS if self._kind != "exact" else 0):
            middle = (low + high) / 2
            self.size = math.exp(middle)
            self.follow()
            sampled = self.sample(prompts, count, longest, torch.Generator().manual_seed(0))
            if mean_difference(gaps(self._policy, prompts, sampled)) < wanted:
                low = middle
            else:
                high = middle
        if self._kind != "exact":
            self.size = math.exp((low + high) / 2)
            self.follow()


@torch.no_grad()
def gaps(
    policy: Policy, prompts: Sequence[str], sampled: Sequence[Sequence[Completion]]
) -> list[Tensor]:
    """log π - log μ of every token of every completion, at temperature 1."""
    rows: list[tuple[list[int], Completion]] = []
    for prompt, completions in zip(prompts, sampled, strict=True):
        ids = policy.encode_prompt(prompt)
        rows += [(ids, each) for each in completions]
    width = max(len(ids) + each.token_count for ids, each in rows)
    token_ids = torch.zeros(len(rows), width, dtype=torch.long)
    for row, (ids, each) in enumerate(rows):
        whole = torch.tensor([*ids, *(each.token_ids or ())])
        token_ids[row, : len(whole)] = whole
    hidden = policy.causal_hidden(token_ids)
    found = []
    for row, (ids, each) in enumerate(rows):
        places = slice(len(ids) - 1, len(ids) - 1 + each.token_count)
        distribution = policy.head(hidden[row, places]).log_softmax(dim=-1)
        targets = token_ids[row, len(ids) : len(ids) + each.token_count]
        own = distribution.gather(1, targets.unsqueeze(1)).squeeze(1)
        found.append(own - torch.tensor(each.logprobs))
    return found


def mean_difference(found: Sequence[Tensor]) -> float:
    """Mean absolute difference in nats a token."""
    return float(torch.cat(list(found)).abs().mean())
