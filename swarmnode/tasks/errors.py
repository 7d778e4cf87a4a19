"""What goes wrong when questions are asked for. Each text is one line that names the remedy.

ValueError
└─ TaskError
   ├─ UnknownTask    no such task or level
   ├─ RefusedTask    reasoning-gym has it, but its scorer or generator is not safe here
   ├─ UnusableTask   an installed package brings it, and it does not work
   └─ NoQuestion     nothing can be asked at this index, or too few questions exist
"""

from __future__ import annotations


class TaskError(ValueError):
    """A question cannot be had."""


class UnknownTask(TaskError):
    """No such task, or the task has no such level."""


class RefusedTask(TaskError):
    """The task exists in reasoning-gym but is not enabled, for the reason given."""


class UnusableTask(TaskError):
    """Another package's task cannot be had, or its own answers are wrong by its own verifier."""


class NoQuestion(TaskError):
    """Nothing that can be scored is at the index, or the level has too few questions."""
