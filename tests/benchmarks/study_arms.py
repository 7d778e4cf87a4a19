"""An arm of a study in which each arm has one setting to tune. Knows no study."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StudyArm:
    """One way to do it, by its name on the page."""

    name: str
    description: str
    assignments: tuple[str, ...]
    """Of settings, as the study's protocol reads them."""
    options: tuple[str, ...] = ()
    """Three values of its one tuned setting, where it has one."""
    like: str = ""
    """The arm whose option it takes, where that is another one."""
