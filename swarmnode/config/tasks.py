"""Settings of what is asked."""

from __future__ import annotations

from pydantic import Field, model_validator

from swarmnode.config.base import Section

SHORT_TASKS = (
    "base_conversion",
    "basic_arithmetic",
    "binary_matrix",
    "calendar_arithmetic",
    "decimal_arithmetic",
    "fraction_simplification",
)
"""Those of the swarm sampling paper's nine whose easy level a tiny model can learn in minutes."""


class Tasks(Section):
    """Which tasks are asked, and at which level."""

    names: tuple[str, ...] = Field(default=SHORT_TASKS, min_length=1)
    """Tasks, each `task` or `task:level`; without a level, `level` holds. Distinct names. Beside
    the default ones the paper has arc_1d, bf and propositional_logic; these nine have the levels
    easy and paper, other safe tasks of reasoning-gym the level default alone (docs/tasks.md), and
    those that other packages bring the levels that they say (docs/extend.md)."""

    level: str = "easy"
    """Level of the tasks that name none: easy (short questions for models below a million
    parameters), paper (the parameters of the swarm sampling paper's runs) or default."""

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Task and level of each name, in order."""
        split = (name.partition(":") for name in self.names)
        return tuple((task, level or self.level) for task, _, level in split)

    @model_validator(mode="after")
    def _names_tasks_once(self) -> Tasks:
        tasks = [task for task, _ in self.pairs]
        repeated = sorted({task for task in tasks if tasks.count(task) > 1})
        if repeated:
            raise ValueError(f"name each task once; repeated: {', '.join(repeated)}")
        return self
