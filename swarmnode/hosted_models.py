"""From an order to the model that a host has of it, before any training."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from swarmnode.config.policy import PolicySettings
from swarmnode.paths import MODELS_FOLDER, cache_folder
from swarmnode.policy.loading import load_policy
from swarmnode.policy.policy import Policy


def loaded_policy(settings: PolicySettings, order: dict[str, Any]) -> Policy:
    """The model of an order with its examples, before any training. Raises UnusableModel."""
    policy = load_policy(settings, order["shared_seed"], models_folder())
    policy.examples = {
        task: [(question, answer) for question, answer in pairs]
        for task, pairs in order["examples"].items()
    }
    return policy


def models_folder() -> Path:
    """Where models that were fetched or converted are kept."""
    return cache_folder(os.environ) / MODELS_FOLDER
