"""`make bench NAME=phase_memory`: memory between sampling and training, kept or given back.

A model of 12 million weights samples and is trained in rounds of changing size, as the daemon would
have it (swarmnode.hosted_policy), in a process of its own for each arm: `keep` and `release`
(`policy.release_memory`), one after the other and over again. Told are medians over the rounds
after the first, of processor time, which other processes disturb least: what releasing and taking
anew cost a phase, what the process holds between phases, and how that grows from the second round
to the last. Linux. About two minutes on an idle core; ARGUMENTS=REPEATS.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from swarmnode.children import THREAD_VARIABLES
from swarmnode.config.policy import PolicySettings
from swarmnode.config.training import Training
from tests.benchmarks.memory import order_of

ROUNDS = 6
COMPLETIONS = 8
NEW_TOKENS = 32
ARMS = ("keep", "release")
FIGURES = ("sampling", "training", "after_sampling", "after_training")


def main(arguments: Sequence[str]) -> int:
    """Run both arms in turn and print the table."""
    repeats = int(arguments[0]) if arguments else 2
    told: dict[str, list[Mapping[str, Any]]] = {arm: [] for arm in ARMS}
    with tempfile.TemporaryDirectory() as folder:
        _write_model(Path(folder))
        for repeat in range(repeats):
            for arm in ARMS[:: 1 if repeat % 2 == 0 else -1]:
                told[arm].append(_run(arm, folder))
    print(f"{'arm':<8}  sampling s  training s  MiB after sampling  after training  growth MiB")
    medians = {}
    for arm, runs in told.items():
        rounds = [one for run in runs for one in run["rounds"][1:]]
        medians[arm] = {name: statistics.median(one[name] for one in rounds) for name in FIGURES}
        growth = statistics.median(
            run["rounds"][-1]["after_training"] - run["rounds"][1]["after_training"] for run in runs
        )
        sampling, training, sampled, trained = medians[arm].values()
        print(
            f"{arm:<8}  {sampling:10.3f}  {training:10.3f}  {sampled:18.0f}  {trained:14.0f}"
            f"  {growth:10.0f}"
        )
    keep, release = (medians[arm]["sampling"] + medians[arm]["training"] for arm in ARMS)
    print(f"a round that releases takes {release / keep:.2f} times the processor time")
    return 0


def _run(arm: str, folder: str) -> Mapping[str, Any]:
    environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1")}
    child = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.phase_memory", "child", arm, folder],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    told: Mapping[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return told


def _write_model(folder: Path) -> None:
    """A Llama at random with a tokenizer of 304 ids; what it says doesn't matter here."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from tests.unit.model_support import chat_tokenizer

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=8192,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=12,
        num_attention_heads=8,
        num_key_value_heads=4,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    chat_tokenizer().save_pretrained(folder)


def _child(arm: str, folder: str) -> None:
    """One arm: rounds of 4 to 8 questions of 30 to 90 letters, half of the answers right."""
    import torch

    from swarmnode.hosted_policy import HostedPolicy

    torch.set_num_threads(1)
    policy = PolicySettings(
        model=folder, examples=0, max_new_tokens=NEW_TOKENS, release_memory=arm == "release"
    )
    host = HostedPolicy(order_of(policy, Training(activation_mib=256)))
    rng = random.Random(0)
    rounds = []
    for _ in range(ROUNDS):
        prompts = ["a" * rng.randint(30, 90) for _ in range(rng.randint(4, 8))]
        started = time.process_time()
        sampled = host.generate(prompts, COMPLETIONS)
        middle = time.process_time()
        after_sampling = _resident_mib()
        host.train([_group(*pair) for pair in zip(prompts, sampled, strict=True)])
        rounds.append(
            {
                "sampling": middle - started,
                "training": time.process_time() - middle,
                "after_sampling": after_sampling,
                "after_training": _resident_mib(),
            }
        )
    print(json.dumps({"rounds": rounds}))


def _group(prompt: str, completions: Sequence[Any]) -> dict[str, Any]:
    count = len(completions)
    return {
        "prompt": prompt,
        "task": "none",
        "source": "local",
        # Not cut off for the trainer, so that each is trained on.
        "completions": [[text, "stop", ids, logprobs] for text, _, ids, logprobs in completions],
        "rewards": [float(place % 2) for place in range(count)],
        "excluded": [],
        "same_tokenizer": True,
        "origin": "",
        "total_logprobs": [None] * count,
    }


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        _child(*sys.argv[2:4])
    else:
        sys.exit(main(sys.argv[1:]))
