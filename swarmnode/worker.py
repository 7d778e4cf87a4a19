"""The policy host's wiring: serves one or many policies to the daemon, one request at a time.

Started as `python -m swarmnode.worker FD` by the supervisor. The only process that imports torch;
it runs as many threads as it is told to, one as a rule: the same requests give the same numbers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from shutil import disk_usage
from typing import Any

import psutil
import torch
from transformers.utils.logging import disable_progress_bar

from swarmnode.config.channels import Channels
from swarmnode.config.policy import PolicySettings
from swarmnode.config.rounds import Rounds
from swarmnode.config.training import Training
from swarmnode.hosted_generator import HostedGenerator
from swarmnode.hosted_models import models_folder
from swarmnode.hosted_policy import HostedPolicy
from swarmnode.paths import shared_memory_folder
from swarmnode.policy.device import available_bytes, choose_device
from swarmnode.policy.likeness import likeness
from swarmnode.policy.loading import estimated_memory
from swarmnode.policy.memory import Estimate
from swarmnode.policy.needs import Needs
from swarmnode.policy.preflight import check_fits, described
from swarmnode.process import Handlers, inherited_socket, serve
from swarmnode.reward_models.panel import Shelf, panel_memory
from swarmnode.torchrun import TORCHRUN, place_of
from swarmnode.trainer_ranks import RanksLost, TrainerRanks, UnusableRanks, lead, lead_torchrun


def computing_threads(environment: Mapping[str, str]) -> int:
    """As children.py tells it: one, unless it is said otherwise."""
    return int(environment.get("OMP_NUM_THREADS", "1"))


def _estimate(order: dict[str, Any], shelf: Shelf, ranks: int = 1) -> Estimate:
    """The memory that a policy will need at its peak, with the reward models that aren't open."""
    settings = PolicySettings.model_validate(order["policy"])
    wanted = estimated_memory(
        settings,
        Training.model_validate(order["training"]),
        Rounds.model_validate(order["rounds"]),
        models_folder(),
        ranks,
    )
    channels, device = Channels.model_validate(order["channels"]), choose_device(settings.device)
    judges = panel_memory(channels, device, shelf)
    return replace(wanted, reward_models=judges.weights, judging=judges.judging)


def _to_sample(trained: Estimate) -> Estimate:
    """The same of a policy that only samples and judges."""
    return replace(trained, reference=0, optimizer=0, training=0)


def _needs(order: dict[str, Any], wanted: Estimate, whole: Estimate) -> Needs:
    """What a node needs as its settings say: `wanted` is for each process that trains, `whole` what
    one process would need for all."""
    settings = PolicySettings.model_validate(order["policy"])
    device = choose_device(settings.device)
    apart = device.type == "cuda"
    # On CUDA each of several has a device of its own.
    trainers = 1 if apart else settings.trainer_processes
    alone = Needs(wanted.total, described(wanted), available_bytes(device), trainers)
    if settings.mode == "sync":
        return alone
    sampling = _to_sample(whole)
    shared = settings.weights.channel == "shared-memory"
    return replace(
        alone,
        generators=settings.generators,
        generator_bytes=sampling.total,
        generator_parts=described(sampling),
        shared_bytes=2 * whole.trained if shared else 0,
        shared_available_bytes=disk_usage(shared_memory_folder(os.getuid()).parent).free,
        shared_apart=apart,
    )


def _check_fits(
    order: dict[str, Any], wanted: Estimate, earlier: Sequence[Estimate], beside: int = 0
) -> None:
    """Whether there is room, also for so many ranks of the same machine."""
    settings = PolicySettings.model_validate(order["policy"])
    device = choose_device(settings.device)
    if device.type == "cpu":  # of which the others have no memory of their own
        earlier = [*earlier, *[wanted] * beside]
    in_use = psutil.Process().memory_info().rss if device.type == "cpu" else 0
    limit = settings.memory_limit_mib
    check_fits(wanted, earlier, in_use, available_bytes(device), limit)


JOINT: Mapping[str, Callable[..., Any]] = {
    "generate": HostedPolicy.generate,
    "answer": HostedPolicy.answer,
    "samples": HostedPolicy.samples,
    "train": HostedPolicy.train,
    "publish_weights": HostedPolicy.publish_weights,
    "save": HostedPolicy.save,
    "restore": HostedPolicy.restore,
}
"""What all ranks of a trainer do together, beside making the policy."""
END = "end"
"""What the first rank tells the others when it ends in order."""


def joint_methods(
    policies: dict[int, HostedPolicy], shelf: Shelf, ranks: TrainerRanks | None
) -> Handlers:
    """Those of `JOINT`, and `create`, over policies by their numbers."""

    def create(order: dict[str, Any]) -> HostedPolicy:
        if ranks is not None and not ranks.leads:
            # What the first rank's policy learns in its warm start goes to all when it is spread.
            order = {**order, "base_pairs": [], "skill_pairs": []}
        made = policies[order["number"]] = HostedPolicy(order, shelf, ranks)
        return made

    return {"create": create, **{name: _asked(one, policies) for name, one in JOINT.items()}}


def handlers(leaving: ExitStack | None = None, ranks: TrainerRanks | None = None) -> Handlers:
    """The host's methods over its policies, by the daemon's numbers.

    `leaving` is told what is to be done when the host ends in order. With `ranks`, the host is the
    first of several processes that train together.
    """
    at_the_end = leaving or ExitStack()
    policies: dict[int, HostedPolicy] = {}
    generators: dict[int, HostedGenerator] = {}
    estimates: dict[int, Estimate] = {}
    shelf: Shelf = {}
    joint = joint_methods(policies, shelf, ranks)
    if ranks is not None:
        joint = {name: partial(_led, ranks, name, method) for name, method in joint.items()}
        at_the_end.callback(ranks.tell, [END, None])

    def create(order: dict[str, Any]) -> dict[str, Any]:
        number, memory = order["number"], {}
        if ranks is not None:
            _check_ranks(order, ranks)
        if order["rounds"] is not None:
            wanted = _estimate(order, shelf, ranks.count if ranks else 1)
            earlier = [one for other, one in estimates.items() if other != number]
            _check_fits(order, wanted, earlier, ranks.local_count - 1 if ranks else 0)
            estimates[number] = wanted
            memory = {"memory_bytes": wanted.total}
        made: HostedPolicy = joint["create"](order)
        at_the_end.callback(made.close)
        figures = made.figures()
        return {**figures, "figures": {**figures["figures"], **memory}}

    def create_generator(order: dict[str, Any]) -> dict[str, Any]:
        _check_fits(order, _to_sample(_estimate(order, shelf)), [])
        made = generators[order["number"]] = HostedGenerator(order, shelf)
        at_the_end.callback(made.close)
        return made.figures()

    def preflight(order: dict[str, Any]) -> dict[str, Any]:
        processes = PolicySettings.model_validate(order["policy"]).trainer_processes
        wanted = _estimate(order, shelf, processes)
        _check_fits(order, wanted, [], processes - 1)
        return asdict(_needs(order, wanted, _estimate(order, shelf)))

    return {
        **joint,
        "create": create,
        "create_generator": create_generator,
        "preflight": preflight,
        "likeness": lambda _nothing: likeness(),
        "lengths": _asked(HostedPolicy.lengths, policies),
        "weights": _asked(HostedPolicy.weights, policies),
        "take_weights": _asked(HostedGenerator.take_weights, generators),
        "sample": _asked(HostedGenerator.sample, generators),
        "schedule": _asked(HostedPolicy.schedule, policies),
        "open": _asked(HostedPolicy.open, policies),
        "export": _asked(HostedPolicy.export, policies),
    }


def _asked(method: Callable[..., Any], of: Mapping[int, object]) -> Callable[[dict[str, Any]], Any]:
    """A method of the policy that is asked for by its number."""

    def answered(ask: dict[str, Any]) -> Any:
        order = dict(ask)
        return method(of[order.pop("number")], **order)

    return answered


def _led(ranks: TrainerRanks, name: str, method: Callable[[Any], Any], payload: Any) -> Any:
    """What the first rank does with the others; without them it ends."""
    try:
        ranks.tell([name, payload])
        return ranks.together(partial(method, payload))
    except RanksLost as error:
        sys.stderr.write(f"policy host: {error}; it ends, and is started anew\n")
        sys.stderr.flush()
        os._exit(1)


def _check_ranks(order: Mapping[str, Any], ranks: TrainerRanks) -> None:
    """Raise UnusableRanks before anything is loaded."""
    ranks.check(choose_device(PolicySettings.model_validate(order["policy"]).device))
    if order.get("scheduling"):
        raise UnusableRanks(
            "this scheduling.kind looks at gradients, of which each of several trainer processes "
            "has a part: choose another one, or set policy.trainer_processes=1"
        )


def _ranks(words: list[str], environment: Mapping[str, str]) -> TrainerRanks | None:
    """The ranks that the command line asks for, once they are there; None without."""
    if not words:
        return None
    if words[0] != TORCHRUN:
        return lead(int(words[0]))
    place = place_of(environment)
    return None if place is None else lead_torchrun(place)


if __name__ == "__main__":
    # The daemon's terminal is for what the user wants to know.
    disable_progress_bar()
    torch.set_num_threads(computing_threads(os.environ))
    try:
        joined = _ranks(sys.argv[2:], os.environ)
    except RanksLost as error:
        sys.exit(f"policy host: {error}")
    with ExitStack() as leaving:
        serve(handlers(leaving, joined), inherited_socket(sys.argv[1:]))
