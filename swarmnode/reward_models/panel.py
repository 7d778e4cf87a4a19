"""What judges a policy's completions beside rules: reward models, rewards of other packages.

From a round's completions to one more reward channel each. Completions of peers are judged like our
own: in our own judgement, from their text. What cannot be judged has no reward (NaN) in that
channel, is counted, and said once in words; it never ends a round.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice

import torch

from swarmnode.config.channels import Channels, RewardModel
from swarmnode.reward_models.judging import Judge, Judgement
from swarmnode.reward_models.opening import JudgeMemory, judge_memory, open_judge
from swarmnode.reward_models.own import load_rewards, paid_by
from swarmnode.rewards.channels import Paid

Shelf = dict[tuple[str, ...], Judge]
"""Reward models that are open in this process; policies that want the same share them."""


class Panel:
    """The judges of one policy."""

    def __init__(
        self,
        settings: Channels,
        device: torch.device,
        shelf: Shelf,
        tell: Callable[[str], None],
    ) -> None:
        """Open what counts. `tell` is told of what goes wrong, once for each kind and judge.

        Raises Refusal (UnusableModel, UnusableReward), whose text is one line for the user.
        """
        self._own = load_rewards(settings.own)
        self._judges = open_judges(settings, device, shelf)
        self._tell = tell
        self._told: set[tuple[str, str]] = set()
        self._counts: defaultdict[str, float] = defaultdict(float)

    def judged(
        self, groups: Sequence[Sequence[Paid]], known: Sequence[Mapping[str, Sequence[float]]] = ()
    ) -> list[Mapping[str, tuple[float, ...]]]:
        """The rewards of each group's completions by channel; counts what went wrong on the way.

        `known` has, for each group, what reward models of another process said of it.
        """
        self._counts.clear()
        channels: list[dict[str, tuple[float, ...]]] = [{} for _ in groups]
        for name, judgements in self._judgements(groups, known or [{}] * len(groups)):
            for one in judgements:
                self._counts[f"channels/too_long/{name}"] += one.too_long
                self._counts[f"channels/failed/{name}"] += one.failed
                if one.failed and (name, one.why) not in self._told:
                    self._told.add((name, one.why))
                    self._tell(f"the reward {name!r} could not be told: {one.why}")
            scores = chain.from_iterable(one.scores for one in judgements)
            for group, channel in zip(groups, channels, strict=True):
                channel[name] = tuple(islice(scores, len(group)))
        return list(channels)

    @property
    def parameters(self) -> int:
        """Of all reward models."""
        return sum(judge.parameters for judge in self._judges.values())

    @property
    def metrics(self) -> Mapping[str, float]:
        """Of the last groups, under names of `CHANNEL_METRICS`."""
        return dict(self._counts)

    def _judgements(
        self, groups: Sequence[Sequence[Paid]], known: Sequence[Mapping[str, Sequence[float]]]
    ) -> Iterator[tuple[str, Sequence[Judgement]]]:
        """By channel, what is said of all completions in their order."""
        for name, judge in self._judges.items():
            told = [_whole(each.get(name)) for each in known]
            texts = [
                (paid.prompt, paid.text)
                for group, scores in zip(groups, told, strict=True)
                if scores is None
                for paid in group
            ]
            found = judge.judge(texts) if texts else Judgement(())
            fresh = iter(found.scores)
            scores = chain.from_iterable(
                islice(fresh, len(group)) if scores is None else scores
                for group, scores in zip(groups, told, strict=True)
            )
            yield name, [replace(found, scores=tuple(scores))]
        for name, (reward, wanted) in self._own.items():
            yield name, [paid_by(reward, group, wanted.seconds) for group in groups]


def _whole(scores: Sequence[float] | None) -> Sequence[float] | None:
    """None as well where one is missing: then it is judged here, and counted what went wrong."""
    return scores if scores is not None and all(map(math.isfinite, scores)) else None


def open_judges(settings: Channels, device: torch.device, shelf: Shelf) -> Mapping[str, Judge]:
    """The reward models that count, by channel. Raises UnusableModel."""
    judges = {}
    for wanted in counting(settings):
        place = _place(wanted, settings)
        if place not in shelf:
            shelf[place] = open_judge(wanted, device, settings.judged_tokens)
        judges[wanted.name] = shelf[place]
    return judges


def scores_of(
    judges: Mapping[str, Judge], texts: Sequence[tuple[str, str]]
) -> list[dict[str, float]]:
    """What they say of each pair of prompt and completion, by channel; NaN for nothing."""
    said = {name: judge.judge(texts).scores for name, judge in judges.items()}
    return [{name: scores[place] for name, scores in said.items()} for place in range(len(texts))]


def counting(settings: Channels) -> Sequence[RewardModel]:
    """The reward models that are not left out."""
    return [each for each in settings.models if each.weight > 0.0]


def panel_memory(settings: Channels, device: torch.device, shelf: Shelf) -> JudgeMemory:
    """What the judges will need beside those that are open. Raises UnusableModel.

    They judge one after the other.
    """
    weights = judging = 0
    counted = set(shelf)
    for wanted in counting(settings):
        needed = judge_memory(wanted, device, settings.judged_tokens)
        place = _place(wanted, settings)
        weights += 0 if place in counted else needed.weights
        judging = max(judging, needed.judging)
        counted.add(place)
    return JudgeMemory(weights, judging)


def _place(wanted: RewardModel, settings: Channels) -> tuple[str, ...]:
    """Equal where the same judge serves."""
    told = wanted.model_dump(mode="json", exclude={"name", "weight"})
    return (*map(str, told.values()), str(settings.judged_tokens))
