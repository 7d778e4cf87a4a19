"""The models that the engine is measured on, and what they are asked.

`smollm2-135m` gets one question of each of eight tasks, as its chat template puts them; `tiny` gets
prompts of the demo's lengths.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from swarmnode.config.policy import PolicySettings
from swarmnode.paths import MODELS_FOLDER, cache_folder
from swarmnode.policy.loading import load_policy
from swarmnode.policy.policy import Policy
from swarmnode.tasks.catalogue import Catalogue
from swarmnode.tasks.levels import LEVELS

QUESTIONS, COMPLETIONS = 8, 8
TINY_PROMPT_TOKENS = (9, 13, 17, 22, 28, 36, 45, 57)


@dataclass(frozen=True, slots=True)
class Subject:
    """A model with prompts, and its size in floating-point operations."""

    settings: PolicySettings
    policy: Policy
    prompts: Sequence[Sequence[int]]

    def fresh(self) -> Policy:
        """Load the same model again, with parameters of its own."""
        return _loaded(self.settings)

    @property
    def body_operations(self) -> float:
        """Of one token's forward through all layers, attention left out."""
        embedding = self.policy.model.get_input_embeddings().weight
        head = self.policy.head_weight
        every = sum(one.numel() for one in self.policy.parameters())
        tables = embedding.numel() + (0 if head is embedding else head.numel())
        return float(2 * (every - tables))

    @property
    def head_operations(self) -> float:
        """Of one position's logits."""
        return 2.0 * self.policy.head_weight.numel()


def tiny() -> Subject:
    """The built-in model at the demo's shapes."""
    settings = PolicySettings()
    policy = _loaded(settings)
    encoded = [policy.encode_prompt("7" * (length - 1)) for length in TINY_PROMPT_TOKENS]
    assert tuple(map(len, encoded)) == TINY_PROMPT_TOKENS
    return Subject(settings, policy, encoded)


def smollm2(instruction: str = "") -> Subject:
    """The model that fits a laptop; raises UnusableModel without the extra that brings it."""
    settings = PolicySettings(model="smollm2-135m", instruction=instruction)
    policy = _loaded(settings)
    catalogue = Catalogue(bytes(32))
    drawn = [catalogue.draw(bytes(32), task, "easy", 0, 1)[0][0] for task in sorted(LEVELS)]
    texts = [instance.question.text for instance in drawn]
    encoded = sorted(map(policy.encode_prompt, texts), key=len)
    # The longest is left out: a padded batch would suffer from it more than we do.
    return Subject(settings, policy, encoded[:QUESTIONS])


def _loaded(settings: PolicySettings) -> Policy:
    return load_policy(settings, 0, cache_folder(os.environ) / MODELS_FOLDER)
