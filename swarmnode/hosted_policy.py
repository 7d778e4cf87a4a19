"""One policy in its host: sampling, steps, its scheduler and its checkpoints, by plain values.

The methods are those that the daemon may ask for by name (worker.py); what they take and give are
lists, texts and numbers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import Any

import torch

from swarmnode.config.channels import Channels
from swarmnode.config.external import LogProbGate
from swarmnode.config.policy import PolicySettings
from swarmnode.config.training import Training
from swarmnode.hosted_models import loaded_policy
from swarmnode.hosted_values import fields_of, training_group
from swarmnode.hosted_weights import PublishedWeights
from swarmnode.policy.checkpoint import newest_checkpoint
from swarmnode.policy.exporting import ExportForm, export_policy
from swarmnode.policy.released import release_memory
from swarmnode.policy.saved_state import PolicyState
from swarmnode.policy.warm_start import WarmStartPlan, warm_start
from swarmnode.policy.weights import WeightsCache
from swarmnode.progress import advanced
from swarmnode.reward_models.panel import Shelf
from swarmnode.reward_models.paying import Paying
from swarmnode.scheduling.agent.hosted import HostedOrder, HostedScheduler
from swarmnode.trainer_ranks import TrainerRanks
from swarmnode.training import OUT, Trainer, TrainingGroup, Treatment
from swarmnode.training.memory import ActivationCost, measured_cost
from swarmnode.training.ranks import ALONE
from swarmnode.types import FinishReason

_NOT_BOUND = {
    "warm_start",
    "device",
    "engine",
    "external",
    "memory_limit_mib",
    "release_memory",
    "threads",
    "trainer_processes",
    "mode",
    "generators",
    "remote_generators",
    "generators_address",
    "queue_groups",
    "max_policy_lag",
    "max_age",
    "weights",
}
"""Settings of the policy that may change while it is trained."""
_NOT_BOUND_IN_TRAINING = {"micro_batch_tokens", "activation_mib"}
"""Those of training: they change neither loss nor gradient, and memory may ask for others."""


class HostedPolicy:
    """One policy with its trainer and its generator."""

    def __init__(
        self,
        order: dict[str, Any],
        shelf: Shelf | None = None,
        ranks: TrainerRanks | None = None,
    ) -> None:
        """Make it; `shelf` holds the reward models that policies of one host share.

        Over `ranks` the policy is spread, and all of them are given the same order and requests;
        the first alone judges, samples and writes.
        """
        settings = PolicySettings.model_validate(order["policy"])
        started = time.monotonic()
        advanced("loading the model")
        self._policy = loaded_policy(settings, order)
        self._settings = settings
        self._warm_start(order)
        training = Training.model_validate(order["training"]).for_model(
            settings.model,
            adapters=settings.lora.rank > 0,
            device=self._policy.device.type,
        )
        if training.kl_weight > 0.0:
            self._policy.keep_reference()
        channels = Channels.model_validate(order["channels"])
        self._leads = ranks is None or ranks.leads
        self._ranks = ranks
        self._paying = Paying(
            channels if self._leads else Channels(),
            settings.new_tokens,
            self._policy.device,
            {} if shelf is None else shelf,
        )
        cost = self._spread(training)
        home = order.get("weights_home")
        self._weights = PublishedWeights(self._policy, settings, home)
        # What another process sampled, it sampled a few versions ago; a ratio to the sampler has
        # that in it.
        apart = home is not None and training.ratio_denominator == "old"
        self._trainer = Trainer(
            self._policy,
            training.model_copy(update={"local_correction": apart or training.local_correction}),
            settings.temperature,
            channels.weights,
            settings.new_tokens,
            LogProbGate.model_validate(order["log_prob_gate"]),
            ranks or ALONE,
            cost,
        )
        self._generator = torch.Generator().manual_seed(order["sampling_seed"])
        self._scheduler = None
        if scheduling := order.get("scheduling"):
            wanted = HostedOrder.from_values(scheduling, order["sampling_seed"])
            self._scheduler = HostedScheduler(wanted, self._policy.model)
        # The warm start has done its work before the first checkpoint: it may change freely.
        bound = {
            "policy": settings.model_dump(mode="json", exclude=_NOT_BOUND)
            | {"max_new_tokens": settings.new_tokens, "dtype": str(self._policy.dtype)[6:]},
            "training": training.model_dump(mode="json", exclude=_NOT_BOUND_IN_TRAINING),
            "rewards": {"channels": channels.model_dump(mode="json")},
        }
        self._state = PolicyState(
            self._policy,
            self._trainer,
            self._generator,
            bound,
            self._scheduler,
            writes=self._leads,
        )
        self._seconds = time.monotonic() - started

    def _warm_start(self, order: dict[str, Any]) -> None:
        settings, folder = self._settings.warm_start, order["cache_folder"]
        cache = None if folder is None else WeightsCache(Path(folder))
        for plan, pairs in (
            (WarmStartPlan.base(settings, order["shared_seed"]), order["base_pairs"]),
            (WarmStartPlan.specialist(settings, order["seed"]), order["skill_pairs"]),
        ):
            texts = [(question, answer) for question, answer in pairs]
            warm_start(self._policy, texts, plan, cache)

    def _spread(self, training: Training) -> ActivationCost | None:
        """Spread the policy where there are ranks; what its activations cost as a whole."""
        if self._ranks is None:
            return None
        policy = self._policy
        cost = measured_cost(policy, policy.device) if training.activation_limit_mib else None
        policy.shard(self._ranks.mesh(policy.device))
        return cost

    def figures(self) -> dict[str, Any]:
        """What the daemon wants to know of a new policy."""
        info = self._policy.info
        return {
            "name": info.name,
            "tokenizer_fingerprint": info.tokenizer_fingerprint,
            "figures": {
                "parameters": sum(one.numel() for one in self._policy.parameters()),
                "warm_start_seconds": self._seconds,
            },
            "dtype": str(self._policy.dtype)[6:],
            "device": str(self._policy.device),
            "judging_parameters": self._paying.parameters,
        }

    def generate(
        self, prompts: Sequence[str], completions: int, tasks: Sequence[str] = ()
    ) -> list[list[list[Any]]]:
        """Sample `completions` answers to each prompt."""
        return self._sampled(prompts, completions, self._generator, tasks)

    def answer(
        self, prompts: Sequence[str], greedy: bool, seed: int, tasks: Sequence[str] = ()
    ) -> list[list[Any]]:
        """Answer each prompt once with a generator of its own."""
        answers = self._policy.answer(
            prompts,
            self._settings.new_tokens,
            0.0 if greedy else self._settings.temperature,
            torch.Generator().manual_seed(seed),
            tasks,
        )
        return [fields_of(completion) for completion in answers]

    def samples(
        self, prompts: Sequence[str], completions: int, seed: int, tasks: Sequence[str] = ()
    ) -> list[list[list[Any]]]:
        """Sample as `generate` does, with a generator of its own."""
        return self._sampled(prompts, completions, torch.Generator().manual_seed(seed), tasks)

    def _sampled(
        self,
        prompts: Sequence[str],
        completions: int,
        generator: torch.Generator,
        tasks: Sequence[str],
    ) -> list[list[list[Any]]]:
        groups = self._policy.generate(
            prompts,
            completions,
            self._settings.new_tokens,
            self._settings.temperature,
            generator,
            tasks,
        )
        return [[fields_of(completion) for completion in group] for group in groups]

    def lengths(self, groups: Sequence[Sequence[tuple[str, FinishReason]]]) -> list[list[int]]:
        """Tokens of peers' completions, as they are trained on."""
        encode = self._policy.encode_completion
        return [[len(encode(text, finish)) for text, finish in group] for group in groups]

    def train(
        self, groups: Sequence[dict[str, Any]], watched: Sequence[dict[str, Any]] = ()
    ) -> dict[str, Any]:
        """Take one step; groups of peers whose text is too long for us are left out, counted."""
        encoded, fits = self._encoded(groups)
        fitting = self._paid(list(compress(groups, fits)), list(compress(encoded, fits)))
        report = self._trainer.step(
            fitting, list(compress(*self._encoded(watched))), self._scheduler
        )
        if self._settings.release_memory:
            release_memory(self._policy.device)
        self._policy.version = self._trainer.steps
        treated = iter(report.treatments)
        worth = iter(report.advantages)
        too_long = Treatment(OUT, "longer than max_new_tokens in our tokens")
        treatments = [next(treated) if fitting else too_long for fitting in fits]
        return {
            "version": self._policy.version,
            "metrics": {
                **report.metrics,
                **self._paying.metrics,
                "groups/too_long": float(fits.count(False)),
            },
            "treatments": [[one.level, one.why] for one in treatments],
            "advantages": [list(next(worth)) if fitting else [] for fitting in fits],
        }

    def _paid(
        self, groups: Sequence[dict[str, Any]], encoded: Sequence[TrainingGroup]
    ) -> Sequence[TrainingGroup]:
        """Groups with what they are paid for, which the first rank alone decides."""
        paid = self._paying.paid(groups, encoded) if self._leads else encoded
        if self._ranks is None:
            return paid
        channels = self._ranks.agreed([dict(one.further_channels) for one in paid])
        return [
            replace(one, further_channels={name: tuple(of) for name, of in found.items()})
            for one, found in zip(encoded, channels, strict=True)
        ]

    def _encoded(
        self, groups: Sequence[dict[str, Any]]
    ) -> tuple[Sequence[TrainingGroup], Sequence[bool]]:
        """Groups in our tokens, and whether all of a group's completions are within our limit."""
        encoded = [training_group(self._policy, group) for group in groups]
        limit = self._settings.new_tokens
        return encoded, [all(len(ids) <= limit for ids in one.completions) for one in encoded]

    def publish_weights(self, version: int, generators: Sequence[int] = ()) -> dict[str, Any]:
        """Hand the weights as they are to the generators, under that number. WeightsError."""
        return self._weights.publish(version, generators)

    def close(self) -> None:
        """Take back the weights that are shared."""
        self._weights.close()

    def weights(self) -> Sequence[float]:
        """The scheduler's shares of the tasks in the next round."""
        return self._scheduled().weights()

    def schedule(self, outcome: Mapping[str, Any]) -> Mapping[str, float]:
        """Tell the scheduler what a round's own groups gave; returns its metrics."""
        return self._scheduled().update(outcome)

    def _scheduled(self) -> HostedScheduler:
        if self._scheduler is None:
            raise ValueError("this policy was made without a scheduler")
        return self._scheduler

    def save(self, folder: str, extra: Any) -> dict[str, Any]:
        """Write a checkpoint that also keeps `extra`, a JSON value of the daemon's."""
        started = time.monotonic()
        saved = self._state.save(Path(folder), extra)
        return {
            "path": str(saved.path),
            "bytes": saved.size,
            "seconds": time.monotonic() - started,
            "rejected": [[each.name, each.reason] for each in saved.rejected],
        }

    def restore(self, folder: str) -> dict[str, Any]:
        """Continue from the newest sound checkpoint, if there is one."""
        newest = newest_checkpoint(Path(folder))
        restored = None
        if newest.path is not None:
            extra = self._state.load(newest.path)
            version = self._policy.version
            restored = {"path": str(newest.path), "version": version, "extra": extra}
        rejected = [[each.name, each.reason] for each in newest.rejected]
        return {"restored": restored, "rejected": rejected}

    def open(self, path: str) -> int:
        """Take the policy of a checkpoint, to examine or to export it; returns its version."""
        self._state.load_policy(Path(path))
        return self._policy.version

    def export(self, folder: str, form: ExportForm) -> None:
        """Write the policy into an empty folder in the form of transformers."""
        export_policy(self._policy, Path(folder), form)
