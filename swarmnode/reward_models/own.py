"""Rewards that another package brings: a user's own Python, found by entry point.

A reward is found by its name in the entry point group `swarmnode.rewards`; the entry point is
called with the options that the settings give it and returns an object with `rewards`. It runs in
the policy host, unconfined, as its user: it is trusted code over untrusted text. What it raises,
how long it takes and what it returns are contained here: the node goes on, and the completions have
no reward in that channel.
"""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from itertools import islice
from typing import Any, Protocol

from swarmnode.config.channels import OwnReward
from swarmnode.process import Refusal
from swarmnode.reward_models.judging import LARGEST, Judgement
from swarmnode.rewards.channels import Paid

ENTRY_POINT_GROUP = "swarmnode.rewards"


class Reward(Protocol):
    """Pays for completions; must not change them."""

    def rewards(self, completions: Sequence[Paid]) -> Sequence[float]:
        """One number for each completion of one question; NaN where there is nothing to say.

        Any scale will do where channels are normalised one by one (`normalise_then_sum`).
        """
        ...


class UnusableReward(Refusal):
    """A reward that the settings name cannot be had; the text is one line for the user."""


class _OutOfTime(BaseException):
    """Not an Exception, so that a reward that catches all of these is stopped as well."""


def load_reward(wanted: OwnReward) -> Reward:
    """The reward of that name. Raises UnusableReward, with the names that exist or the reason."""
    found = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if wanted.name not in found:
        known = ", ".join(sorted(found)) or "none"
        raise UnusableReward(
            f"no reward is called {wanted.name!r}; installed packages bring {known}"
        )
    try:
        made: Reward = found[wanted.name].load()(dict(wanted.options))
    except Exception as error:
        raise UnusableReward(
            f"the reward {wanted.name!r} ({found[wanted.name].value}) cannot be made: "
            f"{_told(error)}"
        ) from error
    if not callable(getattr(made, "rewards", None)):
        raise UnusableReward(
            f"the reward {wanted.name!r} ({found[wanted.name].value}) has no method `rewards`"
        )
    return made


def paid_by(reward: Reward, completions: Sequence[Paid], seconds: float) -> Judgement:
    """What it pays for the completions of a question; raises nothing of what goes wrong there.

    The limit of time holds for Python code that runs in the main thread, as a policy host's does.
    """
    try:
        with _limited(seconds):
            # What goes on without end would fill memory until its time is over.
            told = list(islice(reward.rewards(completions), len(completions) + 1))
            if len(told) != len(completions):
                more = "more than " * (len(told) > len(completions))
                count = min(len(told), len(completions))
                raise ValueError(f"{more}{count} rewards for {len(completions)} completions")
            numbers = [math.nan if each is None else float(each) for each in told]
    except _OutOfTime:
        return _failed(completions, f"it took over {seconds:g} s")
    except (Exception, SystemExit) as error:
        return _failed(completions, _told(error))
    beyond = [each for each in numbers if abs(each) > LARGEST]
    usable = tuple(math.nan if abs(each) > LARGEST else each for each in numbers)
    return Judgement(usable, failed=len(beyond), why=f"a reward is {beyond[0]:g}" if beyond else "")


def _failed(completions: Sequence[Paid], why: str) -> Judgement:
    count = len(completions)
    return Judgement((math.nan,) * count, failed=count, why=why)


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise _OutOfTime inside after so many seconds, where signals can be taken."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(_number: int, _frame: Any) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _told(error: BaseException) -> str:
    words = str(error).strip().splitlines()
    return f"{type(error).__name__}: {words[0]}" if words else type(error).__name__


def load_rewards(wanted: Sequence[OwnReward]) -> Mapping[str, tuple[Reward, OwnReward]]:
    """Those that count, by name. Raises UnusableReward."""
    return {each.name: (load_reward(each), each) for each in wanted if each.weight > 0.0}
