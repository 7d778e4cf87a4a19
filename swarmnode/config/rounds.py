"""Settings of a round: how much is asked, answered, shared and mixed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from swarmnode.config.base import Section


class Rounds(Section):
    """What a round consists of."""

    local_groups_per_round: int = Field(default=4, ge=0, le=64)
    """I: groups of this node's own that a round trains on."""

    external_groups_per_round: int = Field(default=4, ge=0, le=64)
    """J: groups of other nodes that a round trains on; 0 is plain GRPO."""

    questions_per_round: int | None = Field(default=None, ge=0, le=64)
    """Q: questions that the node answers in a round; unset means I, as in the paper."""

    completions_per_group: int = Field(default=8, ge=2, le=64)
    """G: sampled answers per question (the paper's L)."""

    dynamic_sampling: bool = False
    """Ask on, Q questions at a time, until I own groups are live, and train on live ones alone
    (DAPO's dynamic sampling). It buys a full training set with more generation."""

    questions_limit: int = Field(default=64, ge=1, le=1024)
    """Questions after which dynamic sampling gives up in a round."""

    share: Literal["all", "live", "none"] = "all"
    """Which of its own groups a node publishes: all of them (the paper), those with both
    successes and failures, or none."""

    @property
    def questions(self) -> int:
        """Q with its default resolved."""
        if self.questions_per_round is None:
            return self.local_groups_per_round
        return self.questions_per_round

    @property
    def external_share(self) -> float:
        """J over I + J, 0 where nothing is trained on."""
        groups = self.local_groups_per_round + self.external_groups_per_round
        return self.external_groups_per_round / groups if groups else 0.0


class Evaluation(Section):
    """How held-out success is measured."""

    every_rounds: int = Field(default=75, ge=1)
    """Rounds between evaluations; the start and the last round are always evaluated."""

    questions_per_task: int = Field(default=40, ge=1, le=1000)
    """Unseen questions per task, the same for every node and every evaluation."""
