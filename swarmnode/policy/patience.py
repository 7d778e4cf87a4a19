"""How long a policy host may take before it counts as hung: by the model's size and what is asked.

Pure arithmetic on texts and lengths that the daemon knows; imports no torch. A limit that is the
same for all would kill the host of a large model in the middle of honest work, and begin the same
work again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swarmnode.config.channels import Channels
from swarmnode.config.policy import PolicySettings
from swarmnode.config.training import Training
from swarmnode.policy.names import ModelKind, model_kind
from swarmnode.types import Question, Scored

CREATE_SECONDS = 600.0
"""Real seconds for making a policy, warm start or conversion included."""
DOWNLOAD_SECONDS = 7200.0
"""The same where the model may first have to be downloaded: a gigabyte over 2 Mbit/s takes so
long."""
CALL_SECONDS = 600.0
"""Real seconds for any other call, beside what its products take."""
SLOWEST_RATE = 5e9
"""Operations a second of a host that is not hung: a tenth of what a laptop's core reaches in
float32, for a core that others use too."""
TOKEN_CHARACTERS = 2
"""Of a token at least, on average over a prompt; common ones have four."""
TEMPLATE_CHARACTERS = 100
"""As many as a chat template adds around a text."""


def creating(policy: Mapping[str, Any], channels: Mapping[str, Any] | None = None) -> float:
    """Seconds for making the policy of such settings, or for looking at it, with its judges."""
    kind = model_kind(PolicySettings.model_validate(policy).model)
    judges = [one for one in Channels.model_validate(channels or {}).models if one.weight > 0.0]
    fetched = kind is ModelKind.HUB or any(not _is_folder(one.model) for one in judges)
    return DOWNLOAD_SECONDS if fetched else CREATE_SECONDS


def _is_folder(model: str) -> bool:
    return os.sep in model and Path(model).expanduser().is_dir()


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits in seconds for one policy."""

    parameters: float = 0.0
    new_tokens: int = 0
    """The longest completion."""
    inner_steps: int = 1
    shown: Mapping[str, int] = field(default_factory=dict)
    """Characters that come before each question, by task."""
    judging: float = 0.0
    """Parameters of all reward models in the host."""
    own_seconds: float = 0.0
    """That rewards of other packages may take for a question's completions."""

    @classmethod
    def of(
        cls,
        parameters: float,
        policy: Mapping[str, Any],
        training: Mapping[str, Any],
        examples: Mapping[str, Sequence[tuple[str, str]]],
        channels: Mapping[str, Any] | None = None,
        judging: float = 0.0,
    ) -> Patience:
        """For a policy of so many parameters that was ordered so (policy/client.py).

        `judging`: the parameters of its reward models.
        """
        shown = {
            task: sum(len(text) + TEMPLATE_CHARACTERS for pair in pairs for text in pair)
            for task, pairs in examples.items()
        }
        settings = PolicySettings.model_validate(policy)
        steps = Training.model_validate(training).inner_steps
        paid = Channels.model_validate(channels or {})
        own_seconds = sum(one.seconds for one in paid.own if one.weight > 0.0)
        return cls(parameters, settings.new_tokens, steps, shown, judging, own_seconds)

    def sampling(self, questions: Sequence[Question], completions: int) -> float:
        """Seconds for so many answers to each question."""
        each = completions * self.new_tokens
        tokens = sum(self._prompt(question) * completions + each for question in questions)
        return CALL_SECONDS + self._seconds(tokens, operations=2) + self._judged(tokens)

    def training(self, groups: Sequence[Scored]) -> float:
        """Seconds for a step on these groups."""
        tokens = 0
        for scored in groups:
            completions = scored.group.completions
            tokens += self._prompt(scored.group.question) * len(completions)
            tokens += sum(min(len(one.text), self.new_tokens) + 1 for one in completions)
        # Forward, backward, and the forward once more where activations are not kept; log-probs of
        # a reference and of the covariance's choice are two more forwards.
        trained = self._seconds(tokens * self.inner_steps, operations=12)
        return CALL_SECONDS + trained + self._judged(tokens) + self.own_seconds * len(groups)

    def _prompt(self, question: Question) -> int:
        """Tokens of a prompt, which some engines compute for each of its completions."""
        characters = len(question.text) + self.shown.get(question.task, 0) + TEMPLATE_CHARACTERS
        return characters // TOKEN_CHARACTERS

    def _judged(self, tokens: int) -> float:
        """One forward pass of every reward model."""
        return 2 * self.judging * tokens / SLOWEST_RATE

    def _seconds(self, tokens: int, *, operations: int) -> float:
        return operations * self.parameters * tokens / SLOWEST_RATE
