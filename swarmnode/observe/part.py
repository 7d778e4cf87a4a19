"""What the parts of the status document have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A frozen part of the document; fields that this version doesn't know are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)
