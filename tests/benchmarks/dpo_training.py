"""DPO by TRL (the extra `dev`) on preference pairs: from a folder of transformers to another one.

Direct preference optimization (Rafailov et al. 2023, arXiv 2305.18290), equation 7, as TRL 1.16
computes it: -log σ(β · (log π(y_w)/π_0(y_w) - log π(y_l)/π_0(y_l))) for a right answer y_w and a
wrong one y_l, π_0 being the policy of the start. Knows no study.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.dpo_pairs import Pair


@dataclass(frozen=True, slots=True)
class Recipe:
    """How DPO is trained."""

    steps: int
    """Optimizer steps."""
    pairs_per_step: int
    learning_rate: float
    beta: float
    """Weight of the log-ratios; the larger, the nearer the policy stays to its start."""
    warmup_steps: int
    seed: int


@dataclass(frozen=True, slots=True)
class DpoFigures:
    """What a training did."""

    margin: float
    """Mean of β · (log-ratio of the right answer less that of the wrong one) in the last step."""
    accuracy: float
    """Share of the last step's pairs in which that is above 0."""
    epochs: float
    """How often each pair was seen."""
    tokens: int
    """Of prompts and answers that were trained on, padding left out."""


def rows_of(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """The pairs as TRL's conversational preference data: its chat template makes our prompts."""
    return [
        {
            "prompt": [{"role": "user", "content": pair.question}],
            "chosen": [{"role": "assistant", "content": pair.chosen}],
            "rejected": [{"role": "assistant", "content": pair.rejected}],
        }
        for pair in pairs
    ]


def trainer_of(start: Path, pairs: Sequence[Pair], work: Path, recipe: Recipe) -> Any:
    """TRL's trainer, ready to train the model of the folder `start`."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import DPOConfig, DPOTrainer

    return DPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(start),
        train_dataset=Dataset.from_list(rows_of(pairs)),
        args=DPOConfig(
            output_dir=str(work),
            beta=recipe.beta,
            max_steps=recipe.steps,
            per_device_train_batch_size=recipe.pairs_per_step,
            learning_rate=recipe.learning_rate,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=recipe.warmup_steps,
            weight_decay=0.0,
            max_grad_norm=1.0,
            seed=recipe.seed,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            max_length=None,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        ),
    )


def train(start: Path, pairs: Sequence[Pair], out: Path, recipe: Recipe) -> DpoFigures:
    """Train, and write the policy into the folder `out`, tokenizer included."""
    from transformers import PrinterCallback

    trainer = trainer_of(start, pairs, out, recipe)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    trainer.save_model(str(out))
    logged = [entry for entry in trainer.state.log_history if "rewards/margins" in entry]
    return DpoFigures(
        margin=float(logged[-1]["rewards/margins"]),
        accuracy=float(logged[-1]["rewards/accuracies"]),
        epochs=float(trainer.state.epoch),
        tokens=int(logged[-1].get("num_tokens", 0)),
    )
