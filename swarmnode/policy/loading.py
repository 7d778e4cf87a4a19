"""From settings to a policy: which models exist and how each is built. Knows no warm start."""

from __future__ import annotations

from swarmnode.config.policy import PolicySettings
from swarmnode.policy.policy import Policy
from swarmnode.policy.tiny import build_tiny
from swarmnode.policy.tokenizer import PhraseTokenizer


class UnknownModel(ValueError):
    """No model has the name that the settings ask for."""


def load_policy(settings: PolicySettings, seed: int) -> Policy:
    """Build the policy that the settings name; its random start follows from the seed alone.

    Raises UnknownModel, whose text says what exists.
    """
    if settings.model != "tiny":
        raise UnknownModel(
            f"unknown model {settings.model!r}: this version has one model, 'tiny' "
            "(set policy.model to tiny, or leave --model out)"
        )
    tokenizer = PhraseTokenizer.load()
    return Policy("tiny", build_tiny(settings.tiny, len(tokenizer), seed), tokenizer)
