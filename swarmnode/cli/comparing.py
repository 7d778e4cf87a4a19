"""What `swarmnode simulate` compares: mixes, or the values of one setting."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from swarmnode.cli.exits import Mistake

Mix = tuple[int, int]

MIX = "mix"
"""What is compared where it is no setting."""

_NAME = re.compile(r"[A-Za-z0-9_.+-]+")
_COMMON = ("simulation", "tasks", "evaluation")
"""Sections that say who is asked what: all variants have to have them in common."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared, and of each variant by its name what it sets."""

    what: str
    variants: Mapping[str, Mapping[str, object]]


def parse_comparison(text: str) -> Comparison:
    """Of `8/0,4/4` or `scheduling.kind=uniform,sec,hds`. Raises Mistake."""
    setting, equals, values = text.partition("=")
    if not equals:
        mixes = [parse_mix(name) for name in text.split(",")]
        _once([mix_name(mix) for mix in mixes], "mix")
        return Comparison(MIX, {mix_name(mix): mix_flags(mix) for mix in mixes})
    from swarmnode.config.settings import parse_value

    setting = setting.strip()
    if setting.split(".")[0] in _COMMON:
        raise Mistake(
            f"--compare {setting}: all variants have to be asked the same, so that no setting of "
            f"{', '.join(_COMMON[:-1])} or {_COMMON[-1]} can differ; run them one by one"
        )
    names = [name.strip() for name in values.split(",")]
    for name in names:
        if not _NAME.fullmatch(name):
            raise Mistake(
                f"--compare {setting}: {name!r} can't name a run; write single values such as "
                "scheduling.kind=uniform,sec"
            )
    _once(names, "value")
    return Comparison(setting, {name: {setting: parse_value(name)} for name in names})


def parse_mix(text: str) -> Mix:
    """Of `4/4`. Raises Mistake."""
    local, slash, external = text.strip().partition("/")
    if not (slash and local.isdecimal() and external.isdecimal()):
        raise Mistake(f"{text!r} is no mix; write local/external groups, such as 4/4")
    if int(local) + int(external) == 0:
        raise Mistake("a mix of 0/0 trains on nothing; take at least one group, such as 8/0")
    return int(local), int(external)


def mix_name(mix: Mix) -> str:
    """Such as 4/4."""
    return f"{mix[0]}/{mix[1]}"


def mix_flags(mix: Mix) -> dict[str, object]:
    """The settings of a mix."""
    return {
        "rounds.local_groups_per_round": mix[0],
        "rounds.external_groups_per_round": mix[1],
    }


def _once(names: list[str], kind: str) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise Mistake(
            f"--compare names {', '.join(repeated)} more than once; name each {kind} once"
        )
