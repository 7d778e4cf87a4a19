"""Which models there are, known without torch."""

from __future__ import annotations

MODELS = ("tiny",)


class UnknownModel(ValueError):
    """No model has the name that the settings ask for."""


def check_model(name: str) -> None:
    """Raise UnknownModel, whose text says what exists, unless this version has the model."""
    if name not in MODELS:
        known = ", ".join(map(repr, MODELS))
        raise UnknownModel(f"unknown model {name!r}: this version has {known}; leave --model out")
