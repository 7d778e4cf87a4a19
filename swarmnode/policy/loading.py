"""From settings to a policy: which models exist and how each is built. Knows no warm start."""

from __future__ import annotations

from swarmnode.config.policy import PolicySettings
from swarmnode.policy.engine import choose_engine
from swarmnode.policy.names import check_model
from swarmnode.policy.policy import Policy
from swarmnode.policy.text import PhraseCodec
from swarmnode.policy.tiny import build_tiny
from swarmnode.policy.tokenizer import PhraseTokenizer


def load_policy(settings: PolicySettings, seed: int) -> Policy:
    """Build the policy that the settings name; its random start follows from the seed alone.

    Raises UnknownModel (swarmnode.policy.names), whose text says what exists.
    """
    check_model(settings.model)
    codec = PhraseCodec(PhraseTokenizer.load())
    model = build_tiny(settings.tiny, codec.vocabulary_size, seed)
    return Policy("tiny", model, codec, choose_engine(model, "auto"))
