"""Questions: the tasks, their levels, exact regeneration, evaluation and warm start.

The scorer process makes a Catalogue. Importing this package loads no reasoning-gym, so that any
process may check names (`check`, `levels_of`) and print baselines.
"""

from swarmnode.tasks.baselines import baseline
from swarmnode.tasks.brought import BroughtTask, brought_task
from swarmnode.tasks.catalogue import Catalogue, Instance
from swarmnode.tasks.drafts import Draft
from swarmnode.tasks.errors import NoQuestion, RefusedTask, TaskError, UnknownTask, UnusableTask
from swarmnode.tasks.levels import EASY, LEVELS, PAPER
from swarmnode.tasks.other_tasks import DEFAULT, ENABLED, REFUSED
from swarmnode.tasks.registry import check, levels_of

__all__ = [
    "DEFAULT",
    "EASY",
    "ENABLED",
    "LEVELS",
    "PAPER",
    "REFUSED",
    "BroughtTask",
    "Catalogue",
    "Draft",
    "Instance",
    "NoQuestion",
    "RefusedTask",
    "TaskError",
    "UnknownTask",
    "UnusableTask",
    "baseline",
    "brought_task",
    "check",
    "levels_of",
]
