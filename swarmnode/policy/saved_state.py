"""All that a policy's future depends on, to and from a checkpoint's files.

model.safetensors holds the weights, or the adapters alone where these are trained;
optimizer.safetensors AdamW's moments by parameter name; reference.safetensors the weights that
training began with, where it is held near them; scheduler.safetensors and scheduler.json what a
scheduler beside the policy learned, where there is one; state.json the rest: scalars, generators,
settings, library versions and a JSON value of the daemon's. Safetensors and JSON only. Everything
is checked against the live policy before anything of it is changed, and saving changes nothing, no
generator included, so that a restored policy goes on bit for bit like one that never stopped (on
the same machine, libraries and threads).

Knows the trainer by the form of its state alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import torch
from pydantic import Field, JsonValue, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from swarmnode.config.base import Section
from swarmnode.policy.checkpoint import CheckpointError, Saved, save_checkpoint
from swarmnode.policy.plain_state import bytes_of, load_state, save_state
from swarmnode.policy.policy import Policy
from swarmnode.policy.saved_optimizer import Scalars, by_name, in_torchs_form
from swarmnode.policy.spreading import collected
from swarmnode.policy.weights import fill, read_weights, save_weights

_MODEL = "model.safetensors"
_OPTIMIZER = "optimizer.safetensors"
_REFERENCE = "reference.safetensors"
_STATE = "state.json"
_SCHEDULER = "scheduler"
_FORMAT = 1
_LIBRARIES = ("torch", "transformers", "safetensors", "tokenizers")
_HEADER_BYTES = 65_536
"""Room for headers and manifest in the estimate of a checkpoint's size."""


class CheckpointRefused(CheckpointError):
    """A sound checkpoint that does not belong to this policy; nothing was changed."""


class SavedTrainer(Protocol):
    """What is asked of a trainer, over one AdamW for all trainable parameters in their order."""

    @property
    def steps(self) -> int:
        """Optimizer steps so far: the policy's version."""

    def state_dict(self) -> dict[str, Any]:
        """`steps`, under `optimizer` torch's own form, and plain values under `channel_spread` and
        `log_prob_gate`."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a copy of such a state."""


class SavedScheduler(Protocol):
    """What is asked of a scheduler that lives beside the policy."""

    def state_dict(self) -> dict[str, Any]:
        """A tree of plain values and tensors."""

    def load_state_dict(self, saved: Mapping[str, Any] | None) -> None:
        """Continue from such a tree, or begin anew without one; the policy was loaded before."""


class _State(Section):
    """state.json."""

    format: int
    version: int
    model: str
    origin: str = ""
    """Which files the frozen weights below adapters are from; empty where all are trained."""
    tokenizer: str
    settings_sha256: str
    settings: dict[str, JsonValue]
    libraries: dict[str, str]
    generator: str
    """Base64 of the sampling generator's state."""
    optimizer: Scalars
    channel_spread: dict[str, list[float]] = Field(default_factory=dict)
    """The running deviation of reward channels."""
    log_prob_gate: dict[str, list[float]] = Field(default_factory=dict)
    """What is known of own completions."""
    extra: JsonValue


class PolicyState:
    """A policy with its trainer and its sampling generator, as one thing to save and to load.

    `settings` are plain values by section; a checkpoint that was saved under others is refused.
    What a `scheduler` of the policy's has learned lies beside it, in scheduler.json and
    scheduler.safetensors. Of several processes that hold a policy together all save and load, and
    all but one write nothing (`writes`); what is written is the same as one alone would.
    """

    def __init__(
        self,
        policy: Policy,
        trainer: SavedTrainer,
        generator: torch.Generator,
        settings: Mapping[str, Any],
        scheduler: SavedScheduler | None = None,
        *,
        writes: bool = True,
    ) -> None:
        self._scheduler = scheduler
        self._writes = writes
        self._policy = policy
        self._trainer = trainer
        self._generator = generator
        self._settings = dict(settings)
        self._parameters: dict[str, nn.Parameter] = {
            name: one for name, one in policy.model.named_parameters() if one.requires_grad
        }

    def save(self, folder: Path, extra: JsonValue) -> Saved:
        """Write a checkpoint into `folder`; `extra` comes back from `load`.

        Raises CheckpointError, also when `extra` is no JSON value: keys are texts, numbers finite.
        """
        trainer = self._trainer.state_dict()
        spread, scalars = by_name(trainer["optimizer"], list(self._parameters))
        moments = self._collected(spread)
        weights = self._collected(self._policy.saved_tensors())
        reference = self._collected(self._policy.reference_tensors())
        if not self._writes:
            return Saved(folder, 0, ())
        document = self._document(scalars, trainer, extra)
        scheduler = None if self._scheduler is None else self._scheduler.state_dict()

        def write(temporary: Path) -> None:
            try:
                save_weights(weights, temporary / _MODEL)
                if reference:
                    save_weights(reference, temporary / _REFERENCE)
                save_file(moments, temporary / _OPTIMIZER)
                if scheduler is not None:
                    save_state(scheduler, temporary, _SCHEDULER)
            except SafetensorError as error:
                raise OSError(str(error)) from error
            (temporary / _STATE).write_bytes(document)

        tensors = [*weights.values(), *reference.values(), *moments.values()]
        expected = sum(one.nbytes for one in tensors) + len(document) + _HEADER_BYTES
        expected += bytes_of(scheduler)
        return save_checkpoint(folder, self._trainer.steps, expected, write)

    def _collected(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return collected(tensors, keep=self._writes)

    def load(self, path: Path) -> JsonValue:
        """Continue from a verified checkpoint; returns its `extra`.

        Raises CheckpointRefused, OSError when a file cannot be read; the policy is unchanged then.
        """
        state = _parsed(path)
        self._check_origin(path, state)
        optimizer = self._optimizer_state(path, state)
        generator = self._checked_generator(path, state)
        weights = _checked(self._policy.saved_tensors(), path / _MODEL)
        reference = _checked(self._policy.reference_tensors(), path / _REFERENCE)
        scheduler = self._saved_scheduler(path)
        fill(self._policy.saved_tensors(), weights)
        fill(self._policy.reference_tensors(), reference)
        self._trainer.load_state_dict(
            {
                "steps": state.version,
                "optimizer": optimizer,
                "channel_spread": state.channel_spread,
                "log_prob_gate": state.log_prob_gate,
            }
        )
        self._generator.set_state(generator)
        self._policy.version = state.version
        if self._scheduler is not None:
            self._scheduler.load_state_dict(scheduler)
        return state.extra

    def _saved_scheduler(self, path: Path) -> Any:
        """What a scheduler had learned; None where nobody asks, or nothing was saved."""
        if self._scheduler is None or not (path / f"{_SCHEDULER}.json").exists():
            return None
        try:
            return load_state(path, _SCHEDULER)
        except (SafetensorError, ValueError) as error:
            raise _refusal(path, f"a scheduler that cannot be read: {error}") from error

    def load_policy(self, path: Path) -> JsonValue:
        """Take the weights and the version alone from a verified checkpoint; returns its `extra`.

        For a policy that is to be examined or exported under whatever settings; it cannot go on
        training as the saved one would. Raises as `load` does.
        """
        state = _parsed(path)
        self._check_policy(path, state)
        weights = _checked(self._policy.saved_tensors(), path / _MODEL)
        fill(self._policy.saved_tensors(), weights)
        self._policy.version = state.version
        return state.extra

    def _document(self, optimizer: Scalars, trainer: Mapping[str, Any], extra: JsonValue) -> bytes:
        generator = self._generator.get_state().numpy().tobytes()
        try:
            state = _State(
                format=_FORMAT,
                version=self._trainer.steps,
                model=self._policy.name,
                origin=self._policy.origin,
                tokenizer=self._policy.info.tokenizer_fingerprint.hex(),
                settings_sha256=_digest(self._settings),
                settings=self._settings,
                libraries={"python": platform.python_version()}
                | {library: version(library) for library in _LIBRARIES},
                generator=base64.b64encode(generator).decode(),
                optimizer=optimizer,
                channel_spread=trainer["channel_spread"],
                log_prob_gate=trainer["log_prob_gate"],
                extra=extra,
            )
            return json.dumps(state.model_dump(), indent=1, allow_nan=False).encode()
        except ValueError as error:
            raise CheckpointError("what is to be kept with the policy is no JSON value") from error

    def _check_policy(self, path: Path, state: _State) -> None:
        if state.model != self._policy.name:
            raise _refusal(path, f"model {state.model!r}, now it is {self._policy.name!r}")
        if state.tokenizer != self._policy.info.tokenizer_fingerprint.hex():
            raise _refusal(path, "another tokenizer")
        if state.origin != self._policy.origin:
            raise _refusal(path, "other files of that model (another commit, say)")

    def _check_origin(self, path: Path, state: _State) -> None:
        self._check_policy(path, state)
        if state.settings_sha256 == _digest(self._settings):
            return
        saved, live = dict(_flat(state.settings)), dict(_flat(self._settings))
        # A setting that only one side has came or went with an update of the program.
        for name in sorted(saved.keys() & live.keys()):
            if saved[name] != live[name]:
                raise _refusal(path, f"{name} = {saved[name]}, now it is {live[name]}")

    def _optimizer_state(self, path: Path, state: _State) -> dict[str, Any]:
        """torch's form of the optimizer's state, every name and shape checked."""
        try:
            moments = load_file(path / _OPTIMIZER)
        except SafetensorError as error:
            raise _refusal(path, f"an optimizer that cannot be read: {error}") from error
        live = self._trainer.state_dict()["optimizer"]
        try:
            return in_torchs_form(moments, state.optimizer, self._parameters, live)
        except ValueError as error:
            raise _refusal(path, str(error)) from error

    def _checked_generator(self, path: Path, state: _State) -> Tensor:
        try:
            data = bytearray(base64.b64decode(state.generator, validate=True))
            restored = torch.frombuffer(data, dtype=torch.uint8)
            torch.Generator(self._generator.device).set_state(restored)
        except (ValueError, RuntimeError) as error:
            raise _refusal(path, f"another kind of generator ({error})") from error
        return restored


def _checked(expected: Mapping[str, Tensor], path: Path) -> Mapping[str, Tensor]:
    """What a file holds for these tensors; it isn't there where there are none."""
    if not expected:
        return {}
    try:
        return read_weights(expected, path)
    except ValueError as error:
        raise CheckpointRefused(str(error)) from error


def _parsed(path: Path) -> _State:
    document = json.loads((path / _STATE).read_bytes())
    if document.get("format") != _FORMAT:
        raise _refusal(path, "another version of this program")
    try:
        return _State.model_validate(document, strict=True)
    except ValidationError as error:
        raise _refusal(path, "another version of this program") from error


def _refusal(path: Path, difference: str) -> CheckpointRefused:
    return CheckpointRefused(
        f"{path} was saved with {difference}; set that back, or move the folder"
        f" {path.parent} away to start anew"
    )


def _digest(settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
