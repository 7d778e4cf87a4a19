"""The settings tree and how it is read: defaults < TOML file < environment < flags.

Knows no command line and opens no file but the one it is given. Every mistake is a SettingsError
with one line that names the setting, where it came from and what to do.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError, model_validator

from swarmnode.config.base import Section
from swarmnode.config.daemon import Daemon
from swarmnode.config.dashboard import Dashboard
from swarmnode.config.guard_rails import GuardRails
from swarmnode.config.metrics import Metrics
from swarmnode.config.network import Network
from swarmnode.config.policy import PolicySettings
from swarmnode.config.presets import BEYOND_TRAINING
from swarmnode.config.pretraining import Pretraining
from swarmnode.config.rewards import Rewards
from swarmnode.config.rounds import Evaluation, Rounds
from swarmnode.config.scheduling import Scheduling
from swarmnode.config.selection import Selection
from swarmnode.config.simulation import Simulation
from swarmnode.config.tasks import Tasks
from swarmnode.config.training import Training

ENVIRONMENT_PREFIX = "SWARMNODE_"
"""SWARMNODE_SECTION__NAME sets section.name."""


class SettingsError(Exception):
    """The settings cannot be used; the text is one line for the user."""


class Settings(Section):
    """Everything that can be set, by section."""

    tasks: Tasks = Tasks()
    """What is asked."""
    rounds: Rounds = Rounds()
    """What a round consists of."""
    policy: PolicySettings = PolicySettings()
    """The model and how it samples."""
    training: Training = Training()
    """The training step."""
    rewards: Rewards = Rewards()
    """Scoring, and what is paid beside success."""
    guard_rails: GuardRails = GuardRails()
    """What is watched in a node's own answers, and what happens when it gives way. A pair of limits
    is what warns and what is critical."""
    scheduling: Scheduling = Scheduling()
    """Who decides what is asked, or read, next."""
    selection: Selection = Selection()
    """What is taken from others."""
    network: Network = Network()
    """A node on a real network."""
    daemon: Daemon = Daemon()
    """A node that runs for days."""
    dashboard: Dashboard = Dashboard()
    """The page of a running node ([dashboard](dashboard.md))."""
    metrics: Metrics = Metrics()
    """What a running node keeps of its rounds for others to draw ([trackers](trackers.md))."""
    evaluation: Evaluation = Evaluation()
    """Held-out success."""
    pretraining: Pretraining = Pretraining()
    """Language modelling over text domains: `swarmnode pretrain`."""
    simulation: Simulation = Simulation()
    """A swarm on one machine."""

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, values: Any) -> Any:
        training = values.get("training") if isinstance(values, Mapping) else None
        preset = training.get("preset") if isinstance(training, Mapping) else None
        return _beneath(values, BEYOND_TRAINING[preset]) if preset in BEYOND_TRAINING else values


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and where each that was given comes from."""

    settings: Settings
    sources: Mapping[str, str]
    """By dotted name; the parts of a table have names of their own."""

    def origins(self) -> Iterator[tuple[str, Any, str]]:
        """Every setting: dotted name, value, and where that comes from."""
        for name, default, _ in describe(Settings):
            value: Any = self.settings
            for step in name.split("."):
                value = getattr(value, step)
            given = [
                source
                for known, source in self.sources.items()
                if known == name or known.startswith(f"{name}.")
            ]
            if given:
                yield name, value, " and ".join(dict.fromkeys(given))
            else:
                yield name, value, "default" if value == default else "training.preset"


def load_settings(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    assignments: Sequence[str] = (),
    flags: Mapping[str, object] | None = None,
    earlier: Mapping[str, Any] | None = None,
) -> Settings:
    """What `load_with_origins` reads, without where it comes from. Raises SettingsError."""
    return load_with_origins(
        file=file, environment=environment, assignments=assignments, flags=flags, earlier=earlier
    ).settings


def load_with_origins(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    assignments: Sequence[str] = (),
    flags: Mapping[str, object] | None = None,
    earlier: Mapping[str, Any] | None = None,
) -> Loaded:
    """Read the settings; `assignments` are texts such as `training.learning_rate=0.001`.

    `flags` are values by dotted name, which come last. `earlier` are those of an earlier run, as
    a tree, which stand in for the defaults; what has ceased to be a setting is left out of them.
    Raises SettingsError.
    """
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    _merge(values, sources, _still_there(_flat(earlier or {})), "the earlier run")
    if file is not None:
        _merge(values, sources, _flat(_read_toml(file)), str(file))
    _merge(values, sources, _from_environment(environment or {}), "the environment")
    _merge(values, sources, dict(map(_split_assignment, assignments)), "--set")
    _merge(values, sources, dict(flags or {}), "the command line")
    try:
        return Loaded(Settings.model_validate(values), sources)
    except ValidationError as error:
        raise SettingsError(_explain(error, sources)) from error


def describe(section: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """Every setting of a tree: dotted name, default, documentation."""
    for name, field in section.model_fields.items():
        default = field.get_default(call_default_factory=True)
        if isinstance(default, BaseModel):
            yield from describe(type(default), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", default, " ".join((field.description or "").split())


def parse_value(text: str) -> object:
    """A value as TOML would read it, or the text itself where it is no TOML value."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}; check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} is not valid TOML: {error}; correct it there") from error


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _still_there(flat: Mapping[str, Any]) -> dict[str, Any]:
    names = [name for name, _, _ in describe(Settings)]
    return {
        name: value
        for name, value in flat.items()
        if any(name == known or name.startswith(f"{known}.") for known in names)
    }


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    return {
        name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", "."): parse_value(text)
        for name, text in environment.items()
        if name.startswith(ENVIRONMENT_PREFIX) and "__" in name
    }


def _beneath(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The tree `values` with what it lacks taken from the tree `defaults`."""
    tree = dict(values)
    for name, default in defaults.items():
        if name not in tree:
            tree[name] = default
        elif isinstance(default, Mapping) and isinstance(tree[name], Mapping):
            tree[name] = _beneath(tree[name], default)
    return tree


def _split_assignment(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals:
        raise SettingsError(f"--set {text}: write it as --set section.name=value")
    return name.strip(), parse_value(value.strip())


def _merge(
    values: dict[str, Any], sources: dict[str, str], flat: Mapping[str, Any], source: str
) -> None:
    for name, value in flat.items():
        *path, last = name.split(".")
        branch = values
        for step in path:
            branch = branch.setdefault(step, {})
            if not isinstance(branch, dict):
                raise SettingsError(f"{name} (from {source}): {step} is a setting, not a section")
        branch[last] = value
        sources[name] = source


def _explain(error: ValidationError, sources: Mapping[str, str]) -> str:
    first = error.errors()[0]
    name = ".".join(str(step) for step in first["loc"])
    # An unknown section is reported as such; the user wrote a setting below it.
    name = next((known for known in sources if known.startswith(f"{name}.")), name)
    source = next((where for known, where in sources.items() if name.startswith(known)), "defaults")
    if first["type"] == "value_error":
        return f"{name} (from {source}): {first['ctx']['error']}"
    if first["type"] == "tuple_type":
        return f'{name} = {first["input"]!r} (from {source}): write a list, such as ["a", "b"]'
    if first["type"] == "missing":
        return f"{name} (from {source}) is missing; give it a value"
    if first["type"] == "model_type":
        return f"{name} (from {source}) is a section; set {name}.something, see docs/settings.md"
    if first["type"] != "extra_forbidden":
        message = first["msg"][:1].lower() + first["msg"][1:]
        return f"{name} = {first['input']!r} (from {source}): {message}"
    known = [setting for setting, _, _ in describe(Settings)]
    return f"{name} (from {source}) is no setting; {nearest(name, known)}"


def nearest(name: str, known: Iterable[str]) -> str:
    """A question after the known name that is most like it, or where all of them stand."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else "docs/settings.md lists them all"
