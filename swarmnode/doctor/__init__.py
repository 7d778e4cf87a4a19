"""The doctor: whether this machine can run a node, and what to do where it can't.

`examine` gathers facts, `checks` judges them. Knows no command line; the status document of a
running node is passed in.
"""

from swarmnode.doctor.checks import Check, Result, checks, healthy, running_checks
from swarmnode.doctor.examine import Dialled, MachineFacts, examine
from swarmnode.doctor.exposure import Exposure, exposure_checks, exposure_of
from swarmnode.doctor.model import model_check

__all__ = [
    "Check",
    "Dialled",
    "Exposure",
    "MachineFacts",
    "Result",
    "checks",
    "examine",
    "exposure_checks",
    "exposure_of",
    "healthy",
    "model_check",
    "running_checks",
]
