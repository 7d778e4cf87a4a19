"""What the tests of saved policies share: a very small policy, its rounds, its checkpoints."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from safetensors.torch import load_file

from swarmnode.config.policy import PolicySettings, TinySettings, WarmStartSettings
from swarmnode.config.training import Training
from swarmnode.hosted_policy import HostedPolicy
from swarmnode.policy.weights import weights_digest

FILES = ("MANIFEST.json", "model.safetensors", "optimizer.safetensors", "state.json")
SMALL = TinySettings(width=16, layers=1, heads=2, feed_forward_width=16)
TRAINING = Training(learning_rate=1e-1, warmup_steps=100, weight_decay=0.1, inner_steps=2)
PROMPTS = ["Calculate 3 + 4.", "Simplify the fraction 6/8 to its lowest terms."]


def order(tiny: TinySettings = SMALL, seed: int = 7, **changes: Any) -> dict[str, Any]:
    """What makes a policy without a warm start; `changes` are those of its training."""
    policy = PolicySettings(
        tiny=tiny, max_new_tokens=8, warm_start=WarmStartSettings(base_steps=0, steps=0)
    )
    return {
        "policy": policy.model_dump(),
        "training": TRAINING.model_copy(update=changes).model_dump(),
        "channels": {},
        "log_prob_gate": {},
        "seed": seed,
        "sampling_seed": seed,
        "shared_seed": 1,
        "base_pairs": [],
        "skill_pairs": [],
        "cache_folder": None,
        "examples": {},
    }


def recorded(number: int) -> dict[str, Any]:
    """A peer's group, as the daemon hands it over; it follows from the number alone."""
    generator = random.Random(number)
    texts = [str(generator.randrange(100)) for _ in range(4)]
    return {
        "prompt": f"Calculate {number} + {number}.",
        "task": "basic_arithmetic",
        "source": "external",
        "rewards": [1.0, 0.0, 0.0, 1.0],
        "excluded": [],
        "same_tokenizer": True,
        "origin": "peer",
        "total_logprobs": [None] * 4,
        "completions": [[text, "stop", None, None] for text in texts],
    }


class Sampling(Protocol):
    """What a round asks of a policy."""

    def generate(self, prompts: Sequence[str], completions: int) -> list[list[list[Any]]]: ...

    def train(self, groups: Sequence[dict[str, Any]]) -> dict[str, Any]: ...


def rounds(policy: Sampling, numbers: range) -> list[Any]:
    """Sample, reward what is sampled by its text, train on it and on recorded groups."""
    sampled = []
    for number in numbers:
        groups = policy.generate(PROMPTS, 4)
        sampled.append(groups)
        local = [
            recorded(0)
            | {
                "prompt": prompt,
                "source": "local",
                "rewards": [float(len(text) % 2) for text, _, _, _ in group],
                "completions": group,
            }
            for prompt, group in zip(PROMPTS, groups, strict=True)
        ]
        policy.train([*local, recorded(number)])
    return sampled


def contents(path: Path) -> dict[str, bytes]:
    """The files of a checkpoint."""
    return {file.name: file.read_bytes() for file in path.iterdir()}


def digests(path: Path) -> dict[str, str]:
    """SHA-256 of a checkpoint's values; safetensors writes its metadata in any order."""
    return {
        "model": weights_digest(load_file(path / "model.safetensors")),
        "optimizer": weights_digest(load_file(path / "optimizer.safetensors")),
        "state": hashlib.sha256((path / "state.json").read_bytes()).hexdigest(),
    }


def saved(policy: HostedPolicy, folder: Path, extra: Any = None) -> Path:
    """Where a policy was saved."""
    return Path(policy.save(str(folder), extra)["path"])
