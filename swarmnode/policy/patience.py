"""How long a policy host may take before it counts as hung: by the model's size and what is asked.

Pure arithmetic on texts and lengths that the daemon knows; imports no torch. A limit that is the
same for all would kill the host of a large model in the middle of honest work, and begin the same
work again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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


def creating(policy: Mapping[str, Any]) -> float:
    """Seconds for making the policy of such settings, or for looking at it."""
    kind = model_kind(PolicySettings.model_validate(policy).model)
    return DOWNLOAD_SECONDS if kind is ModelKind.HUB else CREATE_SECONDS


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits in seconds for one policy."""

    parameters: float = 0.0
    new_tokens: int = 0
    """The longest completion."""
    inner_steps: int = 1
    shown: Mapping[str, int] = field(default_factory=dict)
    """Characters that come before each question, by task."""

    @classmethod
    def of(
        cls,
        parameters: float,
        policy: Mapping[str, Any],
        training: Mapping[str, Any],
        examples: Mapping[str, Sequence[tuple[str, str]]],
    ) -> Patience:
        """For a policy of so many parameters that was ordered so (policy/client.py)."""
        shown = {
            task: sum(len(text) + TEMPLATE_CHARACTERS for pair in pairs for text in pair)
            for task, pairs in examples.items()
        }
        settings = PolicySettings.model_validate(policy)
        steps = Training.model_validate(training).inner_steps
        return cls(parameters, settings.new_tokens, steps, shown)

    def sampling(self, questions: Sequence[Question], completions: int) -> float:
        """Seconds for so many answers to each question."""
        each = completions * self.new_tokens
        tokens = sum(self._prompt(question) * completions + each for question in questions)
        return CALL_SECONDS + self._seconds(tokens, operations=2)

    def training(self, groups: Sequence[Scored]) -> float:
        """Seconds for a step on these groups."""
        tokens = 0
        for scored in groups:
            completions = scored.group.completions
            tokens += self._prompt(scored.group.question) * len(completions)
            tokens += sum(min(len(one.text), self.new_tokens) + 1 for one in completions)
        # Forward, backward, and the forward once more where activations are not kept; log-probs of
        # a reference and of the covariance's choice are two more forwards.
        return CALL_SECONDS + self._seconds(tokens * self.inner_steps, operations=12)

    def _prompt(self, question: Question) -> int:
        """Tokens of a prompt, which some engines compute for each of its completions."""
        characters = len(question.text) + self.shown.get(question.task, 0) + TEMPLATE_CHARACTERS
        return characters // TOKEN_CHARACTERS

    def _seconds(self, tokens: int, *, operations: int) -> float:
        return operations * self.parameters * tokens / SLOWEST_RATE
