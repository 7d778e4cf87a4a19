"""TRL's round for the whole-round benchmark: its own GRPOTrainer, told to take one step.

Set as the round asks: one optimizer step on all completions, AdamW (fused), clipping, no KL term,
its usual loss (DAPO's) and metrics. Its gradient checkpointing is off, which is faster; the batch
goes through training in micro-batches of N. The round lasts from the beginning of the step to its
end, so that setting up counts for nothing.
"""

from __future__ import annotations

from typing import Any

import torch

from tests.benchmarks.engine_peers_meter import Meter, count_model, count_products
from tests.benchmarks.engine_peers_work import (
    GRADIENT_CLIP,
    LEARNING_RATE,
    TEMPERATURE,
    Work,
    reward,
)


def measure(work: Work, meter: Meter, micro_batch: int) -> dict[str, float]:
    """Run one round; what was sampled and what the trainer logged."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOTrainer

    class Clock(TrainerCallback):  # type: ignore[misc]  # transformers is untyped
        """The beginning and the end of the only step."""

        def on_step_begin(self, *_arguments: Any, **_options: Any) -> None:
            meter.start()

        def on_step_end(self, *_arguments: Any, **_options: Any) -> None:
            meter.stop()

    def rewards(completions: list[Any], **_columns: Any) -> list[float]:
        return [reward(place % work.completions) for place in range(len(completions))]

    model = AutoModelForCausalLM.from_pretrained(work.model_folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(work.model_folder)
    count_model(meter, model)
    _count_scored(meter, model)
    trainer = GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        reward_funcs=rewards,
        args=_settings(work, micro_batch),
        train_dataset=Dataset.from_list(
            [{"prompt": [{"role": "user", "content": text}]} for text in work.prompts]
        ),
        callbacks=[Clock()],
    )
    trainer.train()
    logged = next(entry for entry in trainer.state.log_history if "grad_norm" in entry)
    completions = len(work.prompts) * work.completions
    return {
        "prompt_tokens": _prompt_tokens(tokenizer, work),
        "completion_tokens": completions * logged["completions/mean_length"],
        "weight_bytes": sum(one.numel() * one.element_size() for one in model.parameters()),
        "grad_norm": logged["grad_norm"],
        "entropy": logged["entropy"],
    }


def _count_scored(meter: Meter, model: Any) -> None:
    """TRL multiplies with the head's weights itself, at the places that have a label."""

    def counted(_module: Any, _inputs: Any, options: dict[str, Any], output: Any) -> None:
        if options.get("fused_lm_head"):
            places = int((options["labels"] != -100).sum())
            count_products(meter, model.lm_head.weight.numel(), places, output.log_probs)
            meter.count(0.0, passes=1)

    model.register_forward_hook(counted, with_kwargs=True)


def _settings(work: Work, micro_batch: int) -> Any:
    from trl import GRPOConfig

    return GRPOConfig(
        output_dir="trl",
        use_cpu=True,
        bf16=False,
        max_steps=1,
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=len(work.prompts) * work.completions // micro_batch,
        num_generations=work.completions,
        max_completion_length=work.new_tokens,
        generation_kwargs={"min_new_tokens": work.new_tokens} if work.forced else None,
        temperature=TEMPERATURE,
        top_p=1.0,
        top_k=0,
        beta=0.0,
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        optim="adamw_torch_fused",
        weight_decay=0.0,
        max_grad_norm=GRADIENT_CLIP,
        gradient_checkpointing=False,
        shuffle_dataset=False,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        seed=work.seed,
    )


def _prompt_tokens(tokenizer: Any, work: Work) -> int:
    return sum(
        len(
            tokenizer.apply_chat_template(
                [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=True
            )["input_ids"]
        )
        for text in work.prompts
    )
