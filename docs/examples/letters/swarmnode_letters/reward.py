"""A reward: what a completion is paid beside being right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swarmnode.rewards.channels import Paid


class FewCommas:
    """Pays 0 for an answer without commas, and less for each."""

    def __init__(self, options: Mapping[str, object]) -> None:
        self._each = float(str(options.get("each", 0.1)))

    def rewards(self, completions: Sequence[Paid]) -> Sequence[float]:
        """One number for each completion of a question."""
        return [-self._each * one.text.count(",") for one in completions]
