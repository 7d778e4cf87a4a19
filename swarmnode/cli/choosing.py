"""Which swarm a command means, and the settings that fit it. Loads what the wire needs."""

from __future__ import annotations

import os
from pathlib import Path

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.config.settings import Settings
from swarmnode.home import Home, HomeError
from swarmnode.swarm_files import (
    SwarmFile,
    SwarmFileError,
    list_swarms,
    load_swarm,
    read_swarm_file,
)
from swarmproto import COMPLETIONS_MAX, COMPLETIONS_MIN, GROUPS_PER_BUNDLE_MAX, SwarmRules

DEFAULT_NAME = "swarmnode"
"""The swarm of those who name none: its rules follow from the tasks, so that equal tasks meet."""
COMPLETION_TOKENS_MAX = 4096


def made_home() -> Home:
    """The home, made where it is missing. Raises Mistake."""
    home = Home.of(os.environ)
    try:
        home.make()
    except HomeError as error:
        raise Mistake(str(error), Exit.CONFIG) from error
    return home


def swarm_of(
    settings: Settings, name: str, bootstrap: tuple[str, ...] = (), key: bytes = b""
) -> SwarmFile:
    """A swarm for these tasks, private if it has a key. Raises SwarmFileError."""
    rules = SwarmRules(
        name=name,
        tasks=tuple(sorted(settings.tasks.pairs)),
        completions_min=COMPLETIONS_MIN,
        completions_max=COMPLETIONS_MAX,
        completion_tokens_max=COMPLETION_TOKENS_MAX,
        groups_per_bundle_max=GROUPS_PER_BUNDLE_MAX,
    )
    return SwarmFile(rules, bootstrap, key)


def chosen_swarm(home: Home, wanted: str | None, settings: Settings) -> tuple[SwarmFile, Settings]:
    """The swarm that a command means; an address becomes one more bootstrap peer."""
    try:
        if wanted is None:
            return _only_one(home, settings), settings
        if wanted.startswith("/") and not wanted.endswith(".toml"):
            # A swarm file's check of its addresses holds for this one too.
            swarm_of(settings, DEFAULT_NAME, (wanted,))
            network = settings.network
            network = network.model_copy(update={"bootstrap": (*network.bootstrap, wanted)})
            settings = settings.model_copy(update={"network": network})
            return swarm_of(settings, DEFAULT_NAME), settings
        if wanted.endswith(".toml"):
            return read_swarm_file(Path(wanted)), settings
        return load_swarm(home.swarms, wanted), settings
    except SwarmFileError as error:
        raise Mistake(str(error), Exit.CONFIG) from error


def _only_one(home: Home, settings: Settings) -> SwarmFile:
    """The only one that was joined, or the default one. Raises Mistake and SwarmFileError."""
    match list(list_swarms(home.swarms).values()):
        case []:
            return swarm_of(settings, DEFAULT_NAME)
        case [SwarmFile() as joined]:
            return joined
        case [SwarmFileError() as unusable]:
            # Nobody who has joined a swarm is to find their node in another one.
            raise unusable
    raise Mistake("several swarms were joined: name one of `swarmnode swarm list`")


def fitting(settings: Settings, chosen: SwarmFile, *, own_tasks: bool) -> Settings:
    """Settings that keep the swarm's rules: its tasks, unless the user named some of them."""
    rules = chosen.rules
    if own_tasks:
        strange = set(settings.tasks.pairs) - set(rules.tasks)
        if strange:
            named = ", ".join(sorted(":".join(pair) for pair in strange))
            raise Mistake(f"the swarm {rules.name!r} does not ask {named}; leave --task out")
    else:
        names = tuple(":".join(pair) for pair in rules.tasks)
        tasks = settings.tasks.model_copy(update={"names": names})
        settings = settings.model_copy(update={"tasks": tasks})
    if settings.policy.new_tokens > rules.completion_tokens_max:
        raise Mistake(
            f"the swarm {rules.name!r} takes at most {rules.completion_tokens_max} tokens an "
            f"answer; give --set policy.max_new_tokens={rules.completion_tokens_max} or less"
        )
    completions = settings.rounds.completions_per_group
    if not rules.completions_min <= completions <= rules.completions_max:
        raise Mistake(
            f"the swarm {rules.name!r} takes {rules.completions_min} to {rules.completions_max} "
            "answers a question; set rounds.completions_per_group so"
        )
    return settings
