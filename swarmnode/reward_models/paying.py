"""What a round's groups are paid for beside accuracy: rules on text and length, and the panel.

From groups as the daemon hands them over, and the same in our tokens, to training groups with all
their channels. Lengths are those in our tokens, also of what peers sent.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from swarmnode.config.channels import Channels
from swarmnode.reward_models.panel import Panel, Shelf
from swarmnode.rewards.channels import Paid, further_channels
from swarmnode.training import TrainingGroup
from swarmnode.types import SUCCESS_THRESHOLD


class Paying:
    """The channels of one policy."""

    def __init__(
        self, channels: Channels, limit_tokens: int, device: torch.device, shelf: Shelf
    ) -> None:
        """`limit_tokens` is the policy's longest completion. Raises what `Panel` raises."""
        self._channels = channels
        self._limit = limit_tokens
        self._panel = Panel(channels, device, shelf, _tell)

    def paid(
        self, groups: Sequence[Mapping[str, Any]], encoded: Sequence[TrainingGroup]
    ) -> list[TrainingGroup]:
        """The groups in our tokens, with what they are paid for beside accuracy."""
        completions = [_completions(*pair) for pair in zip(groups, encoded, strict=True)]
        judged = self._panel.judged(completions, [group.get("judged", {}) for group in groups])
        return [
            replace(
                one,
                further_channels={
                    **further_channels(each, self._channels, self._limit),
                    **of_panel,
                },
            )
            for one, each, of_panel in zip(encoded, completions, judged, strict=True)
        ]

    @property
    def parameters(self) -> int:
        """Of all reward models."""
        return self._panel.parameters

    @property
    def metrics(self) -> Mapping[str, float]:
        """Of the last groups, under names of `CHANNEL_METRICS`."""
        return self._panel.metrics


def _completions(group: Mapping[str, Any], encoded: TrainingGroup) -> list[Paid]:
    return [
        Paid(group["prompt"], text, ids, success=reward >= SUCCESS_THRESHOLD)
        for (text, *_), ids, reward in zip(
            group["completions"], encoded.completions, encoded.rewards, strict=True
        )
    ]


def _tell(line: str) -> None:
    """To the policy host's log."""
    sys.stderr.write(f"policy host: {line}\n")
