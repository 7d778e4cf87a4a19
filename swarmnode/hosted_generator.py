"""One policy in a generator's host: it samples with a trainer's weights, and trains nothing.

No optimizer, no reference and no warm start: all that is trained comes from the trainer, and what
is frozen below adapters from the same files as there. The methods are those that the daemon may ask
for by name (worker.py).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from swarmnode.config.channels import Channels
from swarmnode.config.policy import PolicySettings
from swarmnode.hosted_models import loaded_policy
from swarmnode.hosted_values import fields_of
from swarmnode.reward_models.panel import Shelf, open_judges, scores_of
from swarmnode.weights.channel import WeightsError, WeightsIn, WeightsTorn
from swarmnode.weights.opening import open_in
from swarmnode.weights.selected import selected

NOTHING_YET = -1
"""The version of a policy that has taken no weights."""


class HostedGenerator:
    """One policy that follows a trainer's."""

    def __init__(self, order: dict[str, Any], shelf: Shelf | None = None) -> None:
        """Make it; `shelf` holds the reward models that policies of one host share."""
        settings = PolicySettings.model_validate(order["policy"])
        self._policy = loaded_policy(settings, order)
        self._settings = settings
        sent = selected(self._policy.model)
        self._tensors = sent.tensors
        for parameter in self._policy.parameters():
            parameter.requires_grad_(False)
        self._judges = open_judges(
            Channels.model_validate(order["channels"]),
            self._policy.device,
            {} if shelf is None else shelf,
        )
        self._generator = torch.Generator().manual_seed(order["sampling_seed"])
        self._base = sent.base
        self._home, self._number = Path(order["weights_home"]), order.get("generator", 1)
        self._weights: WeightsIn | None = None
        self._have = NOTHING_YET

    def figures(self) -> dict[str, Any]:
        """What the daemon wants to know of a new policy."""
        info = self._policy.info
        return {
            "name": info.name,
            "tokenizer_fingerprint": info.tokenizer_fingerprint,
            "figures": {"parameters": sum(one.numel() for one in self._policy.parameters())},
            "judging_parameters": sum(judge.parameters for judge in self._judges.values()),
        }

    def take_weights(self) -> dict[str, Any]:
        """Take the newest weights there are.

        Returns the `version` it samples with from now on, -1 where it has none and a broadcast is
        still to come, and whether it was `taken` just now. Raises WeightsError: also where there
        are none yet, or where those that it had are half gone; it samples nothing then until this
        succeeds.
        """
        try:
            taken = self._channel().take(self._tensors, self._have)
        except WeightsTorn:
            self._have = NOTHING_YET
            raise
        if taken is not None:
            self._have = self._policy.version = taken.version
        if self._have == NOTHING_YET and self._settings.weights.channel != "broadcast":
            raise WeightsError("the trainer has published no weights yet")
        return {"version": self._have, "taken": taken is not None}

    def _channel(self) -> WeightsIn:
        """What weights come by, opened when the first are to be there: by then the trainer is."""
        if self._weights is None:
            self._weights = open_in(
                self._settings.weights,
                self._home,
                os.getuid(),
                self._base,
                self._number,
                self._policy.device,
            )
        return self._weights

    def close(self) -> None:
        """Let go of the weights that are shared."""
        if self._weights is not None:
            self._weights.close()

    def sample(
        self, prompts: Sequence[str], completions: int, tasks: Sequence[str] = ()
    ) -> list[list[list[Any]]]:
        """Sample `completions` answers to each prompt with the weights that were taken last.

        Reward models judge them here, while the trainer trains; what they say comes last.
        """
        if self._have == NOTHING_YET:
            raise ValueError("weights must be taken before anything is sampled")
        groups = self._policy.generate(
            prompts,
            completions,
            self._settings.new_tokens,
            self._settings.temperature,
            self._generator,
            tasks,
        )
        if not self._judges:
            return [[fields_of(completion) for completion in group] for group in groups]
        texts = [
            (prompt, completion.text)
            for prompt, group in zip(prompts, groups, strict=True)
            for completion in group
        ]
        said = iter(scores_of(self._judges, texts))
        return [[[*fields_of(completion), next(said)] for completion in group] for group in groups]
