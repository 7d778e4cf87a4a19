"""The doctor: whether this machine can run a node, and what to do where it can't.

`examine` gathers facts, `checks` judges them. Knows no command line; the status document of a
running node is passed in.
"""

from swarmnode.doctor.bundle import write_bundle
from swarmnode.doctor.checks import Check, Result, checks, healthy, running_checks
from swarmnode.doctor.dialling import Dialled
from swarmnode.doctor.examine import MachineFacts, examine
from swarmnode.doctor.exposure import Exposure, exposure_checks, exposure_of
from swarmnode.doctor.model import model_check
from swarmnode.doctor.training import small, training_checks

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
    "small",
    "training_checks",
    "write_bundle",
]
