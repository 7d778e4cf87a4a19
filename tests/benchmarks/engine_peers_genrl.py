"""genrl's round for the whole-round benchmark: its own game, played for one round by one agent.

What it needs from outside and gets here: a data manager that hands out the round's questions as the
only user turn, and a reward function. Its null communication stands for a swarm of one. As it comes
it takes one Adam step after each micro-batch of 2, checkpoints activations, computes the old
log-probs in a pass of its own, trains on the re-encoded texts of its completions, and does not clip
gradients; none of that is changed, apart from the micro-batch and the checkpointing where a
contestant says so. Runs in the environment of engine_peers_environment.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tests.benchmarks.engine_peers_meter import Meter, count_model
from tests.benchmarks.engine_peers_work import LEARNING_RATE, TEMPERATURE, Work, reward


def measure(work: Work, meter: Meter, micro_batch: int | None) -> dict[str, float]:
    """Run one round; what was sampled and what the trainer kept as metrics.

    micro_batch: completions in a micro-batch, then without checkpointing; None leaves both as they
    come.
    """
    from genrl.trainer.grpo_trainer import GRPOLanguageTrainerModule, GRPOTrainerConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(work.model_folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(work.model_folder, padding_side="left")
    count_model(meter, model)
    options: dict[str, Any] = {}
    if micro_batch is not None:
        options = {"minibatch_size": micro_batch, "enable_gradient_checkpointing": False}
    trainer = GRPOLanguageTrainerModule(
        [model],
        GRPOTrainerConfig(
            num_generations=work.completions,
            max_new_tokens=work.new_tokens,
            temperature=TEMPERATURE,
            learning_rate=LEARNING_RATE,
            **options,
        ),
        processing_class=tokenizer,
    )
    if work.forced:
        trainer.generation_config.min_new_tokens = work.new_tokens
    torch.manual_seed(work.seed)
    lengths: list[int] = []
    game = _game(work, trainer, tokenizer, lengths)
    meter.start()
    game.run_game()
    meter.stop()
    kept = trainer._metrics["train"]["loss"]
    if trainer.global_step != 1 or not kept:
        # The game catches whatever goes wrong in a round and goes on.
        raise RuntimeError("genrl's round took no training step")
    return {
        "completion_tokens": sum(lengths),
        "weight_bytes": sum(one.numel() * one.element_size() for one in model.parameters()),
        "optimizer_steps": len(kept),
    }


def _game(work: Work, trainer: Any, tokenizer: Any, lengths: list[int]) -> Any:
    from genrl.communication.local.null_comm import NullCommunicationBackend
    from genrl.game import BaseGameManager
    from genrl.rewards import DefaultRewardManager, RewardFnStore, RoundRewardFnStore
    from genrl.state import GameState

    def rewards(state: GameState) -> Mapping[Any, Any]:
        found: dict[Any, Any] = {}
        for agent, batches in state.get_stage_actions(0).items():
            found[agent] = {
                batch: [[reward(place) for place in range(len(texts))] for texts in nodes]
                for batch, nodes in batches.items()
            }
            for nodes in batches.values():
                for texts in nodes:
                    lengths.extend(map(len, tokenizer(texts)["input_ids"]))
        return found

    store = RewardFnStore(1, [RoundRewardFnStore(1, [rewards])])
    return BaseGameManager(
        max_stage=1,
        max_round=1,
        game_state=GameState(round=0, stage=0),
        reward_manager=DefaultRewardManager(store),
        trainer=trainer,
        data_manager=_data_manager(work),
        communication=NullCommunicationBackend(),
        run_mode="train",
    )


def _data_manager(work: Work) -> Any:
    from datasets import Dataset
    from genrl.data import LocalMemoryTextDataManager

    class Questions(LocalMemoryTextDataManager):  # type: ignore[misc]  # genrl is untyped
        """The round's questions; nothing comes from a swarm."""

        def prompt_map(self, flattened_data: Mapping[str, str]) -> dict[str, Any]:
            return {"prompt": [{"role": "user", "content": flattened_data["question"]}]}

        def flatten_states(
            self, flattened_input: dict[str, list[str]], state: Any, stage: int
        ) -> dict[str, list[str]]:
            asked = flattened_input.setdefault("question", [])
            asked.append(state.environment_states["question"])
            return flattened_input

        def prepare_environment(self, *_arguments: Any) -> dict[str, Any]:
            return {}

        def prepare_opponent(self, *_arguments: Any) -> None:
            return None

        def prepare_personal(self, *_arguments: Any) -> None:
            return None

    def generated(**_options: Any) -> Dataset:
        return Dataset.from_dict({"question": list(work.prompts)})

    return Questions(
        train_dataset=None,
        column_name_map={"question": "question"},
        batch_item_id_column="question",
        data_generator=generated,
    )
