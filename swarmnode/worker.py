"""The policy host's wiring: serves one or many policies to the daemon, one request at a time.

Started as `python -m swarmnode.worker FD` by the supervisor. The only process that imports torch;
it runs as many threads as it is told to, one as a rule: the same requests give the same numbers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import psutil
import torch
from transformers.utils.logging import disable_progress_bar

from swarmnode.config.channels import Channels
from swarmnode.config.policy import PolicySettings
from swarmnode.config.rounds import Rounds
from swarmnode.config.training import Training
from swarmnode.hosted_generator import HostedGenerator
from swarmnode.hosted_policy import HostedPolicy, models_folder
from swarmnode.policy.device import available_bytes, choose_device
from swarmnode.policy.loading import estimated_memory
from swarmnode.policy.memory import Estimate
from swarmnode.policy.preflight import check_fits, described
from swarmnode.process import Handlers, inherited_socket, serve
from swarmnode.reward_models.panel import Shelf, panel_memory


def computing_threads(environment: Mapping[str, str]) -> int:
    """As children.py tells it: one, unless it is said otherwise."""
    return int(environment.get("OMP_NUM_THREADS", "1"))


def _estimate(order: dict[str, Any], shelf: Shelf) -> Estimate:
    """The memory that a policy will need at its peak, with the reward models that aren't open."""
    settings = PolicySettings.model_validate(order["policy"])
    wanted = estimated_memory(
        settings,
        Training.model_validate(order["training"]),
        Rounds.model_validate(order["rounds"]),
        models_folder(),
    )
    channels, device = Channels.model_validate(order["channels"]), choose_device(settings.device)
    judges = panel_memory(channels, device, shelf)
    return replace(wanted, reward_models=judges.weights, judging=judges.judging)


def _to_sample(order: dict[str, Any], shelf: Shelf) -> Estimate:
    """The same of a policy that only samples and judges."""
    trained = _estimate(order, shelf)
    return replace(trained, reference=0, optimizer=0, training=0)


def _check_fits(order: dict[str, Any], wanted: Estimate, earlier: Sequence[Estimate]) -> None:
    settings = PolicySettings.model_validate(order["policy"])
    device = choose_device(settings.device)
    in_use = psutil.Process().memory_info().rss if device.type == "cpu" else 0
    limit = settings.memory_limit_mib
    check_fits(wanted, earlier, in_use, available_bytes(device), limit)


def handlers(leaving: ExitStack | None = None) -> Handlers:
    """The host's methods over its policies, by the daemon's numbers.

    `leaving` is told what is to be done when the host ends in order.
    """
    at_the_end = leaving or ExitStack()
    policies: dict[int, HostedPolicy] = {}
    generators: dict[int, HostedGenerator] = {}
    estimates: dict[int, Estimate] = {}
    shelf: Shelf = {}

    def create(order: dict[str, Any]) -> dict[str, Any]:
        number, memory = order["number"], {}
        if order["rounds"] is not None:
            wanted = _estimate(order, shelf)
            earlier = [one for other, one in estimates.items() if other != number]
            _check_fits(order, wanted, earlier)
            estimates[number] = wanted
            memory = {"memory_bytes": wanted.total}
        made = policies[number] = HostedPolicy(order, shelf)
        at_the_end.callback(made.close)
        figures = made.figures()
        return {**figures, "figures": {**figures["figures"], **memory}}

    def create_generator(order: dict[str, Any]) -> dict[str, Any]:
        _check_fits(order, _to_sample(order, shelf), [])
        made = generators[order["number"]] = HostedGenerator(order, shelf)
        at_the_end.callback(made.close)
        return made.figures()

    def preflight(order: dict[str, Any]) -> dict[str, Any]:
        wanted = _estimate(order, shelf)
        _check_fits(order, wanted, [])
        return {"bytes": wanted.total, "parts": described(wanted)}

    def asked(
        method: Callable[..., Any], of: Mapping[int, object] = policies
    ) -> Callable[[dict[str, Any]], Any]:
        """A method of the policy that is asked for by its number."""

        def answered(ask: dict[str, Any]) -> Any:
            order = dict(ask)
            return method(of[order.pop("number")], **order)

        return answered

    return {
        "create": create,
        "create_generator": create_generator,
        "preflight": preflight,
        "generate": asked(HostedPolicy.generate),
        "answer": asked(HostedPolicy.answer),
        "lengths": asked(HostedPolicy.lengths),
        "train": asked(HostedPolicy.train),
        "weights": asked(HostedPolicy.weights),
        "publish_weights": asked(HostedPolicy.publish_weights),
        "take_weights": asked(HostedGenerator.take_weights, generators),
        "sample": asked(HostedGenerator.sample, generators),
        "schedule": asked(HostedPolicy.schedule),
        "save": asked(HostedPolicy.save),
        "restore": asked(HostedPolicy.restore),
        "samples": asked(HostedPolicy.samples),
        "open": asked(HostedPolicy.open),
        "export": asked(HostedPolicy.export),
    }


if __name__ == "__main__":
    # The daemon's terminal is for what the user wants to know.
    disable_progress_bar()
    torch.set_num_threads(computing_threads(os.environ))
    with ExitStack() as leaving:
        serve(handlers(leaving), inherited_socket(sys.argv[1:]))
