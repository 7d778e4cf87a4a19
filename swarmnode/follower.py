"""A rank of a trainer that is not the first: it does what the first one does, and answers nobody.

Started as `python -m swarmnode.follower PLACE` by the policy host, or in place of `swarmnode run`
by torchrun, which then also keeps it: it waits for a first rank that comes back. It ends when the
first one says so, and at once where that is gone.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from swarmnode.hosted_policy import HostedPolicy
from swarmnode.process import die_with_parent
from swarmnode.torchrun import Place, place_of
from swarmnode.trainer_ranks import RanksLost, TrainerRanks, next_life
from swarmnode.worker import END, computing_threads, joint_methods


def follow_to_the_end(ranks: TrainerRanks) -> None:
    """Do what is asked until the first rank ends in order. Raises RanksLost."""
    policies: dict[int, HostedPolicy] = {}
    methods: Mapping[str, Callable[[Any], Any]] = joint_methods(policies, {}, ranks)
    while True:
        method, payload = ranks.hear()
        if method == END:
            return
        try:
            ranks.together(partial(methods[method], payload))
        except RanksLost:
            raise
        except Exception as error:
            # The first one's answer says it too, where it isn't this rank's alone.
            sys.stderr.write(f"rank {ranks.rank}: {method}: {error}\n")


def main(words: list[str]) -> int:
    """Follow; the exit code."""
    die_with_parent()
    torch.set_num_threads(computing_threads(os.environ))
    of_torchrun = place_of(os.environ)
    place = of_torchrun or Place.of_arguments(words)
    last_life = int(words[0]) if of_torchrun and words else 0
    life = last_life
    try:
        store, life = next_life(place, last_life)
        ranks = TrainerRanks(place, store, life)
        # What has to end is decided by the first rank, which saves what was learned before.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        follow_to_the_end(ranks)
    except RanksLost as error:
        sys.stderr.write(f"rank {place.rank}: {error}\n")
        sys.stderr.flush()
        if of_torchrun is None or life == last_life:
            os._exit(1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        # Nothing of a process group that broke stays behind.
        os.execv(sys.executable, [sys.executable, "-m", "swarmnode.follower", str(life)])
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
