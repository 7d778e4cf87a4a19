"""The form that every section of the settings shares."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A frozen group of settings: unknown keys are errors, field docstrings the documentation."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
